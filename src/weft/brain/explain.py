"""Why a job waits: every gate that holds it now, with numbers, most helpful first.

The round books a waiting second to the first gate that said no. A person wants all of them, so the
same gates are asked again, each for itself: a gate that alone stands between the job and its
seats comes first, then those that miss the larger share of what they ask for.

Ten thousand jobs are explained at once where a world tells all of them: what holds for a kind, and
what holds for everybody, is asked once for all of them.
"""

from functools import cached_property

import numpy as np

from weft.brain.round import gates
from weft.brain.round.bidding import Bidding
from weft.brain.round.round import Round
from weft.brain.round.session import Session
from weft.brain.state.brain_state import BrainState
from weft.brain.state.waits import REASONS
from weft.model.ids import JobId
from weft.model.reason import Reason, ReasonCode
from weft.model.snapshot import Ints
from weft.model.state import State
from weft.policy.place.packing import Offer
from weft.policy.plans.planning import Scope
from weft.policy.recipe import Recipe

Numbers = dict[str, float | int | str]
REFUSED = "The backend refused its placement."

TIMED = frozenset(
    {
        ReasonCode.ROUND_PENDING,
        ReasonCode.BACKOFF_RETRY,
        ReasonCode.BACKOFF_REFUSED,
        ReasonCode.BACKOFF_LOST,
        ReasonCode.BREAKER_OPEN,
    }
)


class Survey:
    """One look at a moment, for many jobs; it holds until the state changes."""

    def __init__(
        self, state: BrainState, now: float, recipe: Recipe, *, next_round: float | None
    ) -> None:
        self.session = Session(state, now, recipe)
        self.next_round = next_round
        self._verdicts: dict[tuple[int, int, int], Verdict] = {}

    def reasons(self, job: JobId) -> list[Reason]:
        """All reasons that apply, ordered; empty for a job that does not wait."""
        state = self.session.state
        slot = state.slot_of.get(job)
        if slot is None or state.state_of(slot) not in (State.QUEUED, State.ADMITTED):
            return []
        booked = REASONS[int(state.jobs.reason[slot]) - 1]
        return Examination(self, slot).reasons(booked)

    def verdict(self, slot: int, need: int) -> "Verdict":
        """What the gates say of jobs of this kind."""
        session = self.session
        key = (int(session.snapshot.jobs.kind[slot]), session.queue(slot), need)
        found = self._verdicts.get(key)
        if found is None:
            found = self._verdicts[key] = Verdict(self._before(slot), slot, need)
        return found

    def _before(self, slot: int) -> Session:
        """What lies before this one: with what is kept for it, if something is."""
        session = self.session
        if session.holds is None or slot not in session.holds:
            return session
        own = Session(session.state, session.now, session.recipe)
        own.open_hold(slot)
        return own

    @cached_property
    def ahead(self) -> Ints:
        """By slot: how many rank before it among those who wait."""
        session = self.session
        waiting = session.snapshot.slots(State.QUEUED)
        ranking = session.recipe.order(session.snapshot, waiting)
        ordered = waiting[ranking.sorted(session.snapshot, waiting)]
        ranks = np.zeros(session.state.size, np.int64)
        ranks[ordered] = np.arange(len(ordered))
        return ranks

    @cached_property
    def kept(self) -> Numbers:
        """What the next round would reserve, and for whom."""
        session = self.session
        kept = Round(Session(session.state, session.now, session.recipe)).run().reservation
        if kept is None:
            return {"reserved": 0, "holder": "nobody"}
        reserved = int(session.room.gpus[kept.nodes].sum())
        return {"reserved": reserved, "holder": session.state.spec(kept.slot).id}

    def held(self, free: int) -> Numbers:
        """What is kept for gangs that failed, beside so many that are free."""
        holds = self.session.holds
        if holds is None or not holds.gpus:
            return {}
        names = ", ".join(holds.holders)
        return {"free": free + holds.gpus, "reserved": holds.gpus, "holder": names}

    @cached_property
    def lost_gpus(self) -> int:
        return self.session.lost_gpus()


class Verdict:
    """What holds for every job of one kind that needs so many GPUs."""

    def __init__(self, session: Session, slot: int, need: int) -> None:
        self._session = session
        self._kind = session.kind(slot)
        self._queue = session.queue(slot)
        self._need = need
        self.offer: Offer | None = session.recipe.place(
            session.room, session.fabric, self._kind, need
        )

    @cached_property
    def standing(self) -> list[ReasonCode]:
        """Quota and supply, each asked as if the other were no obstacle."""
        if self._queue < 0:
            return [ReasonCode.CONSTRAINT_QUEUE]
        never = gates.never(self._session, self._kind, self._queue, self._need)
        if never is not None:
            return [never]
        found = []
        quota = gates.quota(self._session, self._kind, self._queue, self._need)
        if quota is not None:
            found.append(quota)
        if self.offer is None:
            found.append(gates.supply(self._session, self._kind, self._need))
        return found

    @cached_property
    def numbers(self) -> Numbers:
        session = self._session
        suitable = session.suitable_free(self._kind)
        return {
            "need": self._need,
            "free": suitable,
            "total": session.fabric.site(self._kind).total_gpus,
            "other": session.free - suitable,
            "cpus": self._kind.cpus,
            "memory": self._kind.memory_gib,
            **self._quota_numbers(),
        }

    @cached_property
    def fewest_nodes(self) -> int:
        return self._session.fabric.fewest_nodes(self._kind, self._need) or 1

    @property
    def fewest_racks(self) -> int:
        return self._session.fabric.fewest_racks(self._kind, self._need) or 1

    @cached_property
    def largest_ever(self) -> int:
        """The widest gang of this kind that could ever be placed."""
        return self._session.fabric.site(self._kind).largest_ever_gpus

    @cached_property
    def largest(self) -> int:
        """The widest that could be placed now."""
        session = self._session
        low, high = 0, min(session.free, self.largest_ever)
        while low < high:
            middle = (low + high + 1) // 2
            if session.recipe.place(session.room, session.fabric, self._kind, middle) is not None:
                low = middle
            else:
                high = middle - 1
        return low

    def _quota_numbers(self) -> Numbers:
        ledger, firm = self._session.ledger, not self._kind.preemptible
        if self._queue < 0:
            return {"queue": self._kind.queue, "used": 0, "limit": 0}
        table = ledger.table
        step = ledger.never(self._queue, self._need, firm=firm)
        if step is None:
            step = ledger.refusing(self._queue, self._need, firm=firm)
        if step is None:
            step = self._queue
        cap = table.caps[step]
        limit = min(cap, table.guaranteed[step]) if firm and table.divided else cap
        return {"queue": table.ids[step], "used": ledger.used[step], "limit": limit}


class Examination:
    """One waiting job before all gates."""

    def __init__(self, survey: Survey, slot: int) -> None:
        self._survey = survey
        self._session = survey.session
        self._slot = slot
        self._need = self._needed()
        self._verdict = survey.verdict(slot, self._need)

    def _needed(self) -> int:
        """What it is assigned already; else what it would begin with: of a range, the least.

        Of one whose plan is chosen too, the least that any of them is for.
        """
        session, slot = self._session, self._slot
        planning, planned = session.recipe.planning, session.state.spec(slot).splits is not None
        if session.state.seating.assignments[slot] is not None:
            return int(session.snapshot.jobs.width[slot])
        if session.recipe.resizing is not None:
            return session.kind(slot).width.min_gpus
        if planning is not None and planning.scope is not Scope.SEATED and planned:
            bid = Bidding(session, planning).bid(slot)
            return min((one.gpus for one in planning.keeping_promise(bid)), default=0)
        return int(session.sized(np.array([slot]))[0])

    def reasons(self, booked: ReasonCode) -> list[Reason]:
        """The booked one first if it alone stands; else by what each is short of."""
        first = self._render(booked)
        others = [self._render(code) for code in self._verdict.standing if code is not booked]
        if booked in TIMED:
            return [first, *others]
        return sorted([first, *others], key=lambda reason: -reason.shortage)

    def _render(self, code: ReasonCode) -> Reason:
        numbers = self._numbers(code)
        last = self._session.state.failures.last.get(self._slot)
        told = last is not None and code is ReasonCode.BACKOFF_RETRY
        notes = [f"It ended so: {last}."] if told else []
        notes += self._kept_for_it()
        refusal = self._session.state.failures.refusals.get(self._slot)
        if refusal and code is ReasonCode.ROUND_PENDING:
            notes.append(f"The last start was refused: {_as_sentence(refusal)}")
        shortage = self._shortage(code, numbers)
        return Reason(code, numbers, shortage=shortage, note=" ".join(notes))

    def _kept_for_it(self) -> list[str]:
        session, hold = self._session, self._session.state.failures.holds.get(self._slot)
        if hold is None or session.holds is None or self._slot not in session.holds:
            return []
        gpus, left = session.holds.gpus_of(self._slot), hold.until - session.now
        return [f"{gpus} GPUs that it had are kept for it for {left:.0f} s more."]

    def _shortage(self, code: ReasonCode, numbers: Numbers) -> float:
        """Share of the need that this gate misses: the larger, the more it helps to lift it."""
        need = max(self._need, 1)
        if code in (ReasonCode.QUOTA_LIMIT, ReasonCode.QUOTA_FIRM):
            over = float(numbers["used"]) + self._need - float(numbers["limit"])
            return min(max(over, 0.0) / need, 1.0)
        available = numbers["largest"] if code is ReasonCode.FRAGMENTED else numbers["free"]
        return max(self._need - float(available), 0.0) / need

    def _numbers(self, code: ReasonCode) -> Numbers:
        survey, verdict, jobs = self._survey, self._verdict, self._session.snapshot.jobs
        now = self._session.now
        at = max(float(jobs.not_before[self._slot]), survey.next_round or now)
        never = code is ReasonCode.CONSTRAINT_NEVER
        numbers: Numbers = {
            **verdict.numbers,
            "largest": verdict.largest_ever if never else verdict.largest,
            "lost": survey.lost_gpus,
            "delay": max(at - now, 0.0),
            "failures": int(jobs.failures[self._slot]),
            "refusals": int(jobs.refusals[self._slot]),
            "refusal": _as_sentence(self._session.state.failures.refusals.get(self._slot, "")),
            "losses": int(jobs.losses[self._slot]),
            **self._locality_numbers(),
        }
        if code is ReasonCode.PRIORITY_BEHIND:
            numbers["ahead"] = int(survey.ahead[self._slot])
        if code is ReasonCode.RESERVED:
            numbers |= survey.kept | survey.held(int(numbers["free"]))
        return numbers | self._health_numbers(code)

    def _health_numbers(self, code: ReasonCode) -> Numbers:
        state, slot, now = self._session.state, self._slot, self._session.now
        if code is ReasonCode.HEALTH_ASIDE:
            return {"aside": self._session.aside_gpus()}
        if code is ReasonCode.HEALTH_AVOIDED:
            away = sorted(self._session.kind(slot).avoid)
            until = state.failures.avoiding.get(slot, now)
            return {"avoided": ", ".join(away), "off": max(until - now, 0.0)}
        if code is ReasonCode.BREAKER_OPEN:
            spec, service = state.spec(slot), state.failures.retry(slot).service
            held = state.failures.health.hold(service, spec.id, spec.tenant, now)
            return {"held": held.why or f"{service} answers again", "service": service}
        return {}

    def _locality_numbers(self) -> Numbers:
        session, offer = self._session, self._verdict.offer
        nodes, racks = self._verdict.fewest_nodes, self._verdict.fewest_racks
        tightest: Numbers = {"fewest": nodes, "fewest_racks": racks}
        if offer is None:
            return {"nodes": nodes, "racks": racks, "slowdown": 1.0, "bound": 0.0} | tightest
        return {
            "nodes": len(offer.shares),
            "racks": offer.racks,
            "slowdown": offer.avoidable,
            "bound": session.recipe.patience.bound_seconds(
                offer.avoidable, session.remaining_seconds(self._slot)
            ),
        } | tightest


def _as_sentence(refusal: str) -> str:
    """A backend's words for a refused start, which may end without a full stop."""
    words = refusal or REFUSED
    return words if words.endswith(".") else f"{words}."
