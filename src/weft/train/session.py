"""One training process, step by step: who computes what, the vote, and the end.

A step is: take the samples that are this worker's by its place in the epoch, compute, sum the
gradients with the others, vote, apply. Nothing is applied unless everyone voted for it, so a step
is either committed on all members or on none; the one that hears no result asks the agent, who
knows from the others. Switches happen between steps, all at the same one, because the flag that
announces them travels with the gradients: see `weft.train.membership.member` for how, and
`weft.agent.coordination.coordinator` for the other side.
"""

import atexit
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from torch import Tensor

from weft.agent.messages import NOWHERE, STATELESS, Farewell, Leaving, Pulse
from weft.agent.outcome import DRAINED, INFRASTRUCTURE
from weft.crash import passing
from weft.train.data.loader import Loader, MicroBatch
from weft.train.data.loops import Loops, check_that_it_ends
from weft.train.data.reading import Position, Reading, seed_chance
from weft.train.data.sample_post import Gone
from weft.train.data.split import Share
from weft.train.data.stream_place import StreamPlace
from weft.train.data.stream_sharing import StreamSharing
from weft.train.figures import Figures
from weft.train.gradients.backward import BackwardPass
from weft.train.gradients.flag import Flag
from weft.train.gradients.reducer import Reduction
from weft.train.groups.group import Alone
from weft.train.membership.contact import Contact
from weft.train.membership.ending import end_swiftly
from weft.train.membership.member import Member, Result
from weft.train.membership.protocol import Border
from weft.train.stages import Stage
from weft.train.state.book import StateBook
from weft.train.state.pristine import Pristine
from weft.train.state.saving import Saving


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
        offers: tuple[str, ...] = (),
    ) -> None:
        self.offers = offers
        self._loops = Loops()
        self._behind = False  # whether the script is behind a loop of which it has seen the end
        self._asked: int | None = 0  # steps in all that the present loop was asked for
        self._stream = StreamPlace(book, self._loops)
        super().__init__(contact, book, reduction)
        if contact is not None:
            self._stream.share(StreamSharing(contact, self._is_halted))
        self._backward = BackwardPass(reduction, self.stages, self._open, self._hand_over)
        self.logical = logical
        self._apply = apply
        self._void = False  # whether the present step counts without moving anything
        self.scaled = False  # whether a scaler of gradients is known
        self.scheduled = False  # whether a scheduler is
        self._serial = False
        self._idle = False  # whether this worker has no part in the present step
        self._computed = False  # whether anything was put into the present step
        self._turn_epoch = 0
        self._saving = self._made_saving()
        self.figures = Figures(self, self._open)
        if contact is not None:
            atexit.register(self._close_groups)

    def _made_saving(self) -> Saving | None:
        if self.contact is None or self._control is None:
            return None
        return Saving(self.contact, self.book, self._control.tell)

    # ------------------------------------------------------------------------------ the loop

    def steps(self, loader: Loader, total: int | None) -> Iterator[MicroBatch]:
        """One loop of the script: micro-batch by micro-batch, until `total` steps are committed.

        Without a total it is until the loader's present pass is over.
        """
        self._open.check_no_step_is_open(is_open=self.is_open)
        check_that_it_ends(loader, total)
        number = self._loops.enter(loader)
        self._behind = False
        self.figures.enter_loop()
        if self._is_over(number):
            return
        self._loader, self._asked, self._global_batch = loader, total, loader.global_batch
        self._total = total or 0
        self._reading = Reading(loader, self.logical)
        if self._control is not None:
            self._control.hear_terminate()
        try:
            yield from self._begin_loop(number)
            while self._goes_on(number):
                yield from self._turn()
                self._after_turn()
            self._end_loop()
        except GeneratorExit:
            if self._is_at_a_border and number == self._loops.number:
                self._end_loop(left=True)
            raise
        finally:
            loader.close()

    def _begin_loop(self, number: int) -> Iterator[MicroBatch]:
        """The first that this process comes to is where it warms up; all others are the script's.

        A loop that nobody has been in before begins here, on all members before the same step.
        """
        if self._has_state:
            self._step_in()
        elif self._control is not None:
            yield from self._warm_up()
        if self._has_state and self.book.progress.loop < number:
            self._loops.check_that_steps_are_left(self._total, self.step)
            self.book.progress = self.book.progress.in_next_loop()

    def _goes_on(self, number: int) -> bool:
        """Whether this loop has another step; a worker without an epoch waits for one here."""
        while self.result is Result.OUTSIDE:
            self._enter_epoch()
        self._loops.check(number)
        self._check_not_ahead(number)
        if self._is_over(number):
            return False
        if self._asked is None:
            self._total = self._loops.end_of_pass(self.book.progress)
        return self.step < self._total

    def _is_over(self, number: int) -> bool:
        """Whether the others, or an earlier life, have gone on from that loop."""
        if not self._has_state:
            return self._control is not None and number < self._control.welcome.loop
        progress = self.book.progress
        return number < progress.loop or (number == progress.loop and progress.left)

    def _end_loop(self, *, left: bool = False) -> None:
        """What follows may be killed, so it can be begun again from here.

        A loop that was left early may have been left by an error: for whoever mends the script
        there is a snapshot that does not know of it.
        """
        if self.result is Result.OPEN:
            self._take_back_the_step()
        self._open.micro = None
        self._behind = self.book.progress.loop == self._loops.number  # or the others are ahead
        self.figures.leave_loop(self._groups.members)
        self._save()
        if left:
            self.book.progress = self.book.progress.left_early()
            self._save()
        if self._saving is not None:
            self._saving.wait()
        self._report(now=True)
        self._step_out()
        self._part_from_newcomers()

    def _part_from_newcomers(self) -> None:
        """The state was on its way in a step that no longer is; it is sent anew in the next loop.

        The newcomers would wait in that step for one who is not in it any more.
        """
        if self._handover.under_way:
            self._handover.forget()
            self._groups.cut()

    def _take_back_the_step(self) -> None:
        """It was handed out, and the script has not wanted it: it was never begun."""
        if self._groups.replicas > 1:
            self.reduction.forget()
        self.result = Result.COMMITTED if self.book.progress.loops[-1] else Result.AGAIN

    @property
    def _is_at_a_border(self) -> bool:
        """Whether the loop was left between two steps, before anything was put into the next."""
        between = self.result is not Result.OPEN or not self._computed
        return self._has_state and between

    @property
    def _has_state(self) -> bool:
        """Whether this process stands where the job stands."""
        return self.committed > STATELESS and self.result is not Result.OUTSIDE

    def backward(self, loss: Tensor, weight: float | None = None) -> None:
        """The backward pass of one micro-batch; on the last one of a step also the sum."""
        hand = self._open
        micro = hand.asked_by("weft.backward")
        self.reduction.gradients.check()
        hand.check_backward_is_new()
        hand.factor = self.reduction.weighing.factor(hand.share_weight, weight)
        self._computed = True
        passing("before-backward")
        raised = self._raised() if micro.last else frozenset()
        if self._idle:
            self._backward.compute_nothing(loss, raised, self.plan)
        else:
            self._backward.compute(loss, micro, raised, self.plan)
        passing("summed")
        hand.backward_done = True

    @property
    def is_open(self) -> bool:
        """Whether nothing has become of the present step yet."""
        return self.result is Result.OPEN

    @property
    def share_weight(self) -> float:
        """The part that the present micro-batch is of the batch; none where it stands in."""
        return self._open.share_weight

    @property
    def loss_factor(self) -> float:
        """What the present loss is multiplied by."""
        return self._open.factor

    @property
    def has_sum(self) -> bool:
        """Whether the gradients to be seen are those of all workers, in a step that is open."""
        micro = self._open.micro
        summed = micro is not None and micro.last and self._open.backward_done
        return summed and self.is_open and self.reduction.failure is None

    def optimizer_step(self, *, void: bool = False) -> bool:
        """In place of the optimizer's own: applies a step that everyone voted for.

        A step that is void counts like others, and moves nothing.
        """
        self._void = void
        micro = self._open.asked_by("opt.step")
        self.reduction.gradients.check()
        self._open.check_step_is_due(is_open=self.is_open)
        if micro.warmup:
            self._apply_if_sound()
            self.result = Result.COMMITTED
            return True
        if not micro.last:
            return False
        self._settle()
        self.stages.enter(Stage.IDLE)
        return self.stepped

    @property
    def stepped(self) -> bool:
        """Whether the optimizer has stepped in this micro-batch.

        Behind a loop: whether this worker was there at its end, and has not passed through it.
        """
        micro = self._open.micro
        if micro is None:
            return self._behind
        if self.committed == STATELESS and not micro.warmup:
            return False  # a newcomer whose state is on its way yet
        return self.result is Result.COMMITTED

    def gather(self, value: Tensor, who: str) -> list[Tensor]:
        """What each member has of it; by whom it is asked for is told where that is refused."""
        self.figures.check(who, stepped=self.stepped)
        return self.figures.gather(value, who)

    def asked_stepped(self) -> bool:
        """The same, asked by the script."""
        self.figures.asked = True
        return self.stepped

    @property
    def cursor(self) -> int:
        """Samples consumed by committed steps."""
        return self._loops.samples(self.book.progress)

    # ------------------------------------------------------------------------------ one turn

    def _turn(self) -> Iterator[MicroBatch]:
        """All micro-batches of this worker in the present step."""
        self.result = Result.OPEN
        self._computed = False
        self._turn_epoch = self._groups.epoch
        self.figures.new_step(self._groups.members)
        self.stages.enter(Stage.IDLE)
        self._serial = self.stages.calibrating(self.step)
        self.reduction.open(self._groups.gradients, self._groups.votes)
        self.book.groups.remember()
        self._begin_handover()
        self.reduction.overlap = not self._serial and not self._handover.under_way
        passing("step-opened")
        part, members = self._protocol, self._groups.members
        self._stream.arrange(self._loader, part.epoch, members, part.sharers)
        number = self._loops.read(self.book.progress)
        mine = self._reading.shares(number, self._position)
        self._idle = not mine
        for place, share in enumerate(mine):
            self.stages.enter(Stage.DATA_WAIT)
            self._expect(mine[place:], number)
            try:
                micro = self._fetched(share)
            except Gone as error:
                return self._mend(NOWHERE, str(error))
            yield from self._hand_out(micro, share.start, share.samples)
        if not mine:
            yield from self._hand_out(self._stand_in(last=True), 0, 0)

    def _begin_handover(self, *, whole: bool = False) -> None:
        if self._protocol.joiners:
            self._stream.note()
        super()._begin_handover(whole=whole)

    def _pulse(self) -> Pulse:
        """A stream that is read up to where the job stands does not hang, however long it takes."""
        pulse = super()._pulse()
        if pulse.section != Stage.DATA_WAIT.value:
            return pulse
        return replace(
            pulse, section_seconds=min(pulse.section_seconds, self._stream.still_seconds())
        )

    def _cut(self, epoch: int) -> None:
        super()._cut(epoch)
        self._stream.cut()

    def _fetched(self, share: Share) -> MicroBatch:
        if not share.samples:
            return self._stand_in(last=share.last)
        return replace(self._loader.fetch(share), step=self.step)

    def _hand_out(self, micro: MicroBatch, start: int, samples: int) -> Iterator[MicroBatch]:
        self.figures.asked = False
        if self._turns is not None:
            self._loader.read_in_turn(self._turns.reading)
            micro = replace(micro, moving=self._turns.moving)
        self._open.hand_out(micro, start, samples, self._global_batch)
        seed_chance(self._loader.seed, micro.step, self._open.part)
        passing("batch-fetched")
        self.stages.enter(Stage.FORWARD)
        yield micro
        self._open.take_back(stepped=not self.is_open)

    @property
    def _position(self) -> Position | None:
        """This worker's place among those that bring samples; newcomers have none at first."""
        replicas, plan = self._donors, self.plan
        if self._groups.replica not in replicas:
            return None
        first = replicas.index(self._groups.replica) * plan.shard
        within = plan.reader(self.rank % plan.unit)
        return Position(len(replicas) * plan.shard, first + within, plan.shard)

    def _expect(self, rest: tuple[Share, ...], number: int) -> None:
        """What is wanted now and will be next, if nothing changes."""
        if self._serial:
            return
        left = 0 if self._protocol.fresh else self._total - self.step
        self._reading.expect(rest, range(number + 1, number + left), self._position)

    def _stand_in(self, *, last: bool) -> MicroBatch:
        return self._reading.stand_in(self.step, self.width, last=last)

    def _raised(self) -> frozenset[Flag]:
        return self._protocol.raised if self._control is not None else frozenset()

    # ------------------------------------------------------------------------------ the vote

    def _settle(self) -> None:
        """Vote; then apply the step, or find out what is to become of it."""
        self.stages.enter(Stage.COMM_EXPOSED)
        passing("before-vote")
        cast, passed = False, None
        try:
            if self.reduction.failure is None:
                self._groups.check_sums()
                cast = True
                passed = self._groups.votes.all_true(True)
        except Exception as error:
            self.reduction.failure = error
        if passed:
            passing("voted")
            return self._commit()
        pending = self.step if cast and passed is None else NOWHERE
        return self._mend(pending, str(self.reduction.failure))

    def _commit(self) -> None:
        self.stages.enter(Stage.OPTIM)
        self._apply_if_sound()
        passing("applied")
        self.result = Result.COMMITTED
        now = time.monotonic()
        actions = self._protocol.commit(self._paused_seconds(now))
        if self.committed > STATELESS:  # else a part of the state is on its way yet
            self.book.progress = self.book.progress.stepped()
            self._trained = now, self.width
        if self._control is not None:
            self._control.carry_out(actions)
        passing("committed")

    def _apply_if_sound(self) -> None:
        if not self._void:
            self._apply()

    def _after_turn(self) -> None:
        """A step's border: everyone is here with the same step and has seen the same flags."""
        if self.result is Result.AGAIN:
            self.stages.drop_step()
            return
        if self.result is not Result.COMMITTED:
            return
        self.stages.add(Stage.COMM_BUSY, self.reduction.busy_seconds)
        self._loader.book(self.stages)
        self.stages.close_step(self._global_batch)
        passing("step-closed")
        if self._control is None or self._groups.epoch != self._turn_epoch:
            return
        if self._protocol.fresh and self._handover.complete:
            self._protocol.complete()
            if self._saving is not None:
                self._saving.prepare(self._groups, self._protocol.sharers)
        self._report()
        seen = frozenset(flag for flag in Flag if self.reduction.seen(flag))
        if seen - {Flag.ARMED}:
            self._protocol.save = False
            self._save()
        self._cross(self._protocol.border(seen))

    def _cross(self, border: Border) -> None:
        match border:
            case Border.DRAIN:
                self._leave(Farewell.DRAINED)
            case Border.LEAVE:
                passing("before-switch")
                self._leave(Farewell.LEFT)
            case Border.YIELD:
                passing("yielded")
                self._mend(NOWHERE, "another plan takes over", yielded=True)
            case Border.MEND:
                self._mend(NOWHERE, "the agent has halted this epoch")
            case Border.SWITCH:
                self._switch()

    # ------------------------------------------------------------------- outside of any epoch

    def _warm_up(self) -> Iterator[MicroBatch]:
        """Everything that is slow once is done once, on a step that counts for nothing."""
        control = self._control
        assert control is not None
        began = time.monotonic()
        self.book.enter_loop()
        if control.welcome.warm:
            self._pristine = Pristine(self.book)
            batch = self._reading.warm(max(control.welcome.width // self.plan.copies, 1))
            self.result, self._idle = Result.OPEN, False
            self.reduction.open(Alone(), Alone())
            yield from self._hand_out(replace(batch, last=True), 0, self._global_batch)
        self.result = Result.OUTSIDE
        passing("warmed")
        control.be_ready(time.monotonic() - began, self.offers)
        passing("ready")

    # ------------------------------------------------------------------- snapshots and the end

    def _save(self) -> None:
        if self._saving is None:
            return
        self.stages.enter(Stage.CKPT_BLOCK)
        self._stream.note()
        self._saving.save(self._groups, self._protocol.sharers, self.committed, self.cursor)
        self.stages.enter(Stage.IDLE)

    def _leave(self, why: Farewell) -> None:
        control = self._control
        if control is None:
            return
        self._report(now=True)
        self._enter_section("ended")
        control.tell(Leaving(self._groups.epoch, self.committed, why))
        if self._saving is not None:
            self._saving.wait()
        self._close_groups()
        end_swiftly(DRAINED)
        raise SystemExit(DRAINED)

    def _close_groups(self) -> None:
        self._groups.close()
        for closing in self._closing:
            closing.join()

    # --------------------------------------------------------------------- what is refused

    def _check_not_ahead(self, number: int) -> None:
        """A worker that came to join others who have been lost: its script cannot go back."""
        if self._has_state and number > self.book.progress.loop:
            end_swiftly(INFRASTRUCTURE)
            raise SystemExit(INFRASTRUCTURE)
