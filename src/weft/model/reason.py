"""Why a job waits: a closed list of codes, each with its cause, sentence, remedy and anchor.

A cause is what a waiting second is booked to; a reason is what a person reads. Philly's operators
could not tell fair-share from fragmentation delay without such labels; Slurm has about 190
codes and shows one. Here there are few, and all that apply are shown.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum


class Cause(IntEnum):
    """What a waiting second is booked to: exactly one of these."""

    NONE = 0
    QUOTA = 1
    CAPACITY = 2
    FRAGMENTATION = 3
    LOCALITY = 4
    CONSTRAINT = 5
    RESERVATION = 6
    PRIORITY = 7
    HEALTH = 8
    BACKOFF = 9
    BREAKER = 10

    @property
    def label(self) -> str:
        return self.name.lower()


CAUSES: tuple[Cause, ...] = tuple(cause for cause in Cause if cause is not Cause.NONE)


class ReasonCode(Enum):
    """A reason's name, the cause it is booked to, its sentence and what can be done."""

    ROUND_PENDING = (
        "Round.Pending",
        Cause.BACKOFF,
        "The next round decides in {delay:.0f} s.",
        "wait for the round, or lower the recipe's spacing",
    )
    QUOTA_LIMIT = (
        "Quota.Limit",
        Cause.QUOTA,
        "Queue '{queue}' holds {used} of at most {limit} GPUs; this job needs {need}.",
        "wait for a job of that queue to end, ask for fewer GPUs, or raise the limit",
    )
    QUOTA_FIRM = (
        "Quota.Firm",
        Cause.QUOTA,
        "A job that may not be preempted fits only into what is guaranteed: queue '{queue}' uses "
        "{used} of {limit}, this job needs {need}.",
        "make the job preemptible, or raise the guarantee",
    )
    QUOTA_NEVER = (
        "Quota.Never",
        Cause.QUOTA,
        "This job needs {need} GPUs and queue '{queue}' may never hold more than {limit}.",
        "ask for at most {limit} GPUs, or raise the limit",
    )
    CAPACITY_BUSY = (
        "Capacity.Busy",
        Cause.CAPACITY,
        "{free} of {total} suitable GPUs are free; this job needs {need}.",
        "wait for running jobs to end, or ask for no more than is free ({free})",
    )
    CAPACITY_HOST = (
        "Capacity.Host",
        Cause.CAPACITY,
        "No node has {cpus:g} CPUs and {memory:g} GiB of memory free.",
        "wait for running jobs to end, or ask for less of the host",
    )
    CAPACITY_RELEASING = (
        "Capacity.Releasing",
        Cause.CAPACITY,
        "Seats for {need} GPUs are assigned and still being freed.",
        "none needed: it starts when they are free",
    )
    FRAGMENTED = (
        "Fragmentation.Scattered",
        Cause.FRAGMENTATION,
        "{free} suitable GPUs are free, but no allowed placement joins {need} of them: the best "
        "offers {largest}.",
        "ask for a width of at most {largest}, allow more nodes, or wait for neighbours to end",
    )
    LOCALITY_WAIT = (
        "Locality.Waiting",
        Cause.LOCALITY,
        "It fits now on {nodes} nodes in {racks} racks at {slowdown:.2f} times the run time; it "
        "waits for {fewest} in {fewest_racks}, at most {bound:.0f} s.",
        "set the locality cost to 0 to start spread at once",
    )
    CONSTRAINT_TYPE = (
        "Constraint.GpuType",
        Cause.CONSTRAINT,
        "{free} GPUs of nodes that suit it are free, {other} of others; this job needs {need}.",
        "accept another GPU type, demand fewer devices, or bear the taint of the others",
    )
    CONSTRAINT_QUEUE = (
        "Constraint.NoQueue",
        Cause.CONSTRAINT,
        "There is no queue '{queue}' for the {need} GPUs of this job.",
        "create the queue, or submit to one that exists",
    )
    CONSTRAINT_NEVER = (
        "Constraint.Infeasible",
        Cause.CONSTRAINT,
        "No placement in this cluster could ever hold {need} GPUs as asked; the largest is "
        "{largest}.",
        "ask for at most {largest} GPUs, fewer CPUs or devices or less memory per GPU, or more "
        "nodes",
    )
    RESERVED = (
        "Reservation.Kept",
        Cause.RESERVATION,
        "{free} GPUs are free, of which {reserved} are kept for {holder}; this job needs {need}.",
        "ask for less time or fewer GPUs, so that it ends before the reservation",
    )
    PRIORITY_BEHIND = (
        "Priority.Behind",
        Cause.PRIORITY,
        "Jobs that rank before it were served first ({ahead} still wait): GPUs left {free}, "
        "needed {need}.",
        "raise its priority if you may, or wait",
    )
    HEALTH_LOST = (
        "Health.NodesOut",
        Cause.HEALTH,
        "{free} suitable GPUs are free and {lost} are on nodes that are lost or cordoned; this "
        "job needs {need}.",
        "bring the nodes back, or ask for no more than is free ({free})",
    )
    HEALTH_ASIDE = (
        "Health.SetAside",
        Cause.HEALTH,
        "{free} suitable GPUs are free and {aside} are on nodes that are set aside until a check "
        "passes; this job needs {need}.",
        "wait for the check, or look at the nodes: weft nodes tells what they are blamed for",
    )
    HEALTH_PROBED = (
        "Health.Probed",
        Cause.HEALTH,
        "It has seats, and {silent} of its {nodes} nodes are still being probed before it starts; "
        "that takes {delay:.0f} s at most.",
        "none needed: it starts when they pass, and elsewhere if one does not",
    )
    HEALTH_AVOIDED = (
        "Health.Avoided",
        Cause.HEALTH,
        "It failed on {avoided} and keeps off for {off:.0f} s more: {free} GPUs of other nodes are "
        "free, {other} of those; this job needs {need}.",
        "wait for GPUs of other nodes; after that time it takes what there is",
    )
    BREAKER_OPEN = (
        "Breaker.Open",
        Cause.BREAKER,
        "{held}; it waits {delay:.0f} s at least.",
        "none needed: it goes on when {service} answers",
    )
    BACKOFF_RETRY = (
        "Backoff.Retry",
        Cause.BACKOFF,
        "After {failures} failures it is tried again in {delay:.0f} s.",
        "mend the failure and resubmit to start at once",
    )
    BACKOFF_REFUSED = (
        "Backoff.Refused",
        Cause.BACKOFF,
        "{refusal} Tried {refusals} times; the next try is in {delay:.0f} s.",
        "do what is said there, or look at the nodes; the job then starts by itself",
    )
    BACKOFF_LOST = (
        "Backoff.Lost",
        Cause.BACKOFF,
        "What it needs around it has failed its workers {losses} times in a row (exit status 75, "
        "or a node); tried again in {delay:.0f} s.",
        "look at the logs of its last workers for what did not answer",
    )

    def __init__(self, slug: str, cause: Cause, sentence: str, remedy: str) -> None:
        self.slug = slug
        self.cause = cause
        self.sentence = sentence
        self.remedy = remedy

    @property
    def anchor(self) -> str:
        """Where the documentation speaks of this reason."""
        return "reasons.md#" + self.slug.lower().replace(".", "-")


@dataclass(frozen=True, slots=True)
class Reason:
    """A code with its numbers. `shortage` is the share of the need that is missing, 0..1.

    `note` is what its world knows besides.
    """

    code: ReasonCode
    numbers: Mapping[str, float | int | str] = field(default_factory=dict)
    shortage: float = 0.0
    note: str = ""

    @property
    def cause(self) -> Cause:
        return self.code.cause

    @property
    def text(self) -> str:
        said = self.code.sentence.format(**self.numbers)
        return f"{said} {self.note}" if self.note else said

    @property
    def remedy(self) -> str:
        return self.code.remedy.format(**self.numbers)
