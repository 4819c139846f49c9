"""In whose company a job is on its GPUs, or why it is in nobody's."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Member:
    """One of those who take turns: how many times slower it is than alone.

    As foretold, corrected by what such parties were measured to do; `measured` is what was measured
    of this one last.
    """

    job: str
    slowdown: float
    measured: float | None = None


@dataclass(frozen=True, slots=True)
class Company:
    """With whom a job takes turns, as is believed at that moment; the lead is the first member.

    A cycle is when all have had their turns; `aggregate` is their work by that of one alone, and
    `slowdown` how many times longer this job takes than alone. `memory_gib` is what all of them
    need of a GPU, where that is known. `matcher` put them together at `since`, in seconds of the
    world's own clock.
    """

    others: tuple[str, ...]
    cycle_seconds: float
    aggregate: float
    slowdown: float
    memory_gib: float | None
    members: tuple[Member, ...] = ()
    matcher: str = ""
    since: float | None = None


@dataclass(frozen=True, slots=True)
class NoCompany:
    """What kept a waiting job from the party with which most would have been gained, if any."""

    closest: tuple[str, ...]
    guard: str
    meaning: str


def company_line(company: Company) -> str:
    """`takes turns with b: 1.1 s a cycle, together 1.8 times the work of one, …`."""
    told = [
        f"{company.cycle_seconds:.3g} s a cycle",
        f"together {company.aggregate:.2f} times the work of one",
        f"this job {company.slowdown:.2f} times slower than alone",
    ]
    told += [
        f"{one.job} {one.slowdown:.2f} times"
        for one in company.members
        if one.job in company.others
    ]
    told += [
        f"{one.job} measured at {one.measured:.2f} times"
        for one in company.members
        if one.measured is not None
    ]
    if company.memory_gib is not None:
        told.append(f"{company.memory_gib:.3g} GiB of a GPU")
    if company.matcher:
        told.append(f"put together by {company.matcher}")
    return f"takes turns with {', '.join(company.others)}: {', '.join(told)}"


def no_company_line(refused: NoCompany) -> str:
    """`company of b was closest: together they need more memory than a GPU has [memory]`."""
    closest = ", ".join(refused.closest)
    whose = f"company of {closest} was closest" if closest else "it has no company yet"
    return f"{whose}: {refused.meaning} [{refused.guard}]"
