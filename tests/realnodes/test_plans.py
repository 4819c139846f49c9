"""Jobs on real nodes go to another plan by the scheduler's decision.

As long as others hold the rest each has one GPU; when one beside it comes free, it gets both. A
program of flags knows nothing of Weft: it is started from its checkpoint by the command that fits
them, also if all operators die in that moment, and no count is lost or made twice. A language model
that trains with the library goes there and back while it trains, over two pods; another one goes
through five plans (`tests.five_plans`), over up to four. No sample is lost or used twice.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import groupby, pairwise
from pathlib import Path
from typing import Final

import pytest

from tests import five_plans
from tests.five_plans import BOTH, CYCLE, SPLIT, STAGES, WHOLE
from tests.kube.installed import NAMESPACE
from tests.kube.operators import wait_until
from tests.language_model import BATCH, MODEL
from tests.realnodes.site import CLAIM, MOUNT, Site
from tests.train.lines import Line, check_each_once, in_order, read_lines, samples

ROOT: Final = Path(__file__).parents[2]
SCRIPT: Final = Path(__file__).parent / "jobs" / "plans.py"

GPUS: Final = 4
VALUES: Final = {"recipe": "rubick(spacing=0.5, budget=1.0, gate=0.5)"}
Way = tuple[int, str]
"""GPUs, and the plan on them."""

JOB: Final = "flags"
COUNTING: Final = """
cd "$WEFT_CHECKPOINT_PATH"
echo "$@" as $RANK of $WORLD_SIZE >>runs
step=$(cat step-$RANK 2>/dev/null || echo 0)
while [ ! -e enough ]; do
  step=$((step + 1))
  echo $step >step-$RANK
  echo $step >>steps-$RANK
  sleep 0.2
done
"""
ENOUGH_STEPS: Final = 200
PATIENCE_SECONDS: Final = 200.0


@pytest.mark.timeout(600)
def test_another_plan_is_another_command_that_counts_on(site: Site) -> None:
    folder = _is_begun(site)
    first = _lines(folder, "runs")
    assert first == ["data 1 1 as 0 of 1"]
    wait_until(lambda: len(_lines(folder, "steps-0")) > ENOUGH_STEPS, "counts", PATIENCE_SECONDS)
    site.lab.cancel("beside")
    site.kill_operators()
    site.until(
        "plans",
        "operators killed in a switch to another command that runs",
        lambda: len(_lines(folder, "runs")) == 3,
    )
    goal = len(_lines(folder, "steps-0")) + 20
    wait_until(lambda: len(_lines(folder, "steps-0")) >= goal, "them to count on")
    site.lab.wait_for(JOB, "Running", seconds=PATIENCE_SECONDS)  # it counts before it is said to
    assert site.lab.job(JOB)["status"]["planChoice"]["chosen"]["gpus"] == 2
    (folder / "enough").touch()
    site.lab.wait_for(JOB, "Succeeded", seconds=PATIENCE_SECONDS)
    counted = [int(line) for line in _lines(folder, "steps-0")]
    assert counted == list(range(1, len(counted) + 1)), "from its checkpoint, no step twice"
    second = sorted(_lines(folder, "runs")[1:])
    assert second in (
        ["data 2 2 as 0 of 2", "data 2 2 as 1 of 2"],
        ["tensor 2 as 0 of 2", "tensor 2 as 1 of 2"],
    )
    _cancel_all(site)


LIVE, FIVE = "lm", "five"
SAMPLES: Final = 160


@pytest.mark.timeout(300)
def test_a_model_goes_to_another_plan_and_back_while_it_trains(site: Site) -> None:
    folder = _trains(site)
    site.lab.cancel("beside")
    began = time.time()
    _await_plan(site, folder, SPLIT)
    site.note("plans", "a GPU comes free to a step of both, tensors in parts", time.time() - began)
    began = time.time()
    _holds(site, "other", 1)
    site.note("plans", "another job's submission to its start beside it", time.time() - began)
    _await_plan(site, folder, WHOLE)
    done = _lost_nothing(site, folder, batch=BATCH, size=SAMPLES)
    assert _ways(done) == (WHOLE, SPLIT, WHOLE)
    _cancel_all(site)


@pytest.mark.timeout(300)
def test_a_model_goes_through_five_plans_while_it_trains(site: Site) -> None:
    """By jobs that go and come, and a GPU more; on the way to the fourth another operator leads."""
    taken, others = _leave_one_gpu_of_four(site)
    folder = _begin(site, FIVE, "1..4", five_plans.MODEL, *five_plans.WORDS)
    for name, way in zip(others, CYCLE[1:4], strict=True):
        with _timed_switch(site, folder, way):
            site.lab.cancel(name)
            if way == BOTH:
                _delete_the_leader(site)
    site.nodes.set_gpus(taken, GPUS + 1)
    _holds(site, "fifth", 1)
    for name, gpus, way in (("pair", 2, STAGES), ("single", 1, WHOLE)):
        with _timed_switch(site, folder, way):
            _sleeps(site, name, gpus)
    done = _lost_nothing(site, folder, batch=five_plans.BATCH, size=five_plans.SAMPLES)
    assert _ways(done) == CYCLE
    _cancel_all(site)
    site.nodes.set_gpus(taken, GPUS)


def _delete_the_leader(site: Site) -> None:
    """As soon as the order is on record."""
    wait_until(lambda: "order" in site.decision(FIVE), "an order", PATIENCE_SECONDS)
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{site.leader()}"
    site.plane.api.must("DELETE", path)


@contextmanager
def _timed_switch(site: Site, folder: Path, way: Way) -> Iterator[None]:
    began = time.time()
    yield
    _await_plan(site, folder, way)
    width, plan = way
    site.note("plans", f"to a step of {width} as {plan}", time.time() - began)


def _leave_one_gpu_of_four(site: Site) -> tuple[str, tuple[str, ...]]:
    """The node that is taken whole, and those who hold the other one but for a GPU."""
    names = tuple(f"other{number}" for number in range(GPUS - 1))
    _sleeps(site, "wide", GPUS)
    for name in names:
        _sleeps(site, name, 1)
    for name in ("wide", *names):
        site.lab.wait_for(name, "Running", seconds=PATIENCE_SECONDS)
    (taken,) = site.seats("wide").values()
    return taken, names


def _lost_nothing(site: Site, folder: Path, *, batch: int, size: int) -> list[Line]:
    """Whole steps, each once and with the samples of a run that nobody disturbs.

    The longest wait is told.
    """
    assert site.decision(folder.name)["epoch"] == 1, "it was never started anew"
    done = _complete(read_lines(folder))
    assert {line["life"] for line in done if line.get("stepped")} == {1}
    steps = 1 + max(line["step"] for line in done if line.get("stepped"))
    check_each_once(done, total=steps, batch=batch, size=size)
    taken = {step: sorted(some) for step, some in samples(done).items()}
    assert taken == in_order(steps, batch=batch, size=size)
    site.note("plans", f"longest wait between two of {steps} steps", _longest_wait(done))
    return done


def _ways(lines: list[Line]) -> tuple[Way, ...]:
    """Widths and plans, in the order in which it has trained so."""
    done = sorted((line for line in lines if line.get("stepped")), key=lambda line: line["time"])
    return tuple(way for way, _ in groupby((line["width"], line["plan"]) for line in done))


def _trains(site: Site) -> Path:
    _leave_one_gpu(site)
    return _begin(site, LIVE, "1..2", MODEL)


def _begin(site: Site, name: str, gpus: str, model: Mapping[str, int], *words: str) -> Path:
    """Until it trains on one GPU, and what its program offers is on record."""
    folder = site.folder(name)
    (folder / "lm.py").write_text((ROOT / "examples" / "plans.py").read_text())
    (folder / SCRIPT.name).write_text(SCRIPT.read_text())
    site.lab.submit(
        name,
        gpus,
        run=" ".join(("exec python", f"{MOUNT}/{name}/{SCRIPT.name}", *words)),
        model=model,
        checkpoint={"path": f"{MOUNT}/{name}", "every": "5s"},
        volumes=[{"claim": CLAIM, "path": MOUNT}],
        grace="5s",
    )
    _await_plan(site, folder, WHOLE)
    wait_until(
        lambda: "tensor" in site.decision(name).get("offers", ()), "its offers", PATIENCE_SECONDS
    )
    return folder


def _await_plan(site: Site, folder: Path, wanted: Way) -> None:
    """Until the job whose folder that is trains so, and that is on record."""

    def there() -> bool:
        steps = [line for line in read_lines(folder) if line.get("stepped")]
        last = max(steps, key=lambda line: float(line["time"]), default=None)
        decision = site.decision(folder.name)
        settled = site.lab.state(folder.name) == "Running" and "order" not in decision
        return bool(
            last
            and settled
            and decision["width"] == wanted[0]
            and (last["width"], last["plan"]) == wanted
        )

    try:
        wait_until(there, f"{wanted[1]} on {wanted[0]}", PATIENCE_SECONDS, poll=0.2)
    except AssertionError as error:
        error.add_note(site.said(folder.name))
        raise


def _complete(lines: list[Line]) -> list[Line]:
    """Without the last step, which some may still be in."""
    last = max(line["step"] for line in lines if line.get("stepped"))
    return [line for line in lines if line.get("step", line.get("of", last)) < last]


def _longest_wait(lines: list[Line]) -> float:
    times = sorted(float(line["time"]) for line in lines if line.get("stepped"))
    return max(later - earlier for earlier, later in pairwise(times))


def _leave_one_gpu(site: Site) -> None:
    for name, gpus in (("wide", GPUS), ("half", 2), ("beside", 1)):
        _holds(site, name, gpus)


def _sleeps(site: Site, name: str, gpus: int) -> None:
    site.lab.submit(name, gpus, run="sleep 1000", grace="1s")


def _holds(site: Site, name: str, gpus: int) -> None:
    _sleeps(site, name, gpus)
    site.lab.wait_for(name, "Running", seconds=PATIENCE_SECONDS)


def _cancel_all(site: Site) -> None:
    """And let their names be free again."""
    for name in site.lab.jobs():
        site.lab.delete(name)
    wait_until(lambda: not site.lab.jobs() and not site.lab.pods(), "all to be gone")


def _is_begun(site: Site) -> Path:
    """On the one GPU that two others leave."""
    _leave_one_gpu(site)
    folder = site.folder(JOB)
    (folder / "count.sh").write_text(COUNTING)
    script = f"sh {MOUNT}/{JOB}/count.sh"
    site.lab.submit(
        JOB,
        "1..2",
        run=f"{script} as written",
        model=MODEL,
        plans={"data": f"{script} data {{data}} {{gpus}}", "tensor": f"{script} tensor {{tensor}}"},
        duration="10h",
        checkpoint={"path": f"{MOUNT}/{JOB}", "every": "1s"},
        volumes=[{"claim": CLAIM, "path": MOUNT}],
        grace="1s",
    )
    wait_until(lambda: bool(_lines(folder, "steps-0")), "the first count", PATIENCE_SECONDS)
    return folder


def _lines(folder: Path, name: str) -> list[str]:
    path = folder / name
    return path.read_text().splitlines() if path.exists() else []
