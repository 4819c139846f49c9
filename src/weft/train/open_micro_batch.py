"""The micro-batch that the script has in hand, and what it has done with it so far.

A script calls `weft.backward` and `opt.step` once for each. What it leaves out or does twice is
refused here, with what to write instead.
"""

from weft.model.errors import SpecError
from weft.train.data.loader import MicroBatch


class OpenMicroBatch:
    """None between two of them."""

    def __init__(self) -> None:
        self.micro: MicroBatch | None = None
        self.share_weight = 0.0  # its part of the batch
        self.factor = 0.0  # what its loss is multiplied by
        self.part = 0  # where in the batch it begins
        self.backward_done = False

    def hand_out(self, micro: MicroBatch, start: int, samples: int, global_batch: int) -> None:
        self.micro, self.backward_done = micro, False
        self.share_weight = samples / global_batch
        self.part = start % global_batch

    def take_back(self, *, stepped: bool) -> None:
        """The script asks for the next one: this one must have been dealt with."""
        micro, self.micro = self.micro, None
        if not self.backward_done:
            raise SpecError(
                "the loop's body did not call weft.backward(loss)",
                hint="call it once for each micro-batch, then opt.step(); "
                "what is to count for nothing has weight=0",
            )
        if micro is not None and micro.last and not stepped:
            raise SpecError("the loop's body did not call opt.step()", hint="once per micro-batch")

    def asked_by(self, who: str) -> MicroBatch:
        if self.micro is None:
            raise SpecError(
                f"{who}() outside of the loop", hint="call it inside `for mb in weft.steps(...)`"
            )
        return self.micro

    def check_backward_is_new(self) -> None:
        """A second sum of a step would find the first one in the gradients."""
        if self.backward_done:
            raise SpecError(
                "weft.backward() twice in one micro-batch",
                hint="add the losses up: weft.backward(first + second)",
            )

    def check_step_is_due(self, *, is_open: bool) -> None:
        if not self.backward_done:
            raise SpecError("opt.step() before weft.backward(loss)", hint="see docs/training.md")
        if not is_open:
            raise SpecError("opt.step() twice in one micro-batch", hint="call it once")

    def check_no_step_is_open(self, *, is_open: bool) -> None:
        if self.micro is not None and is_open:
            raise SpecError(
                "weft.steps() within a step of another loop",
                hint="call opt.step() first, and have one loop at a time",
            )
