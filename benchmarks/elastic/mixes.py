"""Mixes: jobs that can be predicted beside jobs that cannot, in five proportions.

Three hundred jobs on 16 nodes of 4 GPUs. They come in sweeps of one to eight jobs of one tenant and
model, as people start them, at moments without memory, and are 90 % of what the cluster can do at
the widths that they ask for. A job lasts 10^U minutes at its asked width, U even between 1 and 2.5
for four jobs in five and between 2.5 and 3.5 for the fifth (Gavel's law, at a third of its
lengths); it asks for 1, 2, 4, 8 or 16 GPUs and can run on any number from one up to what its model
can use.

Of the predictable jobs half state their steps, half only the loss at which they are to end: it
falls by the law l(k) = 1 / (b0 k + b1) + b2, and is seen with an error of up to 2 %. Of the others
nobody knows the length; they name a target as well, but their loss is erratic: it restarts, stands
still and falls by steps.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from statistics import fmean

from benchmarks.elastic.scaling import invented_curves
from benchmarks.elastic.trials import MEASURED, Outcome, Trial, compared, run_all
from benchmarks.elastic.workloads import Given
from benchmarks.row import Row, at_least, told
from weft.model.cluster import Cluster
from weft.model.ids import JobId, TenantId
from weft.model.job import Job
from weft.model.loss import ErraticLoss, Loss, LossCurve
from weft.model.request import Width, WorkUnit
from weft.model.truth import Work

NODES, NODE_GPUS = 16, 4
JOBS = 300
LOAD = 0.9
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
TENANTS = 6
LARGEST_SWEEP = 8
ASKED_GPUS = {1: 0.35, 2: 0.2, 4: 0.25, 8: 0.15, 16: 0.05}
LONG_SHARE = 0.2
STATED_SHARE = 0.5
RIVALS = ("optimus", "tiresias", "srtf")
AIMED_AT = ("optimus", "tiresias")
AIM = 2.0
SEEDS = 5
SHORT_SHARES, SHORT_JOBS = (0.0, 0.5, 1.0), 100


def rows(traces: Path | None = None, *, short: bool = False) -> Iterator[Row]:
    """At each share: how many times as long jobs take on average under the others."""
    seeds = range(1 if short else SEEDS)
    jobs = SHORT_JOBS if short else JOBS
    for share in SHORT_SHARES if short else SHARES:
        trials = [
            Trial(
                name=f"{share:.0%} unpredictable",
                workload=partial(mix, unpredictable=share, jobs=jobs),
                recipe=recipe,
                seed=seed,
                costs=MEASURED,
            )
            for recipe in ("aiturbo", *RIVALS)
            for seed in seeds
        ]
        yield from _rows(list(run_all(trials)))


def mix(seed: int, *, unpredictable: float, jobs: int = JOBS, load: float = LOAD) -> Given:
    """With that share of unpredictable jobs; the jobs are otherwise the same for every share."""
    drawn = _drawn(seed, jobs)
    gpu_seconds = sum(body.seconds * body.gpus for body in drawn)
    span = gpu_seconds / (load * NODES * NODE_GPUS)
    arrivals = _arrivals(Random(f"arrivals {seed}"), drawn, span)
    hidden = _chosen(seed, len(drawn), unpredictable)
    made = [
        _job(f"{seed}-{number:03d}", body, at, hidden=number in hidden)
        for number, (body, at) in enumerate(zip(drawn, arrivals, strict=True))
    ]
    return Given(Cluster.uniform(NODES, NODE_GPUS), tuple(made))


@dataclass(frozen=True, slots=True)
class _Body:
    """What a job is, whoever knows it."""

    sweep: int
    tenant: int
    model: str
    gpus: int
    seconds: float


def _drawn(seed: int, jobs: int) -> list[_Body]:
    """Sweep after sweep: one tenant, one model, one width, each job of its own length."""
    random, drawn = Random(f"bodies {seed}"), list[_Body]()
    curves = invented_curves()
    sweep = 0
    while len(drawn) < jobs:
        (gpus,) = random.choices(list(ASKED_GPUS), list(ASKED_GPUS.values()))
        fitting = [name for name in sorted(curves) if curves[name].points[-1][0] >= gpus]
        tenant, model = random.randrange(TENANTS), random.choice(fitting)
        for _ in range(min(random.randint(1, LARGEST_SWEEP), jobs - len(drawn))):
            drawn.append(_Body(sweep, tenant, model, gpus, _seconds(random)))
        sweep += 1
    return drawn


def _seconds(random: Random) -> float:
    long = random.random() < LONG_SHARE
    exponent = random.uniform(2.5, 3.5) if long else random.uniform(1.0, 2.5)
    return 60.0 * float(10.0**exponent)


def _arrivals(random: Random, drawn: list[_Body], span: float) -> list[float]:
    """Sweeps at moments without memory over the span, their jobs half a minute apart."""
    begins = sorted(random.uniform(0.0, span) for _ in range(drawn[-1].sweep + 1))
    arrivals, last = list[float](), -1
    for body in drawn:
        at = begins[body.sweep] if body.sweep != last else arrivals[-1] + 30.0
        arrivals.append(at)
        last = body.sweep
    return arrivals


def _chosen(seed: int, jobs: int, share: float) -> set[int]:
    """Those that nobody can predict: of a larger share those of a smaller one, and more."""
    numbers = list(range(jobs))
    Random(f"hidden {seed}").shuffle(numbers)
    return set(numbers[: round(share * jobs)])


def _job(name: str, body: _Body, at: float, *, hidden: bool) -> Job:
    curve = invented_curves()[body.model]
    random = Random(f"loss {name}")
    steps = body.seconds * curve.at(body.gpus)
    states_steps = not hidden and random.random() < STATED_SHARE
    loss: Loss | None = None
    if not states_steps:
        loss = erratic(random, steps) if hidden else falling(random, steps)
    return Job.told(
        id=JobId(name),
        tenant=TenantId(f"tenant-{body.tenant}"),
        width=Width(1, curve.points[-1][0], body.gpus),
        work=Work(steps, WorkUnit.SAMPLES),
        tell_work=states_steps,
        submit_seconds=at,
        curve=curve,
        loss=loss,
        model=body.model,
    )


def falling(random: Random, steps: float) -> LossCurve:
    """From a first loss of 2 to 10 towards a floor, ending when 4 to 25 times nearer to it."""
    first = random.uniform(2.0, 10.0)
    floor = first * random.uniform(0.02, 0.15)
    target = floor + (first - floor) / 4.0 ** random.uniform(1.0, 2.3)
    noise = random.uniform(0.0, 0.02)
    return LossCurve.through(first=first, target=target, floor=floor, steps=steps, noise=noise)


def erratic(random: Random, steps: float) -> ErraticLoss:
    """A piece for every 2 to 15 % of the steps: restarts, plateaus, steps and falls."""
    first = random.uniform(2.0, 10.0)
    target = first * random.uniform(0.1, 0.3)
    pieces, begin, level = list[tuple[float, LossCurve]](), 0.0, first
    while begin < steps:
        length = steps * random.uniform(0.02, 0.15)
        piece = _piece(random, first, level, target, length)
        pieces.append((begin, piece))
        level, begin = piece.at(length), begin + length
    return ErraticLoss(tuple(pieces), random.uniform(0.0, 0.02), target)


def _piece(random: Random, first: float, level: float, target: float, length: float) -> LossCurve:
    kind = random.choice(("restart", "plateau", "step", "fall"))
    top = level
    if kind == "restart":
        top += (first - level) * random.uniform(0.3, 0.9)
    elif kind == "step":
        top = max(level * random.uniform(0.6, 0.9), 1.02 * target)
    if kind in ("plateau", "step"):
        return LossCurve(0.0, 2.0 / top, top / 2)
    end = max(top * random.uniform(0.5, 0.9), 1.01 * target)
    return LossCurve.through(first=1.001 * top, target=end, floor=0.9 * end, steps=length)


def _rows(outcomes: Sequence[Outcome]) -> Iterator[Row]:
    """Of one share."""
    name = outcomes[0].name
    ours = [outcome for outcome in outcomes if outcome.recipe == "aiturbo"]
    yield told(f"{name}: aiturbo's mean JCT", _mean(ours, "mean_jct_seconds") / 3600, "h")
    yield told(f"{name}: aiturbo's utilisation", _mean(ours, "utilisation"), "of all GPUs")
    thought = 1000 * _mean(ours, "brain_cpu_seconds") / _mean(ours, "rounds")
    yield told(f"{name}: aiturbo's brain, per round with all that is heard", thought, "ms CPU")
    for rival in RIVALS:
        theirs = [outcome for outcome in outcomes if outcome.recipe == rival]
        yield _times(f"{name}: {rival}", theirs, ours)
        yield told(f"{name}: {rival}'s utilisation", _mean(theirs, "utilisation"), "of all GPUs")


def _times(name: str, theirs: Sequence[Outcome], ours: Sequence[Outcome]) -> Row:
    times = compared(theirs, ours, "mean_jct_seconds")
    spread = "" if times.half_width is None else f" (± {times.half_width:.2f})"
    unit = f"times aiturbo's mean JCT{spread}"
    if theirs[0].recipe not in AIMED_AT:
        return told(name, times.mean, unit)
    return replace(at_least(name, times.mean, unit, AIM), aim=True)


def _mean(outcomes: Sequence[Outcome], field: str) -> float:
    return fmean(float(getattr(outcome, field)) for outcome in outcomes)


WORKLOADS = {share: partial(mix, unpredictable=share) for share in SHARES}
