"""Promises, checked from what is held and not from what was counted.

Each breach is named with its numbers. A check sums seats by node and by queue anew, so it
cannot share a mistake with the code that handed them out. The simulator checks after every
event what the event touched, and everything once in a while.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from weft.brain.state.brain_state import BrainState
from weft.brain.state.later import is_open
from weft.brain.state.seating import Meal
from weft.brain.state.vacancy import free_room
from weft.brain.state.waits import CAUSE_OF_ROW
from weft.model.decision import Decision
from weft.model.errors import InvariantBreach
from weft.model.ids import JobId
from weft.model.snapshot import Bools, Ints
from weft.model.state import State
from weft.policy.place.room import ROUNDING

ADMITTED = State.ADMITTED


@dataclass(frozen=True, slots=True)
class Breach:
    """A broken promise and where."""

    promise: str
    detail: str


def check(state: BrainState, decision: Decision | None = None) -> list[Breach]:
    """Every promise that can be read off the state, and off the decision that led to it.

    A decision that hands out nothing moves no seat, so only the reasons can have gone wrong.
    """
    idle = decision is not None and not (decision.grants or decision.preemptions)
    if decision is not None and idle and not (decision.resizes or decision.fed or decision.joins):
        return _unexplained(state)
    breaches = [
        *_oversubscribed(state),
        *_promised_on_what_is_gone(state),
        *_partial_gangs(state),
        *_parted(state, list(state.seating.company.leads())),
        *_misplaced(state),
        *_unexplained(state),
        *_miscounted(state),
    ]
    if decision is not None:
        breaches += _decided_wrongly(state, decision)
    return breaches


def check_touched(state: BrainState, decision: Decision) -> list[Breach]:
    """The same for the jobs that the decision names, and for the nodes that they sit on."""
    jobs = [
        *(grant.job for grant in (*decision.grants, *decision.moves, *decision.resizes)),
        *(preemption.job for preemption in decision.preemptions),
        *decision.fed,
        *(joining.job for joining in decision.joins),
    ]
    if not jobs:
        return []
    breaches = _decided_wrongly(state, decision)
    nodes: set[int] = set()
    for job in jobs:
        breaches += check_job(state, job)
        slot = state.slot_of[job]
        nodes.update(state.nodes_of(slot))
        if (CAUSE_OF_ROW[state.jobs.reason[slot]] > 0) != (state.state_of(slot) <= ADMITTED):
            breaches += _unexplained(state)
    for node in nodes:
        breaches += _overpromised(state, node)
    return breaches


def _overpromised(state: BrainState, node: int) -> list[Breach]:
    """Of one node: those who stay and those who are promised seats fit, and it takes seats."""
    if not state.seating.pledged_on[node]:
        return []
    seats, rows = state.seats, state.seating.rows_on(node)
    staying = sum(int(seats.gpus[row]) for row in rows if not seats.releasing[row])
    found = [] if is_open(state, node) else _promised_on_what_is_gone(state)
    if staying > int(state.nodes.gpus[node]) and state.nodes.present[node]:
        found.append(_too_much(state, node, staying))
    return found


def check_job(state: BrainState, job: JobId) -> list[Breach]:
    """The same for one job and the nodes it sits on: what an event about it can have broken."""
    slot = state.slot_of.get(job)
    if slot is None:
        return []
    breaches = []
    seats = state.seats
    held = pledged = 0
    lent = dict(_lent(state, slot)) if state.seating.company.is_companion(slot) else {}
    for row in state.seating.seat_rows[slot]:
        gpus = int(seats.gpus[row]) + lent.get(row, 0)
        node = int(seats.node[row])
        if seats.pledged[row]:
            pledged += gpus
            continue
        held += gpus
        used = sum(state.seating.held_on[node].values())
        if used > int(state.nodes.gpus[node]) and not _is_being_left(state, node):
            breaches.append(_too_much(state, node, used))
    return breaches + _gang(state, slot, held, pledged) + _parted(state, [slot])


def demand(breaches: list[Breach]) -> None:
    """Raise if there is any."""
    if breaches:
        text = "; ".join(f"{breach.promise}: {breach.detail}" for breach in breaches[:5])
        raise InvariantBreach(text, hint="replay the journal: the last event broke it")


def _decided_wrongly(state: BrainState, decision: Decision) -> list[Breach]:
    return [
        *_over_quota(state, decision),
        *_overdrawn(state, decision),
        *_idle_preemptions(state, decision),
        *_broken_guarantees(state, decision),
        *_bad_company(state, decision),
        *_idle_allocations(state, decision),
    ]


def _idle_allocations(state: BrainState, decision: Decision) -> list[Breach]:
    """No job is given a width at which it makes no progress."""
    given = (*decision.grants, *decision.moves, *decision.resizes)
    return [
        Breach("a job runs at its width", f"job {one.job} is given {one.assignment.width} GPUs")
        for one in given
        if not state.runnable.runs(state.slot_of[one.job], one.assignment.width)
    ]


def _lent_by_leads(state: BrainState) -> Ints:
    """By row of seats: GPUs on which a companion takes turns, though another holds them."""
    lent = np.zeros(len(state.seats.slot), np.int64)
    company = state.seating.company
    for lead in company.leads():
        for slot in company.companions(lead):
            for row, gpus in _lent(state, slot):
                lent[row] = gpus
    return lent


def _lent(state: BrainState, companion: int) -> Iterator[tuple[int, int]]:
    """Rows of its seats, and the GPUs there on which it takes turns."""
    seats = state.placement(companion).seats
    for seat, row in zip(seats, state.seating.seat_rows[companion], strict=True):
        yield row, seat.gpus


def _parted(state: BrainState, slots: list[int]) -> list[Breach]:
    """Those who take turns sit on the same GPUs, which one of them holds."""
    company, found = state.seating.company, []
    for lead in dict.fromkeys(company.lead(slot) for slot in slots if company.shares(slot)):
        where = state.placement(lead).gpus_by_node
        held = sum(int(state.seats.gpus[row]) for row in state.seating.seat_rows[lead])
        apart = [
            state.spec(slot).id
            for slot in company.companions(lead)
            if state.placement(slot).gpus_by_node != where
        ]
        if apart or held != int(state.jobs.width[lead]) or company.is_companion(lead):
            detail = f"{state.spec(lead).id} holds {held} GPUs for {len(company.companions(lead))}"
            found.append(Breach("who takes turns sits together", f"{detail}, apart: {apart}"))
    return found


def _bad_company(state: BrainState, decision: Decision) -> list[Breach]:
    """Nobody joins whose memory does not fit, who slows others beyond the cap, or for nothing."""
    found = []
    for joining in decision.joins:
        slots = [state.slot_of[job] for job in (joining.job, *joining.company)]
        slow = max(joining.slowdowns)
        if slow > joining.cap + ROUNDING or joining.aggregate < 1.0:
            detail = f"{joining.job}: {slow:.2f} times slower, together {joining.aggregate:.2f}"
            found.append(Breach("nobody is slowed beyond the cap", detail))
        if not _memory_fits(state, slots):
            found.append(Breach("memory of those who take turns fits", str(joining.job)))
    return found


def _memory_fits(state: BrainState, slots: list[int]) -> bool:
    """On every node that they sit on whose GPUs' memory is known."""
    node = state.node_table.specs[state.nodes_of(slots[0])[0]]
    if node.gpu.memory_gib is None:
        return True
    claims = [state.spec(slot).stages for slot in slots]
    needs = [None if one is None else one.profile.gpu_memory_bytes for one in claims]
    known = [need for need in needs if need is not None]
    return len(known) == len(needs) and sum(known) <= node.gpu.memory_gib * 2**30


def _miscounted(state: BrainState) -> list[Breach]:
    """What is kept between rounds is what a sum over all rows says."""
    hosts, jobs, size = state.counts_host, state.jobs, state.size
    kept = state.vacancy.room(counts_host=hosts)
    summed = free_room(state.seating, state.fabric, counts_host=hosts)
    active = jobs.active[:size]
    queued = int(np.count_nonzero(active & (jobs.state[:size] == State.QUEUED)))
    ranged = int(np.count_nonzero(active & (jobs.min_gpus[:size] < jobs.max_gpus[:size])))
    wrong = {
        "free GPUs": not np.array_equal(kept.gpus, summed.gpus),
        "free cores": not np.array_equal(kept.cpus, summed.cpus),
        "free memory": not np.array_equal(kept.memory_gib, summed.memory_gib),
        "waiting jobs": queued != state.queued,
        "jobs with a range": ranged != state.ranged,
    }
    return [Breach("what is kept is what is there", what) for what, is_so in wrong.items() if is_so]


def _oversubscribed(state: BrainState) -> list[Breach]:
    """No GPU in two seats; what is promised beyond what stops fits as well.

    A node that shrank under its jobs is relieved: until those have stopped, more is held than it
    has, and nobody may come.
    """
    count, rows = state.seat_count, len(state.node_ids)
    seats, nodes = state.seats, state.nodes
    node, gpus = seats.node[:count], seats.gpus[:count]
    capacity, present = nodes.gpus[:rows], nodes.present[:rows]
    held = np.bincount(node, gpus * ~seats.pledged[:count], minlength=rows)
    staying = np.bincount(node, gpus * ~seats.releasing[:count], minlength=rows)
    too_much = (staying > capacity) | ((held > capacity) & (staying > 0) & ~_relieved(state))
    if not too_much.any():
        return []
    broken = np.flatnonzero(too_much & present)
    return [_too_much(state, row, int(max(held[row], staying[row]))) for row in broken.tolist()]


def _promised_on_what_is_gone(state: BrainState) -> list[Breach]:
    """Seats are pledged, and kept for who moves, on nodes that are there and take seats."""
    rows = {row for row, pledged in enumerate(state.seating.pledged_on) if pledged}
    moves = state.next_assignment.values()
    rows |= {state.node_row[node] for move in moves for node in move.placement.nodes}
    return [
        Breach("nothing is pledged on what is gone", f"node {state.node_ids[row]}")
        for row in sorted(rows)
        if not is_open(state, row)
    ]


def _relieved(state: BrainState) -> Bools:
    mask = np.zeros(len(state.node_ids), bool)
    mask[sorted(state.seating.shrunk)] = True
    return mask


def _is_being_left(state: BrainState, node: int) -> bool:
    """Whether the node is gone, or all are leaving, or it shrank and those who stay fit."""
    staying = state.seating.staying_on(node)
    if not state.nodes.present[node] or not staying:
        return True
    return node in state.seating.shrunk and staying <= int(state.nodes.gpus[node])


def _too_much(state: BrainState, node: int, used: int) -> Breach:
    return Breach(
        "no GPU is given twice",
        f"node {state.node_ids[node]} has {int(state.nodes.gpus[node])} GPUs and {used} are held",
    )


def _partial_gangs(state: BrainState) -> list[Breach]:
    """All or nothing: seats add up to the decided width, and that is in the job's range."""
    count, size = state.seat_count, state.size
    seats, jobs = state.seats, state.jobs
    taken = seats.slot[:count] >= 0
    slots, gpus = seats.slot[:count][taken], seats.gpus[:count][taken]
    pledged = seats.pledged[:count][taken]
    if state.seating.company:
        gpus = gpus + _lent_by_leads(state)[:count][taken]
    held = np.bincount(slots, gpus * ~pledged, minlength=size)[:size]
    promised = np.bincount(slots, gpus * pledged, minlength=size)[:size]
    status, width, active = jobs.state[:size], jobs.width[:size], jobs.active[:size]
    holds = active & (status >= State.STARTING) & (status <= State.STOPPING)
    admitted = active & (status == State.ADMITTED)
    bad = np.where(holds, (held != width) | (promised > 0), held > 0)
    bad |= np.where(admitted, promised != width, promised > 0)
    bad |= (holds | admitted) & ((width < jobs.min_gpus[:size]) | (width > jobs.max_gpus[:size]))
    if not bad.any():
        return []
    found = []
    for slot in np.flatnonzero(bad).tolist():
        found += _gang(state, slot, int(held[slot]), int(promised[slot])) or [
            Breach("all or nothing", f"slot {slot} holds seats without a job")
        ]
    return found


def _gang(state: BrainState, slot: int, held: int, pledged: int) -> list[Breach]:
    status = state.state_of(slot)
    width = int(state.jobs.width[slot])
    holds, admitted = status.holds_seats, status is ADMITTED
    low, high = int(state.jobs.min_gpus[slot]), int(state.jobs.max_gpus[slot])
    in_range = low <= width <= high or not (holds or admitted)
    if held == width * holds and pledged == width * admitted and in_range:
        return []
    name = spec.id if (spec := state.specs[slot]) else f"slot {slot}"
    return [
        Breach(
            "all or nothing",
            f"job {name} is {status.name} at width {width} of {low}..{high} and holds {held}, "
            f"pledged {pledged}",
        )
    ]


def _misplaced(state: BrainState) -> list[Breach]:
    """Each job that is not over is in exactly one place, and has one incarnation at most."""
    active = int(np.count_nonzero(state.jobs.active[: state.size]))
    if active == len(state.slot_of):
        return []
    return [Breach("no job is lost", f"{active} rows for {len(state.slot_of)} jobs")]


def _unexplained(state: BrainState) -> list[Breach]:
    """Every waiting job has a reason; no other job has one."""
    size, jobs = state.size, state.jobs
    waits = jobs.active[:size] & (jobs.state[:size] <= State.ADMITTED)
    told = CAUSE_OF_ROW[jobs.reason[:size]] > 0
    bad = jobs.active[:size] & (waits != told)
    return [
        Breach("every wait has a reason", f"job {state.spec(slot).id} {state.state_of(slot).name}")
        for slot in np.flatnonzero(bad).tolist()
    ]


def _over_quota(state: BrainState, decision: Decision) -> list[Breach]:
    """A queue that was given something is within its limit afterwards."""
    quota = state.quota
    if not decision.grants or not quota.limited:
        return []
    used = quota.sums(state.own_use())
    touched = {
        step
        for grant in decision.grants
        if grant.assignment.width
        for step in quota.paths[int(state.jobs.queue[state.slot_of[grant.job]])]
    }
    return [
        Breach("quota", f"queue {quota.ids[s]} uses {used[s]} GPUs of at most {quota.caps[s]}")
        for s in sorted(touched)
        if used[s] > quota.caps[s]
    ]


def _overdrawn(state: BrainState, decision: Decision) -> list[Breach]:
    """Cores and memory of a node on which somebody was given some: all that is held fits."""
    if not state.counts_host and state.fair is None:
        return []
    nodes, seats = state.nodes, state.seats
    found = []
    for node in _given_on(state, decision):
        held = list(state.seating.held_on[node])
        cpus = float((seats.cpus[held] + seats.fed_cpus[held]).sum())
        memory_gib = float((seats.memory_gib[held] + seats.fed_gib[held]).sum())
        if cpus > nodes.cpus[node] + ROUNDING:
            detail = f"node {state.node_ids[node]}: {cpus:g} cores of {nodes.cpus[node]:g}"
            found.append(Breach("no core twice", detail))
        if memory_gib > nodes.memory_gib[node] + ROUNDING:
            detail = f"{memory_gib:g} GiB of {nodes.memory_gib[node]:g}"
            found.append(Breach("no memory twice", f"node {state.node_ids[node]}: {detail}"))
    return found


def _given_on(state: BrainState, decision: Decision) -> list[int]:
    """Nodes of those who start now, and of those who are fed more."""
    started = [
        state.slot_of[g.job] for g in decision.grants if state.slot_of.get(g.job) is not None
    ]
    fed = [state.slot_of[job] for job in decision.fed if job in state.slot_of]
    more = [
        slot
        for slot in fed
        if slot in state.seating.feeding and _grows(state.seating.feeding[slot])
    ]
    now = [slot for slot in started if state.state_of(slot) is State.STARTING]
    return sorted({node for slot in now + more for node in state.nodes_of(slot)})


def _grows(meal: Meal) -> bool:
    return any(after > before for before, after in zip(meal.before, meal.target, strict=True))


def _idle_preemptions(state: BrainState, decision: Decision) -> list[Breach]:
    """Nobody is stopped but for a job that was granted seats, and none that may not be."""
    granted = {grant.job for grant in decision.grants}
    found = []
    for preemption in decision.preemptions:
        spec = state.spec(state.slot_of[preemption.job])
        beneficiary = state.slot_of[preemption.beneficiary]
        moved = beneficiary in state.next_assignment or preemption.job == preemption.beneficiary
        if preemption.beneficiary not in granted and not moved:
            found.append(
                Breach("no idle preemption", f"{spec.id} for {preemption.beneficiary}, which waits")
            )
        if not state.jobs.yields[state.slot_of[spec.id]] and not (
            spec.preemptible and preemption.reclaim
        ):
            found.append(Breach("no idle preemption", f"{spec.id} may not be preempted"))
        found += _inverted(state, preemption.job, preemption.beneficiary, preemption.reclaim)
    return found


def _broken_guarantees(state: BrainState, decision: Decision) -> list[Breach]:
    """Nothing is taken from a queue for another one once it is down to its guarantee.

    The grants are gone through again in their order, each with those who yield to it. Whoever
    moves was told so only after them, and held its seats till then.
    """
    quota = state.quota
    if not any(preemption.reclaim for preemption in decision.preemptions):
        return []
    used = quota.sums(state.own_use())
    found = []

    def queue_of(job: JobId) -> int:
        return int(state.jobs.queue[state.slot_of[job]])

    def change(job: JobId, sign: int) -> None:
        width = int(state.jobs.width[state.slot_of[job]])
        for step in quota.paths[queue_of(job)]:
            used[step] += sign * width

    for grant in decision.grants:
        change(grant.job, -1)
    for leaving in [*(p.job for p in decision.preemptions), *(m.job for m in decision.moves)]:
        change(leaving, +1)
    for grant in decision.grants:
        mine = quota.paths[queue_of(grant.job)]
        for preemption in decision.preemptions:
            if preemption.beneficiary == grant.job:
                theirs = [s for s in quota.paths[queue_of(preemption.job)] if s not in mine]
                found += [
                    Breach("guarantee", f"{quota.ids[s]} had {used[s]} of {quota.guaranteed[s]}")
                    for s in theirs
                    if used[s] <= quota.guaranteed[s]
                ]
                change(preemption.job, -1)
        change(grant.job, +1)
    return found


def _inverted(state: BrainState, job: JobId, beneficiary: JobId, reclaim: bool) -> list[Breach]:
    mine = state.spec(state.slot_of[job]).priority
    theirs = state.spec(state.slot_of[beneficiary]).priority
    if reclaim or theirs >= mine:
        return []
    return [Breach("priority", f"{job} ({mine}) yields to {beneficiary} ({theirs})")]
