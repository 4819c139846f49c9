"""Gradients summed by torch's own DistributedDataParallel, over a group that comes and goes.

For those who trust nothing else. DDP's reducer, its buckets and its search for unused parameters
are torch's; Weft brings the group (`weft.train.groups.managed`) and what DDP leaves to its users:

    unequal shares      DDP divides by the number of members; losses are multiplied by it before
    nobody's gradient   stays none, also where this member has touched nothing
    who has no samples  takes part in all sums with zeros
    other members       a wrapper is made for each group, and thrown away with it
    running means       are summed by samples, where DDP would spread those of the first member

The wrapper is put around the loss and not around the forward pass. All that DDP does in a forward
pass is to look which parameters its outputs depend on, and the loss knows that better: a script may
call methods of its model, or its model twice, or not at all, and DDP sees all of it. Nothing is
broadcast when a wrapper is made, because newcomers have received the state of the others.

Gradients that cannot be summed within the backward pass are summed behind it, by DDP all the same:
those of a step that is measured, or in which state is handed over, and those of a model with a pass
within the pass (reentrant checkpointing), which DDP cannot look into and would refuse. The first
pass of a process shows whether there is one; should DDP find one later, the step is made again.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, Final

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from weft.model.errors import WorldError
from weft.train.gradients.book import GradientBook, Named
from weft.train.gradients.buffers import Buffers
from weft.train.gradients.flag import Flag
from weft.train.gradients.weighing import Weighing
from weft.train.gradients.word import NUMBERS, Word
from weft.train.groups.group import Group
from weft.train.groups.managed import ManagedGroup

NO_PASS: Final = -1
DDPS_MAP: Final = torch.int32  # the type of what DDP sums to find who has got a gradient
READY_TWICE: Final = "mark a variable ready only once"


class DdpReduction:
    """Sums by DDP, and beside them one of what DDP does not know: flags, weights, who has what."""

    def __init__(self, named: Callable[[], Named], buffers: Iterable[Tensor] = ()) -> None:
        self.failure: BaseException | None = None
        self.overlap = True
        self.busy_seconds = 0.0
        self.buffers = Buffers(list(buffers))
        self.gradients = GradientBook(named, self._arrived)
        self.weighing = Weighing(unit=1.0)  # gradients are in DDP's hands before they are weighed
        self._group: Group | None = None
        self._wrapped: Wrapped | None = None
        self._kept: dict[int, Tensor] = {}
        self._come: set[int] = set()  # whose gradient came in this step
        self._pass = NO_PASS  # torch's number of the present one
        self._passes = 0  # seen so far
        self._nested = False  # whether there are passes within them
        self._last = self._summed = False
        self._weight = 0.0
        self._look(anew=True)

    def open(self, gradients: Group, everyone: Group) -> None:
        if gradients is not self._group or self.failure is not None:
            self._unwrap()
        self.failure, self._group = None, gradients
        self._kept, self._come, self._weight = {}, set(), 0.0
        self._summed = False
        self.weighing.clear()
        self.gradients.clear()
        self._look()
        self._notes.zero_()
        if not self._alone:
            self.remember()
        if self._wrapped is not None:
            self._wrapped.group.open()

    def before_backward(self, *, last: bool, raised: frozenset[Flag]) -> None:
        self._look()
        self.gradients.give_back(self._kept)
        self.gradients.expecting = True
        self._last = last
        if last:
            self._word.say(raised, self.weighing.total)

    def backward(self, loss: Tensor) -> None:
        assert self._group is not None
        scaled = loss * self._group.size
        within = self._last and self.overlap and not self._alone
        if within and self._passes and not self._nested:
            self._sum_within(scaled)
        else:
            if scaled.requires_grad:
                scaled.register_hook(self._enter_pass)  # type: ignore[no-untyped-call]
            scaled.backward()  # type: ignore[no-untyped-call]
        self._passes += 1
        self._pass = NO_PASS

    def after_backward(self, *, last: bool, weight: float, part: int) -> None:
        self._weight += weight
        if last:
            self._finish()
        else:
            self._kept = self.gradients.take_away()
        self.gradients.expecting = False

    def contribute_nothing(self, raised: frozenset[Flag]) -> None:
        self._look()
        self.gradients.take_away()
        self._come = set()
        self._word.say(raised, self.weighing.total)
        self._finish()

    def seen(self, flag: Flag) -> bool:
        return self._word.seen(flag)

    def remember(self) -> None:
        self.buffers.remember()

    def forget(self) -> None:
        self.buffers.restore()

    @property
    def _alone(self) -> bool:
        """Then there is nothing to sum, and nothing to wrap."""
        return self._group is None or self._group.size == 1

    # ------------------------------------------------------------------------------ the wrapper

    def _look(self, *, anew: bool = False) -> None:
        """Another wrapper for those who take part now; what the old one has seen is kept here."""
        if not self.gradients.look() and not anew:
            return
        self._unwrap()
        mine = self.gradients.taking_part
        device = mine[-1].device if mine else None
        self._notes = torch.zeros(NUMBERS + len(mine), dtype=torch.float64, device=device)
        self._word = Word(self._notes[:NUMBERS])

    def _wrap(self) -> "Wrapped":
        if self._wrapped is None:
            assert self._group is not None
            managed = ManagedGroup(self._group, self._amend)
            self._wrapped = Wrapped(self.gradients.taking_part, managed)
        return self._wrapped

    def _unwrap(self) -> None:
        wrapped, self._wrapped = self._wrapped, None
        if wrapped is not None:
            wrapped.unwrap()

    def _arrived(self, parameter: Tensor) -> None:
        grad = parameter.grad
        if grad is None:
            return
        if grad.is_sparse:  # before DDP sees it: sums are dense
            parameter.grad = grad.to_dense()
        self._come.add(id(parameter))
        if self._pass not in (NO_PASS, _current_pass()):
            self._nested = True

    def _enter_pass(self, _: Tensor) -> None:
        self._pass = _current_pass()

    # ------------------------------------------------------------------------------ the sums

    def _whose(self) -> list[bool]:
        """Who has got a gradient in this step, in any of its passes."""
        return [id(one) in self._come for one in self.gradients.taking_part]

    @torch.no_grad()
    def _amend(self, tensor: Tensor) -> None:
        """Let DDP's map tell of the whole step.

        DDP itself knows the last pass alone, and would leave a gradient unsummed that came before.
        """
        if tensor.dtype is DDPS_MAP:
            told = torch.tensor([*Shell.MARKS, *self._whose()], dtype=DDPS_MAP)
            tensor.copy_(told)

    def _sum_within(self, loss: Tensor) -> None:
        self._summed = True
        try:
            self._wrap().backward(loss)
        except RuntimeError as error:
            if READY_TWICE not in str(error):
                raise
            self._nested = True
            self.failure = WorldError("DDP met a pass within the pass: the step is made again")

    def _finish(self) -> None:
        if self._alone:
            self.busy_seconds = 0.0
            self.gradients.finish(*self.weighing.take())
            return
        wrapped = self._wrap()
        if not self._summed and self.gradients.taking_part:
            wrapped.backward()
        wrapped.group.wait()
        self.failure = self.failure or wrapped.group.failure
        self._sum_beside()
        began = wrapped.group.began_seconds
        self.busy_seconds = time.perf_counter() - began if began else 0.0
        if self.failure is None:
            self._show()

    def _sum_beside(self) -> None:
        """Flags, weights and who has a gradient; then what the forward pass has changed."""
        if self.failure is not None:
            return
        assert self._group is not None
        try:
            with torch.no_grad():
                self._notes[NUMBERS:] = torch.tensor(self._whose(), dtype=torch.float64)
                self._group.sum(self._notes).wait()
                if self.buffers.live:
                    flat = self.buffers.packed(self._weight)
                    self._group.sum(flat).wait()
                    self.buffers.unpack(flat)
        except Exception as error:
            self.failure = error

    def _show(self) -> None:
        assert self._group is not None
        weight = self._word.weight(self._group.size)
        whose = (self._notes[NUMBERS:] > 0).tolist()
        for parameter, come in zip(self.gradients.taking_part, whose, strict=True):
            if not come:
                parameter.grad = None
            elif weight and parameter.grad is not None:
                parameter.grad.div_(weight)


class Wrapped:
    """DDP around some parameters, over one group."""

    def __init__(self, parameters: Sequence[nn.Parameter], group: ManagedGroup) -> None:
        self.group = group
        self._ddp: DistributedDataParallel | None = None
        self._shell: Shell | None = None
        if parameters:
            self._shell = Shell(parameters)
            self._ddp = DistributedDataParallel(
                self._shell,
                process_group=group,
                init_sync=False,
                find_unused_parameters=True,
            )

    def backward(self, *losses: Tensor) -> None:
        """Of a loss or of none; gradients that are there already go along."""
        assert self._ddp is not None
        assert self._shell is not None
        torch.autograd.backward(self._ddp(*losses, self._shell.ring()))

    def unwrap(self) -> None:
        """Nothing of it stays at the parameters, also if somebody still holds it."""
        if self._ddp is not None:
            self._ddp._remove_autograd_hooks()  # type: ignore[no-untyped-call]
        self._ddp = None


def _current_pass() -> int:
    return int(torch._C._current_graph_task_id())


class Shell(nn.Module):
    """What DDP takes for a model: parameters by themselves, and losses as they are.

    Two more are its own. One is the bell: DDP begins when the first gradient comes, and the bell's
    comes in each pass, also if there is no loss. One is used by nobody, for whoever has none such
    is advised by DDP not to look for them.
    """

    MARKS: ClassVar = (True, False)  # of those two in DDP's map

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        super().__init__()
        alike = parameters[0].detach().flatten()[:1]
        self.bell, self.unused = (nn.Parameter(torch.zeros_like(alike)) for _ in self.MARKS)
        self.held = nn.ParameterList(parameters)

    def ring(self) -> Tensor:
        """A loss of nothing."""
        self.bell.grad = None
        return self.bell.abs().sum() * 0.0

    def forward(self, *losses: Tensor) -> tuple[Tensor, ...]:
        return losses
