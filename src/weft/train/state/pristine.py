"""The state of a process before its warm-up, kept until it is known that nobody needs it.

A newcomer warms up by a real step and is then given the state of the others. Only if all others are
lost before the first snapshot does the run begin anew, and then from a state that no step has
touched.
"""

from weft.train.state.book import StateBook
from weft.train.state.intake import Intake


class Pristine:
    """A copy of everything in the book."""

    def __init__(self, book: StateBook) -> None:
        self._book = book
        self._tensors = {name: tensor.detach().clone() for name, tensor in book.tensors().items()}
        self._facts, self._records = book.facts(), book.records()

    def restore(self) -> None:
        """As it was; state that the optimizer has made since is forgotten."""
        intake = Intake(self._book, self._records, self._facts)
        intake.make_room()
        for record in self._records:
            intake.put(record, self._tensors[record.name])
        intake.finish()
