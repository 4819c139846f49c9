"""The state of a process before its warm-up, kept until it is known that nobody needs it.

A newcomer warms up by a real step and is then given the state of the others. Only if all others are
lost before the first snapshot does the run begin anew, and then from a state that no step has
touched.
"""

import torch

from weft.train.state import StateBook


class Pristine:
    """A copy of everything in the book."""

    def __init__(self, book: StateBook) -> None:
        self._book = book
        self._tensors = {name: tensor.detach().clone() for name, tensor in book.tensors().items()}
        self._facts = book.facts()

    def restore(self) -> None:
        """As it was; state that the optimizer has made since is forgotten."""
        book = self._book
        if not any(name.startswith("optimizer/") for name in self._tensors):
            book.optimizer.state.clear()
        with torch.no_grad():
            for name, tensor in book.tensors().items():
                tensor.copy_(self._tensors[name])
        book.load_facts(self._facts)
