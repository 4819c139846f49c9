"""Whose company a job is in, as people are shown it, from what the brain believes.

A world that lets tenants meet shows none of them the names of the others' jobs.
"""

from weft.brain.brain import Brain
from weft.model.ids import JobId
from weft.policy.recipe import Recipe
from weft.view.company import Company, Member, NoCompany

HIDDEN = "a job of another tenant"
UNMEASURED = NoCompany(
    (), "stages", "nobody knows what its steps do before it has run: tell it with stages"
)


def company_seen(brain: Brain, job: JobId, *, by_all: bool = False) -> Company | None:
    """Of a job that takes turns; with the names of all others where it is seen `by_all`."""
    state, slot = brain.state, brain.state.slot_of.get(job)
    if slot is None or not state.seating.company.shares(slot):
        return None
    members = state.seating.company.members(slot)
    claims = [state.spec(member).stages for member in members]
    needs = [None if claim is None else claim.profile.gpu_memory_bytes for claim in claims]
    known = [need for need in needs if need is not None]
    looked = state.turns.looked.get(members[0])
    stands = looked is not None and set(looked.members) == set(members)
    measured = looked.measured if looked is not None and stands else {}
    names = {member: _name(brain, member, slot, by_all=by_all) for member in members}
    forecast = state.turns.expected(claims)
    return Company(
        others=tuple(names[member] for member in members if member != slot),
        cycle_seconds=forecast.cycle_seconds,
        aggregate=forecast.aggregate,
        slowdown=state.turn(slot).slowdown,
        memory_gib=sum(known) / 2**30 if len(known) == len(needs) else None,
        members=tuple(
            Member(names[member], state.turn(member).slowdown, _at_least_once(measured.get(member)))
            for member in members
        ),
        matcher=_matcher(brain.recipe),
        since=state.turns.changed.get(slot),
    )


def no_company_seen(brain: Brain, job: JobId, *, by_all: bool = False) -> NoCompany | None:
    """Of a job that waits and would take turns: what kept it from those closest to it."""
    state, slot = brain.state, brain.state.slot_of.get(job)
    if slot is None:
        return None
    if _is_unmeasured(brain, slot):
        return UNMEASURED
    refused = state.turns.refused.get(slot)
    if refused is None:
        return None
    guard, lead = refused.guard, refused.lead
    if lead is None:
        return NoCompany((), guard.value, guard.meaning)
    if state.specs[lead] is None:
        return None
    members = state.seating.company.members(lead)
    names = tuple(_name(brain, member, slot, by_all=by_all) for member in members)
    return NoCompany(names, guard.value, guard.meaning)


def _is_unmeasured(brain: Brain, slot: int) -> bool:
    """Whether it would take turns, and nobody knows what its steps do."""
    spec = brain.state.spec(slot)
    return spec.shareable and spec.stages is None and brain.recipe.sharing is not None


def _name(brain: Brain, member: int, slot: int, *, by_all: bool) -> str:
    spec, own = brain.state.spec(member), brain.state.spec(slot)
    return spec.id if by_all or spec.tenant == own.tenant else HIDDEN


def _at_least_once(slowdown: float | None) -> float | None:
    """Nobody is faster in company: what is below is how exactly it was measured."""
    return None if slowdown is None else max(slowdown, 1.0)


def _matcher(recipe: Recipe) -> str:
    """By what they were put together."""
    regrouped = recipe.yielding is not None and recipe.yielding.regrouping is not None
    return "regrouping" if regrouped else "joining"
