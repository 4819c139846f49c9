"""State that comes in, by name and box: from a checkpoint, or from the members that an epoch has.

Both ends describe what they hold by records, and what is to be moved follows from the two lists:
nothing is paired by its position. What this program lacks is made, what the optimizer has made
here and the other end does not have is forgotten, and all else that does not fit is refused before
anything has changed.
"""

from collections.abc import Collection, Mapping, Sequence

import torch
from torch import Tensor

from weft.agent.checkpoint.document import Json
from weft.agent.checkpoint.layout import TensorRecord, common_part
from weft.train.state.book import StateBook


class Intake:
    """The tensors of one program, on their way to being those of another's state."""

    def __init__(
        self,
        book: StateBook,
        records: Sequence[TensorRecord],
        facts: Json,
        *,
        lacking: Collection[str] = (),
    ) -> None:
        """Of what the other end may be `lacking`, this program keeps its own."""
        self._book, self._records, self._facts = book, records, facts
        self._kept = {*lacking, *(record.name for record in records)}
        self._half: dict[str, Tensor] = {}
        self.tensors: dict[str, Tensor] = {}
        self.wanted = {record.name: record for record in book.fit(records, lacking=lacking)}
        book.check_facts(facts)

    def make_room(self) -> None:
        """From here on the program is no longer what it was."""
        self._book.take_groups(self._facts)
        self._book.forget_all_but(self._kept, self._facts)
        self._book.allocate(self._records)
        self.tensors = self._book.tensors()

    def put(self, held: TensorRecord, values: Tensor) -> None:
        """What the other end holds of a tensor, as far as it is wanted here."""
        part = common_part(held, self.wanted[held.name]) if held.elements else None
        if part is None:
            return
        of_held, of_wanted = part
        with torch.no_grad():
            self.tensors[held.name][of_wanted].copy_(values[of_held])

    def put_run(self, held: TensorRecord, start: int, values: Tensor) -> None:
        """Some of its elements; what cannot be written at once waits for the rest of it."""
        target = self.tensors[held.name]
        stop = start + values.numel()
        if _same_box(held, self.wanted[held.name]) and target.is_contiguous():
            with torch.no_grad():
                target.view(-1)[start:stop].copy_(values)
            return
        half = self._half.setdefault(held.name, torch.empty(held.sizes, dtype=values.dtype))
        half.view(-1)[start:stop].copy_(values)
        if stop == held.elements:
            self.put(held, self._half.pop(held.name))

    def place(self, held: TensorRecord, start: int, stop: int) -> Tensor | None:
        """Where those elements could be written directly, if they can."""
        target = self.tensors[held.name]
        direct = _same_box(held, self.wanted[held.name]) and target.device.type == "cpu"
        return target.view(-1)[start:stop] if direct and target.is_contiguous() else None

    def finish(self, changed: Mapping[str, Json] | None = None) -> None:
        """All that is no tensor; lent tensors go back to their objects.

        What has `changed` since the tensors were described is taken from there.
        """
        self._book.load_facts({**self._facts, **(changed or {})})


def _same_box(one: TensorRecord, other: TensorRecord) -> bool:
    return (one.offsets, one.sizes) == (other.offsets, other.sizes)
