"""One round: rank, size and place, and say why everybody else waits.

The round walks the waiting jobs in rank order. A job gets seats that are free; failing that, seats
of running jobs that must yield to it. Where queues have guarantees, those who stay within theirs
go first and may reclaim what was lent. What failed for one kind of job fails for all of that kind
until something is given back, so the walk costs as much as there are kinds, not jobs.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from weft.brain.round import gates
from weft.brain.round.best_plans import best_plans
from weft.brain.round.consolidate import consolidate
from weft.brain.round.defragment import defragment
from weft.brain.round.eviction import Eviction
from weft.brain.round.hosting import Hosting
from weft.brain.round.line import Line
from weft.brain.round.one_node import one_node_width
from weft.brain.round.outcome import Granted, Outcome
from weft.brain.round.regroup import regroup
from weft.brain.round.replan import replan
from weft.brain.round.reservation import reserve
from weft.brain.round.reshuffle import reshuffle
from weft.brain.round.resizing import Stretch
from weft.brain.round.session import PATIENT_ROW, Session
from weft.brain.round.turns import take_turns
from weft.brain.round.victims import Victim, by_party
from weft.brain.state.brain_state import BrainState
from weft.brain.state.waits import REASON_ROW, REASONS
from weft.model.kind import Kind
from weft.model.reason import Cause, ReasonCode
from weft.model.snapshot import Bools, Ints
from weft.model.state import State
from weft.policy.order.ranking import Ranking
from weft.policy.place.packing import Offer
from weft.policy.plans.planning import Planning, Scope
from weft.policy.recipe import Passing, Recipe

WIDEST = 1 << 20
"""A kind and a width are joined into one number; no job is wider than this."""

BLOCKED_SHORT_OF_GPUS = frozenset(
    {
        ReasonCode.CAPACITY_BUSY,
        ReasonCode.FRAGMENTED,
        ReasonCode.LOCALITY_WAIT,
        ReasonCode.PRIORITY_BEHIND,
        ReasonCode.CONSTRAINT_TYPE,
    }
)
HOLDING = BLOCKED_SHORT_OF_GPUS | {ReasonCode.QUOTA_LIMIT, ReasonCode.QUOTA_FIRM}
"""In strict order nobody passes a job that others' ends will let start."""

HOLDING_ROWS = frozenset(REASON_ROW[code] for code in HOLDING)
KEPT_ROW = REASON_ROW[ReasonCode.RESERVED]
BEHIND_ROW = REASON_ROW[ReasonCode.PRIORITY_BEHIND]
TIMED = (Cause.BACKOFF, Cause.LOCALITY, Cause.BREAKER)
FRESH_ROWS = np.array([0, *(code.cause in TIMED for code in REASONS)], np.bool_)
"""Reasons that time alone can lift."""

NEVER = (ReasonCode.CONSTRAINT_NEVER, ReasonCode.QUOTA_NEVER)
NEVER_ROWS = np.array([0, *(code in NEVER for code in REASONS)], np.bool_)
"""Reasons that no other job's end can lift: such a wait has no bound."""

STRICT_CHUNK = 64


def decide(state: BrainState, now: float, recipe: Recipe, *, supply_grew: bool = True) -> Outcome:
    """Run one round on the state as it stands; changes nothing.

    Where nothing was given back since the last round, anybody may pass and nobody has to yield,
    those who found no seats then find none now: only new jobs, and those who waited for a time,
    are asked.
    """
    if not state.queued and not _looks_beyond_the_queue(state, recipe):
        return Outcome()
    session = Session(state, now, recipe)
    beside = recipe.sharing or recipe.planning or recipe.defragmenting
    changing = recipe.yielding or recipe.resizing or beside
    free_for_all = recipe.passing is Passing.ANYBODY and not changing
    only_fresh = free_for_all and not supply_grew and not session.divided
    return Round(session, only_fresh=only_fresh).run()


def _looks_beyond_the_queue(state: BrainState, recipe: Recipe) -> bool:
    """Whether a round may change something though nobody waits."""
    resizing = recipe.resizing
    if recipe.rounds.after_starts or recipe.host is not None or state.seating.company:
        return True
    if recipe.planning is not None:
        return bool(state.slot_of)
    if resizing is None:
        return False
    return state.ranged > 0 or (resizing.restarts and state.seating.any_spread)


def _only_moves(state: BrainState, recipe: Recipe) -> bool:
    """Whether running jobs can but be moved: then nobody's rank matters."""
    beside = recipe.rounds.after_starts or recipe.host is not None or state.seating.company
    return not (state.ranged or beside or recipe.planning is not None)


def _may_stretch(state: BrainState, slot: int) -> bool:
    """Who takes turns keeps its width, and so does one whose plan cannot follow it."""
    if state.seating.company.shares(slot):
        return False
    planned = state.spec(slot).splits is not None and state.state_of(slot) is State.RUNNING
    return not planned or state.plan_book.can_switch(slot, int(state.jobs.epoch[slot]))


def _chooses_widths(session: Session, planning: Planning) -> bool:
    """Whether who runs, and how wide, is a matter of worth: not of guarantees or long waits."""
    return planning.scope is not Scope.SEATED and not (session.divided or session.overdue)


class Round:
    """One walk over the waiting jobs."""

    def __init__(self, session: Session, *, only_fresh: bool = False) -> None:
        self._session = session
        self._only_fresh = only_fresh
        self._outcome = Outcome()
        self._offers: dict[int, Offer] = {}
        self._positions: Sequence[int] = ()
        self._evicting: Eviction | None = None
        self._running_at: tuple[Ints, Ints] = (np.zeros(0, np.int64), np.zeros(0, np.int64))
        self._late: Bools | None = None
        self._strict = session.recipe.passing is Passing.NOBODY
        alone = len(session.state.quota.ids) == 1 and not session.divided
        self._one_strict_queue = self._strict and alone and session.recipe.yielding is None
        self._in_order = 0
        self._held_up: set[int] = set()
        self._deferred: set[int] = set()
        self._gave_back = False
        self._stretch: Stretch | None = None

    def run(self) -> Outcome:
        session, outcome = self._session, self._outcome
        waiting = self._ready()
        if not len(waiting) and not _looks_beyond_the_queue(session.state, session.recipe):
            return outcome
        if not len(waiting) and _only_moves(session.state, session.recipe):
            self._consolidate()
            return outcome
        running = self._rank(waiting)
        self._place(running, anybody=len(waiting) > 0)
        if self._stretch is not None:
            self._stretch.settle()
        if session.recipe.defragmenting is not None:
            defragment(session, outcome, session.recipe.defragmenting)
        self._consolidate()
        planning = session.recipe.planning
        if planning is not None and not _chooses_widths(session, planning):
            best_plans(session, outcome, planning)
        if session.recipe.sharing is not None:
            take_turns(session, outcome, session.recipe.sharing)
        if session.recipe.host is not None and session.state.fair is not None:
            Hosting(session, outcome, session.recipe.host).settle()
        return outcome

    def _place(self, running: Ints, *, anybody: bool) -> None:
        """Give seats the way that the recipe says; `anybody` waits."""
        session, outcome = self._session, self._outcome
        yielding, planning = session.recipe.yielding, session.recipe.planning
        if planning is not None and _chooses_widths(session, planning):
            replan(session, outcome, planning)
        elif yielding is not None and yielding.regrouping is not None:
            regroup(session, outcome, running, yielding.regrouping)
        elif yielding is not None and yielding.reshuffle:
            reshuffle(session, outcome, running)
        elif anybody:
            self._hand_out()

    def _consolidate(self) -> None:
        resizing = self._session.recipe.resizing
        if resizing is not None and resizing.restarts:
            consolidate(self._session, self._outcome, resizing)

    # --- ranking ------------------------------------------------------------------------------

    def _ready(self) -> Ints:
        """Jobs that could be started now, as far as they themselves are concerned."""
        jobs = self._session.snapshot.jobs
        ready = (jobs.state == State.QUEUED) & (jobs.not_before <= self._session.now)
        waiting = np.flatnonzero(ready & jobs.active & (jobs.queue >= 0))
        if not self._only_fresh:
            return waiting
        return waiting[FRESH_ROWS[jobs.reason[waiting]]]

    def _rank(self, waiting: Ints) -> Ints:
        """Order waiting jobs, and running ones among them where they may have to yield."""
        session, outcome = self._session, self._outcome
        jobs = session.snapshot.jobs
        hopeful = waiting[~NEVER_ROWS[jobs.reason[waiting]]]
        overdue, soonest = session.recipe.waiting.overdue(session.snapshot, hopeful)
        session.overdue = frozenset(overdue.tolist())
        outcome.overdue = len(overdue) > 0
        candidates = self._candidates(waiting)
        ranking = session.recipe.order(session.snapshot, candidates)
        ordered, late = self._in_line(ranking, candidates, overdue)
        outcome.candidates, outcome.ranked, outcome.ranking = candidates, ordered, ranking
        outcome.wake = ranking.wake
        if soonest is not None:
            outcome.wake_by(soonest)
        shrinking = self._begin_to_stretch(ordered, late)
        if len(candidates) == len(waiting):
            outcome.waiting, self._positions = ordered, range(len(ordered))
            return ordered[:0]
        runs = jobs.state[ordered] == State.RUNNING
        at, waits = np.flatnonzero(runs), np.flatnonzero(~runs)
        outcome.waiting, self._positions = ordered[waits], waits.tolist()
        running: Ints = ordered[at]
        if shrinking and not (session.divided or session.overdue):
            at = at[~np.isin(running, sorted(shrinking))]
        self._running_at, self._late = by_party(session.state, ordered, at), late
        return running

    def _candidates(self, waiting: Ints) -> Ints:
        """Those who wait, and those who run where a round may change something for them."""
        recipe, jobs = self._session.recipe, self._session.snapshot.jobs
        changing = recipe.yielding or recipe.resizing or recipe.planning
        if not (changing or self._session.divided or self._session.overdue):
            return waiting
        running = np.flatnonzero((jobs.state == State.RUNNING) & jobs.active)
        return np.concatenate([waiting, running])

    def _in_line(
        self, ranking: Ranking, candidates: Ints, overdue: Ints
    ) -> tuple[Ints, Bools | None]:
        """First to last; of equal priority, who has waited too long stands before all others."""
        snapshot = self._session.snapshot
        if self._one_strict_queue and not len(overdue):
            first = ranking.leading(snapshot, candidates, STRICT_CHUNK)
            self._in_order = len(first)
            return np.concatenate([candidates[first], np.delete(candidates, first)]), None
        self._one_strict_queue = False
        ordered = candidates[ranking.sorted(snapshot, candidates)]
        if not len(overdue):
            return ordered, None
        late = np.isin(ordered, overdue)
        order = np.lexsort((~late, -snapshot.jobs.priority[ordered]))
        return ordered[order], late[order]

    @property
    def _eviction(self) -> Eviction:
        """Made when first asked for: in most rounds nobody has to go."""
        if self._evicting is None:
            running, at = self._running_at
            self._evicting = Eviction(self._session, self._outcome, running, at, self._late)
        return self._evicting

    def _begin_to_stretch(self, ordered: Ints, late: Bools | None) -> set[int]:
        """The jobs whose surplus is on offer from now on; they need not yield as well."""
        resizing = self._session.recipe.resizing
        if resizing is None or not self._session.state.ranged:
            return set()
        state = self._session.state
        if state.seating.company or self._session.recipe.planning is not None:
            free = np.array([_may_stretch(state, slot) for slot in ordered.tolist()], bool)
            ordered, late = ordered[free], None if late is None else late[free]
        self._stretch = Stretch(self._session, self._outcome, resizing, ordered, late)
        return self._stretch.put_surplus_on_session()

    # --- the walk -----------------------------------------------------------------------------

    def _hand_out(self) -> None:
        session, outcome = self._session, self._outcome
        waiting = outcome.waiting
        if self._one_strict_queue:
            rows = self._walk_until_blocked(waiting)
        else:
            line = self._line(waiting)
            if session.divided:
                self._walk(line, claims=True)
            self._walk(line)
            rows = line.rows
        if outcome.grants:
            outcome.waiting, outcome.reasons = waiting[rows > 0], rows[rows > 0]
        else:
            outcome.reasons = rows

    def _line(self, waiting: Ints, begin: int = 0) -> Line:
        snapshot = self._session.snapshot
        if self._stretch is not None:
            widths = self._stretch.widths(waiting)
        elif self._session.recipe.resizing is not None:
            widths = snapshot.jobs.min_gpus[waiting]
        else:
            widths = self._session.sized(waiting)
        return Line(waiting, snapshot.jobs.kind[waiting] * WIDEST + widths, widths, begin)

    def _walk_until_blocked(self, waiting: Ints) -> Ints:
        """Strict order in one queue: whoever stands behind a blocked job need not be asked, nor
        even be put in order."""
        rows = np.full(len(waiting), BEHIND_ROW)
        begin = 0
        while begin < len(waiting) and not self._held_up:
            if begin == self._in_order:
                self._order_rest(waiting[begin:])
                self._in_order = len(waiting)
            end = min(begin + STRICT_CHUNK, self._in_order)
            line = self._line(waiting[begin:end], begin)
            self._walk(line)
            rows[begin:end] = line.rows
            begin = end
        return rows

    def _order_rest(self, rest: Ints) -> None:
        """Put those in order whom nobody expected to be asked."""
        snapshot = self._session.snapshot
        rest[:] = rest[self._session.recipe.order(snapshot, rest).sorted(snapshot, rest)]

    def _walk(self, line: Line, *, claims: bool = False) -> None:
        """Ask each in turn; with `claims`, only those who stay within their guarantee."""
        session = self._session
        line.form()
        while (first := line.next()) is not None:
            index, key = first
            slot, width = int(line.slots[index]), int(line.widths[index])
            queue = session.queue(slot)
            if claims and not self._claims(queue, width):
                line.step_aside(key)
            elif queue in self._held_up:
                line.leave(index, key, BEHIND_ROW)
            else:
                row = self._try(self._positions[line.begin + index], slot, key, width)
                if self._strict and self._holds_up(row):
                    self._held_up.add(queue)
                self._tell(line, index, key, row)

    def _holds_up(self, row: int) -> bool:
        kept = row == KEPT_ROW and self._session.holds is not None
        return kept or row in HOLDING_ROWS

    def _claims(self, queue: int, width: int) -> bool:
        """Whether a job stays within its guarantee; in strict order nobody passes one that does
        not."""
        if queue not in self._deferred and self._session.ledger.within_guarantee(queue, width):
            return True
        if self._strict:
            self._deferred.add(queue)
        return False

    def _tell(self, line: Line, index: int, key: int, row: int) -> None:
        """Pass the answer on to the rest of its kind, where it does not hang on the single job."""
        if row in (0, PATIENT_ROW):
            line.stay(index, key, row)
        elif row == KEPT_ROW:
            line.leave_but(index, key, row, self._session.all_gone_in_time())
        else:
            line.leave(index, key, row)
        if self._gave_back:
            self._gave_back = False
            line.come_back(index)

    def _try(self, position: int, slot: int, key: int, width: int) -> int:
        """Grant the job seats and return 0, or the row of the reason why not.

        What is kept for it since it failed is there while it is asked.
        """
        session = self._session
        session.open_hold(slot)
        row = self._asked(position, slot, key, width)
        if row:
            session.shut_hold(slot)
        elif session.end_hold(slot):
            self._gave_back = True
        return row

    def _asked(self, position: int, slot: int, key: int, width: int) -> int:
        session, kind = self._session, self._session.state.kinds[key // WIDEST]
        queue = session.queue(slot) if session.restricted else 0
        least = width if self._stretch is None else kind.width.min_gpus
        for gpus in self._widths_to_try(slot, key, kind, width=width, least=least):
            found = gates.never(session, kind, queue, gpus)
            if found is None:
                found = self._seat(position, slot, key - width + gpus, kind=kind, width=gpus)
            if found is None:
                return 0
            reason = found
        if reason in BLOCKED_SHORT_OF_GPUS and self._may_reserve(slot, least):
            self._reserve(slot, kind, least)
        return REASON_ROW[reason]

    def _widths_to_try(
        self, slot: int, key: int, kind: Kind, *, width: int, least: int
    ) -> Iterable[int]:
        """The width that was chosen, else the least; before both one that need not be spread."""
        resizing = self._session.recipe.resizing
        if resizing is None or not resizing.compact or width == least:
            return dict.fromkeys((width, least))
        offer = self._free_offer(slot, key, kind, width)
        if offer is None or offer.avoidable > 1.0:
            narrower = one_node_width(self._session, slot, offer, width=width, least=least)
            if narrower is not None:
                return dict.fromkeys((narrower, width, least))
        return dict.fromkeys((width, least))

    def _seat(
        self, position: int, slot: int, key: int, *, kind: Kind, width: int
    ) -> ReasonCode | None:
        """Seats that are free, or seats of those who must yield."""
        session = self._session
        forced: list[Victim] | None = []
        if session.restricted:
            queue = session.queue(slot)
            forced = self._eviction.room_in_quota(position, queue, kind, width)
            if forced is None:
                return gates.quota(session, kind, queue, width)
        offer = None if forced else self._free_offer(slot, key, kind, width)
        if offer is not None and self._accepts(slot, offer):
            self._grant(Granted(slot, width, offer.shares), kind, [])
            return None
        found = None
        if session.divided or session.recipe.yielding is not None or session.overdue:
            found = self._eviction.find(
                slot, key, position, kind=kind, width=width, forced=forced or []
            )
        if found is not None:
            better, victims = found
            self._grant(Granted(slot, width, better.shares), kind, victims)
            return None
        return gates.supply(session, kind, width) if offer is None else ReasonCode.LOCALITY_WAIT

    def _free_offer(self, slot: int, key: int, kind: Kind, width: int) -> Offer | None:
        """The offer made to the job before, while nothing was granted since; else a new one."""
        if self._session.minds_neighbours(slot):
            return self._session.offer(slot, kind, width)
        offer = self._offers.get(key)
        if offer is None:
            offer = self._session.offer(slot, kind, width)
            if offer is not None and self._session.reserved is None:
                self._offers[key] = offer
        return offer

    def _accepts(self, slot: int, offer: Offer) -> bool:
        """Whether the job takes this placement now, or waits for a tighter one."""
        if offer.avoidable <= 1.0:
            return True
        left = self._session.patience_left_seconds(slot, offer)
        if left > 0:
            self._outcome.wake_by(self._session.now + left)
        return left <= 0

    def _grant(self, granted: Granted, kind: Kind, victims: list[Victim]) -> None:
        if victims:
            self._gave_back = self._eviction.evict(victims, granted.slot, granted.width)
        self._session.take(granted, kind)
        if self._session.divided:
            self._eviction.granted()
        self._offers.clear()
        self._outcome.grants.append(granted)

    def _may_reserve(self, slot: int, width: int) -> bool:
        """Whether it is a gang that has been overtaken for long enough, and the first of them."""
        session, reserving = self._session, self._session.recipe.reserving
        if session.reserved is not None:
            return False
        if slot in session.overdue:
            return True
        waited = session.now - float(session.snapshot.jobs.submitted[slot])
        return (
            reserving is not None
            and width >= reserving.least_gpus
            and waited >= reserving.after_seconds
        )

    def _reserve(self, slot: int, kind: Kind, width: int) -> None:
        """Keep nodes for it."""
        session = self._session
        kept = reserve(session.state, session.now, slot, kind, width)
        if kept is not None:
            self._outcome.reservation = kept
            session.reserved, session.reserved_until = kept.nodes, kept.at
            self._offers.clear()
