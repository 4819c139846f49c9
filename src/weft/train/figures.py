"""Figures over all workers: means and lists of what each of them has found.

They are asked for where all workers are at the same place, which is behind a step that counts, in a
loop or after it. A worker that comes later passes through loops that are over, on its own; so the
question `weft.stepped()` must stand before, and a script that does not ask it is told so the first
time, not when it is first resized.

All that took part in the step are waited for. One that is lost within a loop is left out, unless it
had told its figure before: the same for all, since nothing is told after the loss is known. If one
is lost behind a loop, what stands there is done again by all, from the snapshot of the loop's end.
"""

import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import torch
from torch import Tensor

from weft.agent.messages import NOWHERE
from weft.agent.outcome import INFRASTRUCTURE
from weft.model.errors import SpecError
from weft.train.groups.store_gather import StoreGather
from weft.train.membership.ending import end_swiftly
from weft.train.membership.member import Member, Result
from weft.train.open_micro_batch import OpenMicroBatch
from weft.train.stages import Stage

Figure = TypeVar("Figure", Tensor, float)
LOOK_SECONDS: Final = 0.2
BEHIND_SECONDS: Final = 600.0  # that members of an evaluation behind a loop may differ by


class Figures:
    """Of one session: who is met, under which name, and for how long."""

    def __init__(self, member: Member, hand: OpenMicroBatch) -> None:
        self._member, self._hand = member, hand
        self._exchange: StoreGather | None = None
        self._met = (-1, -1, 0)  # the loop, the step, and how often they have met since
        self._workers: tuple[int, ...] = ()
        self.asked = False  # whether the script knows that it has stepped

    def enter_loop(self) -> None:
        """Nobody is known to be in it."""
        self._workers = ()

    def new_step(self, workers: Sequence[int]) -> None:
        """These take part in it, and are at the same place until the next one."""
        self._workers, self.asked = tuple(workers), False

    def leave_loop(self, members: Sequence[int]) -> None:
        """Newcomers of an epoch that has just begun are not here; without any step all are."""
        self._workers, self.asked = self._workers or tuple(members), False

    def common_mean(self, figure: float) -> float:
        """The mean of what each member found in its samples; behind a loop, of what each says."""
        weight = self._hand.share_weight if self._hand.micro is not None else 1.0
        return mean_of(figure, weight, lambda mine: self.gather(mine, "mean"))

    def gather(self, value: Tensor, who: str) -> list[Tensor]:
        """What each member has of it, in the order of their ranks."""
        micro = self._hand.micro
        if micro is not None and micro.warmup:
            return [value]
        return self._gathered(value, who, within=micro is not None)

    def _gathered(self, value: Tensor, who: str, *, within: bool) -> list[Tensor]:
        """`within` a loop or behind it."""
        member = self._member
        if member.contact is None or len(self._workers) == 1:
            return [value]
        if self._exchange is None:
            self._exchange = StoreGather(member.contact)
        meeting = self._next_meeting()
        if within:
            member.stages.enter(Stage.COMM_EXPOSED)
        self._exchange.tell(meeting, value)
        found = self._heard(self._exchange, meeting, who, within=within)
        self._exchange.close()
        if within:
            member.stages.enter(Stage.IDLE)
        return [one.to(value.device) for one in found]

    def check(self, who: str, *, stepped: bool) -> None:
        """Refuse it where not all workers come, or where the script does not know whether."""
        if stepped and self.asked:
            return
        raise SpecError(
            f"weft.{who}() where not all workers may come",
            hint="write `if weft.stepped():` before it: a worker that joins later passes through "
            "loops that are over, and micro-batches are not equally many on all",
        )

    def _next_meeting(self) -> str:
        place = self._member.book.progress.loop, self._member.committed
        count = self._met[2] + 1 if self._met[:2] == place else 0
        self._met = (*place, count)
        return ".".join(map(str, self._met))

    def _heard(
        self, exchange: StoreGather, meeting: str, who: str, *, within: bool
    ) -> list[Tensor]:
        found = {}
        began = time.monotonic()
        for worker in self._workers:
            while worker not in found:
                told = exchange.hear(meeting, worker, LOOK_SECONDS)
                if told is not None:
                    found[worker] = told
                elif self._is_lost(worker, within=within):
                    break
                else:
                    self._check_patience(worker, who, time.monotonic() - began, within=within)
        return list(found.values())

    def _is_lost(self, worker: int, *, within: bool) -> bool:
        """Look whether the epoch is broken; within a loop it is mended, and told by whom."""
        member = self._member
        if not member._is_halted():
            return member.result is Result.OUTSIDE or worker not in member._groups.members
        if not within:
            end_swiftly(INFRASTRUCTURE)
            raise SystemExit(INFRASTRUCTURE)
        member._mend(NOWHERE, "the agent has halted this epoch")
        return False

    def _check_patience(self, worker: int, who: str, seconds: float, *, within: bool) -> None:
        """Sooner than the agent would find that this worker hangs."""
        control = self._member._control
        assert control is not None
        most = control.hang_seconds / 2 if within else BEHIND_SECONDS
        if seconds > most:
            raise SpecError(
                f"worker {worker} has not come to weft.{who}() within {most:.0f} s",
                hint="call it on all workers and equally often, not behind weft.first()",
            )


def mean_of(value: Figure, weight: float, gather: Callable[[Tensor], list[Tensor]]) -> Figure:
    """Of what each worker has, by its weight."""
    mine = as_tensor(value).to(torch.float64) * weight
    weights = torch.tensor([weight], dtype=torch.float64, device=mine.device)
    found = torch.stack(gather(torch.cat([mine.reshape(-1), weights]))).sum(0)
    result = (found[:-1] / found[-1]).reshape(mine.shape)
    if isinstance(value, Tensor):
        return result.to(value.dtype if value.is_floating_point() else torch.get_default_dtype())
    return result.item()


def as_tensor(value: object) -> Tensor:
    """A number or a tensor, as the latter."""
    if isinstance(value, Tensor):
        return value.detach()
    if isinstance(value, int | float):
        return torch.tensor(value, dtype=torch.float64)
    raise SpecError(f"a {type(value).__name__} is no figure", hint="give a number or a tensor")
