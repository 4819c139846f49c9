"""One round: rank, size and place, and say why everybody else waits.

The round walks the waiting jobs in rank order. A job gets seats that are free; failing that, seats
of running jobs that must yield to it. Where queues have guarantees, those who stay within theirs
go first and may reclaim what was lent. What failed for one kind of job fails for all of that kind
until something is given back, so the walk costs as much as there are kinds, not jobs.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from weft.brain import gates
from weft.brain.desk import PATIENT_ROW, Desk
from weft.brain.eviction import Eviction, nobody
from weft.brain.gather import gather
from weft.brain.hosting import Hosting
from weft.brain.line import Line
from weft.brain.outcome import Granted, Outcome
from weft.brain.reservation import reserve
from weft.brain.reshuffle import reshuffle
from weft.brain.snug import snug_width
from weft.brain.state import REASON_ROW, REASONS, BrainState
from weft.brain.stretch import Stretch
from weft.brain.victims import Victim
from weft.model.kind import Kind
from weft.model.reason import Cause, ReasonCode
from weft.model.snapshot import Ints
from weft.model.state import State
from weft.policy.place.packing import Offer
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
HOLDING_ROWS = frozenset(REASON_ROW[code] for code in BLOCKED_SHORT_OF_GPUS)
KEPT_ROW = REASON_ROW[ReasonCode.RESERVED]
BEHIND_ROW = REASON_ROW[ReasonCode.PRIORITY_BEHIND]
FRESH_ROWS = np.array(
    [0, *(code.cause in (Cause.BACKOFF, Cause.LOCALITY) for code in REASONS)], np.bool_
)
"""Reasons that time alone can lift."""

STRICT_CHUNK = 64


def decide(state: BrainState, now: float, recipe: Recipe, *, supply_grew: bool = True) -> Outcome:
    """Run one round on the state as it stands; changes nothing.

    Where nothing was given back since the last round, anybody may pass and nobody has to yield,
    those who found no seats then find none now: only new jobs, and those who waited for a time,
    are asked.
    """
    desk = Desk(state, now, recipe)
    free_for_all = recipe.passing is Passing.ANYBODY and not (recipe.yielding or recipe.resizing)
    only_fresh = free_for_all and not supply_grew and not desk.divided
    return Round(desk, only_fresh=only_fresh).run()


class Round:
    """One walk over the waiting jobs."""

    def __init__(self, desk: Desk, *, only_fresh: bool = False) -> None:
        self._desk = desk
        self._only_fresh = only_fresh
        self._outcome = Outcome()
        self._offers: dict[int, Offer] = {}
        self._positions: Sequence[int] = ()
        self._eviction: Eviction | None = None
        self._strict = desk.recipe.passing is Passing.NOBODY
        alone = len(desk.state.quota.ids) == 1 and not desk.divided
        self._one_strict_queue = self._strict and alone and desk.recipe.yielding is None
        self._in_order = 0
        self._held_up: set[int] = set()
        self._deferred: set[int] = set()
        self._gave_back = False
        self._stretch: Stretch | None = None

    def run(self) -> Outcome:
        desk, outcome = self._desk, self._outcome
        waiting = self._ready()
        elastic = desk.recipe.resizing is not None or desk.recipe.host is not None
        if not len(waiting) and not desk.recipe.rounds.after_starts and not elastic:
            return outcome
        running = self._rank(waiting)
        if desk.recipe.yielding is not None and desk.recipe.yielding.reshuffle:
            reshuffle(desk, outcome, running)
        elif len(waiting):
            self._hand_out()
        if self._stretch is not None:
            self._stretch.settle()
            if desk.recipe.resizing is not None and desk.recipe.resizing.restarts:
                gather(desk, outcome, desk.recipe.resizing)
        if desk.recipe.host is not None and desk.state.fair is not None:
            Hosting(desk, outcome, desk.recipe.host).settle()
        return outcome

    # --- ranking ------------------------------------------------------------------------------

    def _ready(self) -> Ints:
        """Jobs that could be started now, as far as they themselves are concerned."""
        jobs = self._desk.snapshot.jobs
        ready = (jobs.state == State.QUEUED) & (jobs.not_before <= self._desk.now)
        waiting = np.flatnonzero(ready & jobs.active & (jobs.queue >= 0))
        if not self._only_fresh:
            return waiting
        return waiting[FRESH_ROWS[jobs.reason[waiting]]]

    def _rank(self, waiting: Ints) -> Ints:
        """Order waiting jobs, and running ones among them where they may have to yield."""
        desk, outcome = self._desk, self._outcome
        jobs, candidates = desk.snapshot.jobs, waiting
        if desk.recipe.yielding is not None or desk.divided or desk.recipe.resizing is not None:
            running = np.flatnonzero((jobs.state == State.RUNNING) & jobs.active)
            candidates = np.concatenate([waiting, running])
        ranking = desk.recipe.order(desk.snapshot, candidates)
        if self._one_strict_queue:
            first = ranking.leading(desk.snapshot, candidates, STRICT_CHUNK)
            ordered = np.concatenate([candidates[first], np.delete(candidates, first)])
            self._in_order = len(first)
        else:
            ordered = candidates[ranking.sorted(desk.snapshot, candidates)]
        outcome.candidates, outcome.ranked, outcome.ranking = candidates, ordered, ranking
        outcome.wake = ranking.wake
        shrinking = self._begin_to_stretch(ordered)
        if len(candidates) == len(waiting):
            outcome.waiting, self._positions = ordered, range(len(ordered))
            self._eviction = nobody(desk, outcome)
            return ordered[:0]
        runs = jobs.state[ordered] == State.RUNNING
        at, waits = np.flatnonzero(runs), np.flatnonzero(~runs)
        outcome.waiting, self._positions = ordered[waits], waits.tolist()
        firm = ~np.isin(ordered[at], sorted(shrinking))
        self._eviction = Eviction(desk, outcome, ordered[at][firm], at[firm])
        return ordered[at]

    def _begin_to_stretch(self, ordered: Ints) -> set[int]:
        """The jobs whose surplus is on the desk from now on; they need not yield as well."""
        resizing = self._desk.recipe.resizing
        if resizing is None:
            return set()
        self._stretch = Stretch(self._desk, self._outcome, resizing, ordered)
        return self._stretch.put_surplus_on_desk()

    # --- the walk -----------------------------------------------------------------------------

    def _hand_out(self) -> None:
        desk, outcome = self._desk, self._outcome
        waiting = outcome.waiting
        if self._one_strict_queue:
            rows = self._walk_until_blocked(waiting)
        else:
            line = self._line(waiting)
            if desk.divided:
                self._walk(line, claims=True)
            self._walk(line)
            rows = line.rows
        if outcome.grants:
            outcome.waiting, outcome.reasons = waiting[rows > 0], rows[rows > 0]
        else:
            outcome.reasons = rows

    def _line(self, waiting: Ints, begin: int = 0) -> Line:
        snapshot = self._desk.snapshot
        if self._stretch is not None:
            widths = self._stretch.widths(waiting)
        else:
            widths = self._desk.recipe.size(snapshot, waiting)
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
        snapshot = self._desk.snapshot
        rest[:] = rest[self._desk.recipe.order(snapshot, rest).sorted(snapshot, rest)]

    def _walk(self, line: Line, *, claims: bool = False) -> None:
        """Ask each in turn; with `claims`, only those who stay within their guarantee."""
        desk = self._desk
        line.form()
        while (first := line.next()) is not None:
            index, key = first
            slot, width = int(line.slots[index]), int(line.widths[index])
            queue = desk.queue(slot)
            if claims and not self._claims(queue, width):
                line.step_aside(key)
            elif queue in self._held_up:
                line.leave(index, key, BEHIND_ROW)
            else:
                row = self._try(self._positions[line.begin + index], slot, key, width)
                if self._strict and row in HOLDING_ROWS:
                    self._held_up.add(queue)
                self._tell(line, index, key, row)

    def _claims(self, queue: int, width: int) -> bool:
        """Whether a job stays within its guarantee; in strict order nobody passes one that does
        not."""
        if queue not in self._deferred and self._desk.ledger.within_guarantee(queue, width):
            return True
        if self._strict:
            self._deferred.add(queue)
        return False

    def _tell(self, line: Line, index: int, key: int, row: int) -> None:
        """Pass the answer on to the rest of its kind, where it does not hang on the single job."""
        if row in (0, PATIENT_ROW):
            line.stay(index, key, row)
        elif row == KEPT_ROW:
            line.leave_but(index, key, row, self._desk.all_gone_in_time())
        else:
            line.leave(index, key, row)
        if self._gave_back:
            self._gave_back = False
            line.come_back(index)

    def _try(self, position: int, slot: int, key: int, width: int) -> int:
        """Grant the job seats and return 0, or the row of the reason why not."""
        desk, kind = self._desk, self._desk.state.kinds[key // WIDEST]
        queue = desk.queue(slot) if desk.restricted else 0
        least = width if self._stretch is None else kind.width.min_gpus
        for gpus in self._widths_to_try(slot, key, kind, width=width, least=least):
            found = gates.never(desk, kind, queue, gpus)
            if found is None:
                found = self._seat(position, slot, key - width + gpus, kind=kind, width=gpus)
            if found is None:
                return 0
            reason = found
        if desk.recipe.reserving is not None and reason in BLOCKED_SHORT_OF_GPUS:
            self._maybe_reserve(slot, kind, least)
        return REASON_ROW[reason]

    def _widths_to_try(
        self, slot: int, key: int, kind: Kind, *, width: int, least: int
    ) -> Iterable[int]:
        """The width that was chosen, else the least; before both one that need not be spread."""
        resizing = self._desk.recipe.resizing
        if resizing is None or not resizing.compact or width == least:
            return dict.fromkeys((width, least))
        offer = self._free_offer(slot, key, kind, width)
        if offer is None or offer.slowdown > 1.0:
            narrower = snug_width(self._desk, slot, offer, width=width, least=least)
            if narrower is not None:
                return dict.fromkeys((narrower, width, least))
        return dict.fromkeys((width, least))

    def _seat(
        self, position: int, slot: int, key: int, *, kind: Kind, width: int
    ) -> ReasonCode | None:
        """Seats that are free, or seats of those who must yield."""
        desk, eviction = self._desk, self._eviction
        assert eviction is not None
        forced: list[Victim] | None = []
        if desk.restricted:
            queue = desk.queue(slot)
            forced = eviction.room_in_quota(position, queue, kind, width)
            if forced is None:
                return gates.quota(desk, kind, queue, width)
        offer = None if forced else self._free_offer(slot, key, kind, width)
        if offer is not None and self._accepts(slot, offer):
            self._grant(Granted(slot, width, offer.shares), kind, [])
            return None
        found = None
        if desk.divided or desk.recipe.yielding is not None:
            found = eviction.find(slot, key, position, kind=kind, width=width, forced=forced or [])
        if found is not None:
            better, victims = found
            self._grant(Granted(slot, width, better.shares), kind, victims)
            return None
        return gates.supply(desk, kind, width) if offer is None else ReasonCode.LOCALITY_WAIT

    def _free_offer(self, slot: int, key: int, kind: Kind, width: int) -> Offer | None:
        """The offer made to the job before, while nothing was granted since; else a new one."""
        offer = self._offers.get(key)
        if offer is None:
            offer = self._desk.offer(slot, kind, width)
            if offer is not None and self._desk.reserved is None:
                self._offers[key] = offer
        return offer

    def _accepts(self, slot: int, offer: Offer) -> bool:
        """Whether the job takes this placement now, or waits for a tighter one."""
        if offer.slowdown <= 1.0:
            return True
        left = self._desk.patience_left_seconds(slot, offer)
        if left > 0:
            self._outcome.wake_by(self._desk.now + left)
        return left <= 0

    def _grant(self, granted: Granted, kind: Kind, victims: list[Victim]) -> None:
        if victims:
            assert self._eviction is not None
            self._gave_back = self._eviction.evict(victims, granted.slot, granted.width)
        self._desk.take(granted, kind)
        if self._desk.divided and self._eviction is not None:
            self._eviction.granted()
        self._offers.clear()
        self._outcome.grants.append(granted)

    def _maybe_reserve(self, slot: int, kind: Kind, width: int) -> None:
        """Keep nodes for a gang that has been overtaken long enough."""
        desk, reserving = self._desk, self._desk.recipe.reserving
        assert reserving is not None
        if desk.fabric.fewest_nodes(kind, width) < reserving.least_nodes:
            return
        waited = desk.now - float(desk.snapshot.jobs.submitted[slot])
        if desk.reserved is not None or waited < reserving.after_seconds:
            return
        kept = reserve(desk.state, desk.now, slot, kind, width)
        if kept is not None:
            self._outcome.reservation = kept
            desk.reserved, desk.reserved_until = kept.nodes, kept.at
            self._offers.clear()
