"""One training process, step by step: who computes what, the vote, and the end.

A step is: take the samples that are this worker's by its place in the epoch, compute, sum the
gradients with the others, vote, apply. Nothing is applied unless everyone voted for it, so a step
is either committed on all members or on none; the one that hears no result asks the agent, who
knows from the others. Switches happen between steps, all at the same one, because the flag that
announces them travels with the gradients: see `weft.train.member` for how, and
`weft.agent.coordinator` for the other side.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

import torch
from torch import Tensor

from weft.agent.messages import NOWHERE, Committed, Farewell, Leaving, Ready
from weft.agent.outcome import DRAINED
from weft.crash import passing
from weft.model.errors import SpecError, WorldError
from weft.train.contact import Contact
from weft.train.ending import end_swiftly
from weft.train.group import Alone
from weft.train.loader import Loader, MicroBatch
from weft.train.member import Member, Result
from weft.train.pristine import Pristine
from weft.train.reducer import Flag, Reduction
from weft.train.saving import Saving
from weft.train.split import Share, shares
from weft.train.stages import Stage
from weft.train.state import StateBook

POINTS: Final = (  # of one step in their order, at each of which a process may die
    "step-opened",
    "batch-fetched",
    "before-backward",
    "bucket-sent",
    "after-backward",
    "summed",
    "before-vote",
    "vote-cast",
    "voted",
    "applied",
    "committed",
    "step-closed",
)
BORDER_POINTS: Final = ("before-snapshot", "snapshot-taken", "before-switch", "switched")


class Session(Member):
    """The loop of one process; with no contact it is the loop of plain PyTorch."""

    def __init__(
        self,
        contact: Contact | None,
        book: StateBook,
        reduction: Reduction,
        apply: Callable[[], None],
        *,
        logical: int | None = None,
    ) -> None:
        super().__init__(contact, book, reduction)
        self.logical = logical
        self._apply = apply
        self._micro: MicroBatch | None = None
        self._share_weight = 0.0
        self._part = 0
        self._serial = False
        self._backward_done = False
        self._warm_batch: MicroBatch | None = None
        self._why = ""
        self._turn_epoch = 0
        self._saving = self._made_saving()

    def _made_saving(self) -> Saving | None:
        if self.contact is None or self._control is None:
            return None
        return Saving(self.contact, self.book, self._control.tell)

    # ------------------------------------------------------------------------------ the loop

    def steps(self, loader: Loader, total: int) -> Iterator[MicroBatch]:
        """Micro-batch by micro-batch, until `total` steps are committed."""
        self._loader, self._total, self._global_batch = loader, total, loader.global_batch
        _hear_terminate(self)
        try:
            if self._control is not None:
                yield from self._warm_up()
            while self.result is Result.OUTSIDE or self.step < total:
                if self.result is Result.OUTSIDE:
                    self._enter_epoch()
                    continue
                yield from self._turn()
                self._after_turn()
            self._leave(Farewell.FINISHED)
        except GeneratorExit:  # left by `break` between two steps, or by an error within one
            if self.result is not Result.OPEN:
                self._leave(Farewell.FINISHED)
            raise
        finally:
            loader.close()

    def backward(self, loss: Tensor) -> None:
        """The backward pass of one micro-batch; on the last one of a step also the sum."""
        micro = self._open_micro("weft.backward")
        passing("before-backward")
        raised = self._raised() if micro.last else frozenset()
        if not self._share_weight:
            if self._groups.shard > 1:  # what a replica gathers in the forward pass it gives back
                (loss * 0.0).backward()  # type: ignore[no-untyped-call]
            self.stages.enter(Stage.COMM_EXPOSED)
            if self._have_buffers():
                self.reduction.contribute_nothing(raised)
        else:
            self.stages.enter(Stage.BACKWARD)
            self.reduction.before_backward(last=micro.last, raised=raised)
            (loss * (self._share_weight * self._groups.shard)).backward()  # type: ignore[no-untyped-call]
            passing("after-backward")
            self.stages.enter(Stage.COMM_EXPOSED)
            self.reduction.after_backward(
                last=micro.last,
                weight=self._share_weight,
                part=self._part // max(micro.samples, 1),
            )
        passing("summed")
        self._backward_done = True

    def _have_buffers(self) -> bool:
        """A newcomer's buffers come with the state, and only then from the sum of the step."""
        if not self._handover.receives:
            return True
        if not self._handover.arrived():
            self.reduction.failure = WorldError("the agent has halted this epoch")
            return False
        self.reduction.remember()
        return True

    def optimizer_step(self) -> bool:
        """In place of the optimizer's own: applies a step that everyone voted for."""
        micro = self._open_micro("opt.step")
        if not self._backward_done:
            raise SpecError("opt.step() before weft.backward(loss)", hint="see docs/training.md")
        if self.result is not Result.OPEN:
            raise SpecError("opt.step() twice in one micro-batch", hint="call it once")
        if micro.warmup:
            self._apply()
            self.result = Result.COMMITTED
            return True
        if not micro.last:
            return False
        self._settle()
        self.stages.enter(Stage.IDLE)
        return self.stepped

    @property
    def stepped(self) -> bool:
        """Whether the optimizer has stepped in this micro-batch."""
        return self.result is Result.COMMITTED

    @property
    def cursor(self) -> int:
        """Samples consumed by committed steps."""
        return self.step * self._global_batch

    # ------------------------------------------------------------------------------ one turn

    def _turn(self) -> Iterator[MicroBatch]:
        """All micro-batches of this worker in the present step."""
        self.result = Result.OPEN
        self._turn_epoch = self._groups.epoch
        self.stages.enter(Stage.IDLE)
        self._serial = self.stages.calibrating(self.step)
        self.reduction.overlap = not self._serial
        self.reduction.open(self._groups.gradients, self._groups.votes)
        self._begin_handover()
        passing("step-opened")
        mine = self._shares(self.step)
        for number, share in enumerate(mine):
            self.stages.enter(Stage.DATA_WAIT)
            micro = self._loader.fetch(share)
            self._expect(mine[number + 1 :])
            yield from self._hand_out(micro, share.start, share.samples)
        if not mine:
            yield from self._hand_out(self._stand_in(), 0, 0)

    def _hand_out(self, micro: MicroBatch, start: int, samples: int) -> Iterator[MicroBatch]:
        self._micro, self._backward_done = micro, False
        self._share_weight = samples / self._global_batch
        self._part = start % self._global_batch
        _seed(self._loader.seed, micro.step, self._part)
        passing("batch-fetched")
        self.stages.enter(Stage.FORWARD)
        yield micro
        self._micro = None
        if not self._backward_done:
            raise SpecError(
                "the loop's body did not call weft.backward(loss)",
                hint="call it once for each micro-batch, then opt.step()",
            )
        if micro.last and self.result is Result.OPEN:
            raise SpecError("the loop's body did not call opt.step()", hint="once per micro-batch")

    def _shares(self, step: int) -> tuple[Share, ...]:
        """This worker's part of a step; newcomers have none in their first."""
        replicas = self._donors if self._fresh_epoch else tuple(range(self._groups.replicas))
        if self._groups.replica not in replicas:
            return ()
        place, units = replicas.index(self._groups.replica), len(replicas)
        shard, within = self._groups.shard, self.rank % self._groups.shard
        return shares(
            step,
            self._global_batch,
            units * shard,
            place * shard + within,
            self._loader.micro,
            self.logical,
        )

    def _expect(self, rest: tuple[Share, ...]) -> None:
        """What will be wanted next, if nothing changes."""
        if self._serial:
            return
        coming = self.step + 1 < self._total and not self._fresh_epoch
        self._loader.expect((*rest, *(self._shares(self.step + 1) if coming else ())))

    def _stand_in(self) -> MicroBatch:
        """For a worker without samples in this step: something to run the loop's body on."""
        if self._warm_batch is None:
            self._warm_batch = self._loader.fetch(self._first_share(self.width))
        return replace(self._warm_batch, step=self.step, last=True, warmup=False)

    def _first_share(self, width: int) -> Share:
        """As large a micro-batch as this worker will see, for what only has to run."""
        workers = min(width, self._global_batch)
        return shares(0, self._global_batch, workers, 0, self._loader.micro, self.logical)[0]

    def _raised(self) -> frozenset[Flag]:
        control = self._control
        if control is None:
            return frozenset()
        armed = control.armed > self._groups.epoch
        wanted = {Flag.ARMED: armed, Flag.DRAIN: control.drain, Flag.SAVE: control.save}
        return frozenset(flag for flag, value in wanted.items() if value)

    # ------------------------------------------------------------------------------ the vote

    def _settle(self) -> None:
        """Vote; then apply the step, or find out what is to become of it."""
        self.stages.enter(Stage.COMM_EXPOSED)
        self._why = "a member voted against the step"
        sound = self._sound()
        passing("before-vote")
        passed: bool | None = None
        try:
            if self.reduction.failure is None:
                passed = self._groups.votes.all_true(sound)
        except Exception as error:
            self.reduction.failure = error
        if passed:
            passing("voted")
            return self._commit()
        pending = self.step if sound and passed is None else NOWHERE
        return self._mend(pending, str(self.reduction.failure or self._why))

    def _sound(self) -> bool:
        """Whether the sum is whole, and a newcomer's state with it."""
        if self.reduction.failure is not None:
            return False
        try:
            self._finish_handover()
        except Exception as error:
            self._why = str(error)
            self._groups.state.cut()
            return False
        return True

    def _commit(self) -> None:
        self.stages.enter(Stage.OPTIM)
        self._apply()
        passing("applied")
        self.committed += 1
        self.result = Result.COMMITTED
        now = time.monotonic()
        if self._fresh_epoch and self._control is not None:
            paused = self._paused_seconds(now)
            self._control.tell(Committed(self._groups.epoch, self.committed, paused))
        self._trained = now, self.width
        passing("committed")

    def _after_turn(self) -> None:
        """A step's border: everyone is here with the same step and has seen the same flags."""
        self._handover.forget()
        if self.result is Result.AGAIN:
            self.stages.drop_step()
            return
        if self.result is not Result.COMMITTED:
            return
        self.stages.add(Stage.COMM_BUSY, self.reduction.busy_seconds)
        self.stages.add(Stage.CPU_PREP, self._loader.take_busy_seconds())
        self.stages.close_step(self._global_batch)
        passing("step-closed")
        if self._control is None or self._groups.epoch != self._turn_epoch:
            return
        if self._fresh_epoch:
            self._prepare_saving()
        self._fresh_epoch = False
        self._report()
        if self.reduction.seen(Flag.DRAIN):
            self._save()
            self._leave(Farewell.DRAINED)
        if self.reduction.seen(Flag.SAVE):
            self._control.save = False
            self._save()
        if self._control.halted >= self._groups.epoch:
            self._mend(NOWHERE, "the agent has halted this epoch")
        elif self.reduction.seen(Flag.ARMED):
            self._switch()

    # ------------------------------------------------------------------- outside of any epoch

    def _warm_up(self) -> Iterator[MicroBatch]:
        """Everything that is slow once is done once, on a step that counts for nothing."""
        control = self._control
        assert control is not None
        began = time.monotonic()
        if control.welcome.warm:
            self._pristine = Pristine(self.book)
            first = self._first_share(control.welcome.width)
            batch = self._loader.fetch(first, warmup=True)
            self._warm_batch = batch
            self.result = Result.OPEN
            self.reduction.open(Alone(), Alone())
            yield from self._hand_out(replace(batch, last=True), 0, self._global_batch)
        self.result = Result.OUTSIDE
        passing("warmed")
        control.say(Ready(time.monotonic() - began, elastic=True))
        passing("ready")

    # ------------------------------------------------------------------- snapshots and the end

    def _save(self) -> None:
        if self._saving is None:
            return
        self.stages.enter(Stage.CKPT_BLOCK)
        self._saving.save(self._groups, self.committed, self.cursor)
        self.stages.enter(Stage.IDLE)

    def _prepare_saving(self) -> None:
        if self._saving is not None:
            self._saving.prepare(self._groups)

    def _leave(self, why: Farewell) -> None:
        control = self._control
        if control is None:
            return
        if why is Farewell.FINISHED:
            self._save()
        self._report(now=True)
        self._enter_section("ended")
        control.tell(Leaving(self._groups.epoch, self.committed, why))
        if self._saving is not None:
            self._saving.wait()
        self._groups.close()
        for closing in self._closing:
            closing.join()
        if why is not Farewell.FINISHED:
            end_swiftly(DRAINED)
            raise SystemExit(DRAINED)

    def _open_micro(self, who: str) -> MicroBatch:
        if self._micro is None:
            raise SpecError(
                f"{who}() outside of the loop", hint="call it inside `for mb in weft.steps(...)`"
            )
        return self._micro


def _seed(seed: int, step: int, part: int) -> None:
    """Chance in a micro-batch depends on its place in the run and on nothing else."""
    drawn = (seed * 1_000_003 + step) * 1_000_033 + part & 0x7FFF_FFFF_FFFF_FFFF
    torch.default_generator.manual_seed(drawn)  # a hundred times faster than torch.manual_seed
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.manual_seed_all(drawn)


def _hear_terminate(session: Session) -> None:
    """SIGTERM only raises a flag: all leave together at the next border."""
    control = session._control
    if control is None or threading.current_thread() is not threading.main_thread():
        return

    def raise_flag(number: int, frame: object) -> None:
        control.drain = True

    signal.signal(signal.SIGTERM, raise_flag)
