"""TrainingJob: a job file in a cluster, and what has become of it.

`spec` is the job file without its name, key by key; it cannot be changed once written. `status` is
written by the operator. It holds the decision before any pod exists, so that after a crash the
object and its pods tell the whole story.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from weft.kube.names import API_VERSION, JOB_KIND
from weft.kube.resources.status import Amount, Condition, Count, Moment, Status, Text, Word
from weft.spec.job_file import JobSpec

MAX_REASONS = 20
MAX_METRICS = 32
MAX_SEATS = 10_000
MAX_OFFERS = 32
SeatList = Annotated[str, Field(max_length=1_048_576)]

StateName = Literal[
    "Queued",
    "Admitted",
    "Starting",
    "Running",
    "Resizing",
    "Stopping",
    "Succeeded",
    "Failed",
    "Cancelled",
]


class TrainingJobSpec(JobSpec):
    """What the job asks for: the job file without its name."""


class WaitReason(Status):
    """Why the job waits, and what can be done about it."""

    code: Word = Field(description="Name of the reason, such as Capacity.Busy.")
    cause: Word = Field("", description="What the waiting is booked to.")
    text: Text = Field("", description="The reason as a sentence, with its numbers.")
    remedy: Text = Field("", description="What its owner could do.")
    anchor: Word = Field("", description="Where the documentation speaks of it.")


class Plan(Status):
    """How the computation is laid over the GPUs."""

    data: Count = Field(0, description="Replicas; 0 means as many as the width gives.")
    tensor: Count = Field(1, description="Degree of tensor parallelism.")
    pipeline: Count = Field(1, description="Degree of pipeline parallelism.")
    sharding: Word = Field("none", description="What replicas share out among themselves.")
    accumulation_steps: Count = Field(1, description="Gradient accumulation steps.")
    recompute: bool = Field(False, description="Whether activations are recomputed.")
    offload: bool = Field(False, description="Whether states are kept in main memory.")
    micro_batches: Count = Field(1, description="Parts in which a batch flows through a pipeline.")
    shard_degree: Count = Field(0, description="Replicas that share one copy; 0 means all.")
    context: Count = Field(1, description="Degree of context parallelism.")
    expert: Count = Field(1, description="Degree of expert parallelism.")


class SeatStatus(Status):
    """What one of the job's pods holds; its place in the list is its rank."""

    number: Count | None = Field(
        None, description="Names the seat, and its pod, as long as the epoch lasts."
    )
    node: Word = Field(description="Name of the node.")
    gpus: Count = Field(description="GPUs held there.")
    cpus: Amount = Field(0.0, description="CPU cores held there.")
    memory_gib: Amount = Field(0.0, description="Main memory held there, in GiB.")


class SeatRun(Status):
    """Seats of one size that follow each other in rank, where a job has many."""

    numbers: SeatList = Field(description="Their numbers in rank order, such as 0..511.")
    nodes: SeatList = Field(
        description="Their nodes in rank order: node-[0000..0511], or node-[3*2,7] for 3, 3 and 7."
    )
    gpus: Count = Field(description="GPUs of each.")
    cpus: Amount = Field(0.0, description="CPU cores of each.")
    memory_gib: Amount = Field(0.0, description="Main memory of each, in GiB.")


class HeadStatus(Status):
    """Who leads the workers of an epoch, once it is not the first seat as a matter of course."""

    seat: Count = Field(description="Number of the seat whose agent leads.")
    term: Count = Field(description="Counts those who have led in this epoch.")
    lost: Annotated[list[Count], Field(max_length=MAX_SEATS)] = Field(
        [], description="Numbers of seats that were given up and may not lead."
    )


class OrderStatus(Status):
    """Another plan that the workers are on their way to, while they train."""

    plan: Plan | None = Field(None, description="The plan; absent means as written.")
    leaving: Annotated[list[Count], Field(max_length=MAX_SEATS)] = Field(
        [], description="Numbers of the seats that are given back when it is reached."
    )


class Decision(Status):
    """What the brain decided; pods are created only after this is written."""

    epoch: Count = Field(description="Counts the job's placements; part of its pods' names.")
    width: Count = Field(description="GPUs in total.")
    at: Moment | None = Field(None, description="When it was decided.")
    leader: Count = Field(0, description="Lease transitions of the operator that decided.")
    plan: Plan | None = Field(None, description="How it computes; absent means as written.")
    seats: Annotated[list[SeatStatus], Field(max_length=MAX_SEATS)] = Field(
        [], description="Where it runs, in rank order; absent where runs say it."
    )
    runs: Annotated[list[SeatRun], Field(max_length=MAX_SEATS)] = Field(
        [], description="The same in short, for a job of many seats."
    )
    serial: Count | None = Field(None, description="Counts the resizes of this epoch.")
    joining: Annotated[list[Count], Field(max_length=MAX_SEATS)] = Field(
        [], description="Numbers of the seats whose workers are on their way."
    )
    order: OrderStatus | None = Field(
        None, description="The plan that its workers are on their way to; absent: they are there."
    )
    next_seat: Count | None = Field(
        None, description="A number that no seat of this epoch has had."
    )
    live: bool | None = Field(
        None, description="Whether it can be resized while it trains, by its own word."
    )
    offers: Annotated[list[Word], Field(max_length=MAX_OFFERS)] = Field(
        [], description="As what its program can be run while it trains, by its own word."
    )
    head: HeadStatus | None = Field(
        None, description="Who leads its workers; absent means the first seat."
    )
    party: Word | None = Field(
        None, description="Whom it joined on their GPUs; absent where it has its own."
    )


class MemberStatus(Status):
    """One of those who take turns."""

    job: Word = Field(description="Its name, with its namespace.")
    slowdown: Amount = Field(description="How many times slower it is than alone.")


class CompanyStatus(Status):
    """With whom the job takes turns on its GPUs, as is foretold and was measured."""

    others: Annotated[list[Word], Field(max_length=8)] = Field([], description="The other jobs.")
    cycle_seconds: Amount = Field(description="After so long all have had their turns.")
    aggregate: Amount = Field(description="Their work by that of one alone.")
    slowdown: Amount = Field(description="How many times slower this job is than alone.")
    memory_gib: Amount | None = Field(None, description="What they need of a GPU, if known.")
    matcher: Word = Field("", description="What put them together.")
    members: Annotated[list[MemberStatus], Field(max_length=8)] = Field(
        [], description="All of them, the one that holds the GPUs first."
    )


class NoCompanyStatus(Status):
    """What kept a job that waits from the party with which most would have been gained."""

    closest: Annotated[list[Word], Field(max_length=8)] = Field([], description="Its members.")
    guard: Word = Field(description="Name of what spoke against it.")
    meaning: Text = Field("", description="The same as a sentence.")


class PlanWay(Status):
    """One way to run the job."""

    gpus: Count = Field(description="GPUs.")
    cores_per_gpu: Amount = Field(0.0, description="Cores beside each.")
    plan: Word = Field(description="How it would compute on them.")
    units_per_second: Amount = Field(description="Foretold speed.")
    left_seconds: Amount = Field(description="Time that would be left, if nothing changes.")
    why: Text = Field("", description="Why it was chosen, or was not.")


class PlanChoice(Status):
    """As what the job runs, and the best of what else there was, when this was written."""

    chosen: PlanWay | None = Field(None, description="What it was given.")
    rejected: Annotated[list[PlanWay], Field(max_length=3)] = Field(
        [], description="The next best, and what spoke against each."
    )
    note: Text = Field("", description="Why its plan is left as it is, if so.")
    unit: Word = Field("", description="What speeds are counted in; empty: as asked for.")


class WorkStatus(Status):
    """How far the job has come, by its own reports."""

    done: Amount = Field(0.0, description="Work done.")
    total: Amount | None = Field(None, description="Work in total, if known.")
    saved: Amount | None = Field(None, description="Work that the last checkpoint holds.")
    unit: Literal["steps", "seconds", "percent"] = Field(
        "seconds", description="What work is counted in."
    )
    remaining_seconds: Amount | None = Field(None, description="Time left, if known.")
    save_every_seconds: Amount | None = Field(None, description="Time between two checkpoints.")
    updated_at: Moment | None = Field(None, description="When this was reported.")


class Past(Status):
    """What the job has been through."""

    attained_gpu_seconds: Amount = Field(0.0, description="GPU seconds received.")
    failures: Count = Field(0, description="Times it failed.")
    refusals: Count = Field(0, description="Times the cluster refused its placement.")
    preemptions: Count = Field(0, description="Times it was stopped for others.")
    losses: Count = Field(0, description="Times in a row that its surroundings failed a worker.")
    retry: Text | None = Field(None, description="What its retries depend on, as JSON.")
    updated_at: Moment | None = Field(None, description="When this was written.")


class FailureStatus(Status):
    """A try that failed: what was found, the line that decided, and what became of the job."""

    epoch: Count = Field(description="Placement that failed.")
    at: Moment | None = Field(None, description="When it failed.")
    kind: Word = Field("unknown", alias="class", description="Class of the failure.")
    rule: Word = Field("", description="Rule that named the line.")
    says: Text = Field("", description="What happened.")
    line: Text = Field("", description="The line that decided.")
    cure: Word = Field("", description="What a retry can do about it.")
    advice: Text = Field("", description="What its owner can do.")
    did: Text = Field("", description="What was done.")
    fingerprint: Word = Field("", description="Failures that share it are the same one.")
    stream: Word | None = Field(None, description="Who said the line: app, kernel or platform.")
    rank: Count | None = Field(None, description="Rank that showed it.")
    node: Word | None = Field(None, description="Node that is blamed, if one is.")
    node_action: Word | None = Field(None, description="What follows for that node.")
    service: Word | None = Field(None, description="Service that did not answer.")
    others: Annotated[list[Word], Field(max_length=8)] = Field(
        [], description="Other rules that named lines."
    )
    lost_gpu_seconds: Amount = Field(0.0, description="GPU time that nobody can go on from.")


class Execution(Status):
    """What an external executor tells, where the operator creates no pods."""

    epoch: Count = Field(description="Epoch that this speaks of.")
    phase: Literal["Running", "Succeeded", "Failed"] = Field(description="How it goes.")
    message: Text = Field("", description="Why it failed.")


class TrainingJobStatus(Status):
    """What has become of the job; written by the operator alone."""

    observed_generation: Count | None = Field(
        None, description="Generation of the job that this speaks of."
    )
    state: StateName | None = Field(None, description="Where the job stands.")
    gpus: Count | None = Field(None, description="GPUs held now; 0 while it waits.")
    progress: Annotated[str, Field(max_length=16)] | None = Field(
        None, description="Share of the work that is done; absent if unknown."
    )
    reason: Word | None = Field(None, description="Code of the first reason; absent if none.")
    message: Text | None = Field(None, description="The first reason, or why it failed.")
    reasons: Annotated[list[WaitReason], Field(max_length=MAX_REASONS)] = Field(
        [], description="Why it waits: all reasons, the most helpful first."
    )
    decision: Decision | None = Field(None, description="The recorded decision.")
    company: CompanyStatus | None = Field(
        None, description="With whom it takes turns on its GPUs; absent where with nobody."
    )
    no_company: NoCompanyStatus | None = Field(
        None, description="Why it takes turns with nobody while it waits, if it would."
    )
    plan_choice: PlanChoice | None = Field(
        None, description="As what it runs and why, where plans are chosen."
    )
    work: WorkStatus | None = Field(None, description="How far it has come.")
    metrics: Annotated[dict[str, float], Field(max_length=MAX_METRICS)] = Field(
        {}, description="Figures that it reported last."
    )
    past: Past | None = Field(None, description="What it has been through.")
    failures: Annotated[list[FailureStatus], Field(max_length=5)] = Field(
        [], description="Its last failed tries, the latest last."
    )
    execution: Execution | None = Field(None, description="What an external executor tells.")
    queued_at: Moment | None = Field(None, description="When it was queued.")
    started_at: Moment | None = Field(None, description="When its workers first ran.")
    ended_at: Moment | None = Field(None, description="When it ended.")
    conditions: Annotated[list[Condition], Field(max_length=8)] = Field(
        [], description="Admitted, Running and Finished."
    )


def manifest(name: str, spec: Mapping[str, Any], *, namespace: str | None = None) -> dict[str, Any]:
    """The object to create for a job."""
    where = {"namespace": namespace} if namespace else {}
    return {
        "apiVersion": API_VERSION,
        "kind": JOB_KIND,
        "metadata": {"name": name, **where},
        "spec": dict(spec),
    }
