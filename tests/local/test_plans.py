"""Plans that the scheduler chooses for real training processes, and changes while they train.

A language model trains on one of two slots, with replicas, shards, tensors in parts or stages as
its program offers. When the other slot comes free it is taken to another plan on both; when
somebody else wants one, it goes back. Whatever dies meanwhile, each step has the samples that an
undisturbed run gives it.
"""

import sys
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from tests.language_model import BATCH, MODEL
from tests.local.daemons import Lab, a_lab, wait_until
from tests.local.mortal_agent import FILE, MOMENTS
from tests.local.test_crash import _Relief, cancel
from tests.local.test_elastic import told
from tests.train.alone import run_alone
from tests.train.lines import Line, read_lines
from weft.local.agents.launch import AGENT

ROOT: Final = Path(__file__).parents[2]
SCRIPT: Final = ROOT / "tests" / "train" / "jobs" / "plans.py"
RECIPE: Final = "rubick(spacing=0.1, budget=1.0, gate=0.5)"
PATIENCE: Final = 90.0
TOTAL: Final = 200
ENOUGH: Final = 120  # where it goes to one plan and stays
SPLIT: Final = "tensor=2"
STAGES: Final = "pipeline=2,micro_batches=8"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def submit(lab: Lab, *, offers: tuple[str, ...] = (), total: int = ENOUGH, **spec: Any) -> None:
    """The language model, which has one slot as long as somebody has the other."""
    words = f"{sys.executable} {SCRIPT} --total={total} --batch={BATCH} --pause=0.33 --divided"
    lab.submit(
        "lm",
        words,
        gpus="1..2",
        model=MODEL | ({"offers": list(offers)} if offers else {}),
        env={"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        checkpoint={"every": "2s"},
        grace="5s",
        **spec,
    )


def begun(lab: Lab, *, dies: str = "", **given: Any) -> None:
    """On one slot beside another job, measured, and able to go to another plan.

    Where it `dies`, its first agent does so at that moment.
    """
    lab.submit("other", "sleep 1000", grace="1s")
    lab.wait_for("other", "Running")
    if dies:
        (lab.folder / FILE).write_text(dies)
    submit(lab, **given)
    wait_until(lambda: bool(told(lab, "JobMeasured")), "its speed", lab.log, PATIENCE)
    assert told(lab, "PlansOffered")
    assert (lab.entry("lm").width, lab.entry("lm").plan) == (1, "replicated")


def under(lab: Lab, plan: str, width: int) -> None:
    """Until it trains so, and has made a few steps."""

    def there() -> bool:
        entry = lab.entry("lm")
        return (entry.plan, entry.width, entry.target) == (plan, width, ())

    wait_until(there, f"{plan} on {width}", lab.log, PATIENCE)
    goal = newest(lab) + 2
    wait_until(lambda: newest(lab) >= goal, "a few steps", lab.log, PATIENCE)


def newest(lab: Lab) -> int:
    return max((line["step"] for line in read_lines(lab.folder) if line.get("stepped")), default=-1)


def finished(lab: Lab, total: int = ENOUGH) -> None:
    """In a hurry; then every step has had its samples, and no other ones."""
    (lab.folder / "hurry").touch()
    lab.wait_for("lm", "Succeeded", seconds=PATIENCE)
    assert taken(read_lines(lab.folder)) == {step: expected()[step] for step in range(total)}
    lab.stop()
    assert not lab.leftovers()


def taken(lines: Iterable[Line]) -> dict[int, list[int]]:
    """The samples of each step, as it was applied last: by then nobody has seen an earlier try."""
    lines = list(lines)
    last: dict[int, tuple[int, int]] = {}
    for line in lines:
        if line.get("stepped"):
            life = int(line["life"]), line["epoch"]
            last[line["step"]] = max(life, last.get(line["step"], life))
    found: dict[int, list[int]] = {step: [] for step in last}
    for line in lines:
        if "took" in line and last.get(line["of"]) == (int(line["life"]), line["epoch"]):
            found[line["of"]] += line["took"]
    return {step: sorted(some) for step, some in sorted(found.items())}


@cache
def expected() -> dict[int, list[int]]:
    """Of a run in one process that nobody disturbs."""
    with tempfile.TemporaryDirectory() as folder:
        done = run_alone(SCRIPT, f"--total={TOTAL}", f"--batch={BATCH}", folder=Path(folder))
        assert done.code == 0, done.complaints
        return taken(read_lines(Path(folder)))


@pytest.mark.parametrize(
    ("offers", "plan"), [((), SPLIT), (("data", "fsdp2"), "shard=2"), (("pipeline",), STAGES)]
)
def test_jobs_that_come_and_go_take_it_from_plan_to_plan(
    offers: tuple[str, ...], plan: str
) -> None:
    with a_lab(slots=2, recipe=RECIPE, agent=AGENT) as lab:
        lab.start()
        begun(lab, offers=offers, total=TOTAL)
        lab.client.cancel("other")
        under(lab, plan, 2)
        lab.submit("short", "sleep 3", grace="1s")
        lab.wait_for("short", "Running", "Succeeded", seconds=PATIENCE)
        lab.wait_for("short", "Succeeded", seconds=PATIENCE)
        under(lab, plan, 2)
        finished(lab, TOTAL)
        assert lab.entry("lm").epoch == 1, "it was never started anew"
        happened = [one.message for one in lab.history("lm") if one.what == "Resized"]
        assert [one.endswith(f", {plan}") for one in happened] == [True, False, True]
        assert {line["plan"] for line in read_lines(lab.folder) if line.get("stepped")} == {
            *("replicated", plan)
        }


SWITCH: Final = ("before-target", "target-recorded", "resize-ordered", "before-seats", "resized")


@pytest.mark.parametrize("label", SWITCH)
def test_a_daemon_that_dies_in_a_switch_loses_nothing(label: str) -> None:
    """Another one finds the order on record, and what the agent has made of it."""
    with a_lab(slots=2, recipe=RECIPE, agent=AGENT) as lab:
        lab.start(label)
        with _Relief(lab, label):
            begun(lab)
            cancel(lab, "other")
            under(lab, SPLIT, 2)
        finished(lab)
        assert lab.entry("lm").epoch == 1


@pytest.mark.parametrize("moment", MOMENTS)
def test_an_agent_that_dies_in_a_switch_loses_nothing(moment: str) -> None:
    """The job is begun anew from what was saved, and goes to the plan that was chosen."""
    with a_lab(slots=2, recipe=RECIPE, agent="tests.local.mortal_agent") as lab:
        lab.start()
        begun(lab, dies=moment)
        lab.client.cancel("other")
        wait_until(lambda: lab.entry("lm").epoch == 2, "it to begin anew", lab.log, PATIENCE)
        wait_until(lambda: newest(lab) > 0 and lab.state("lm") == "Running", "it", lab.log)
        finished(lab)
        assert not (lab.folder / FILE).exists()


COUNTING: Final = """
echo "$@" as $RANK of $WORLD_SIZE >>runs
file="$WEFT_CHECKPOINT_PATH/step-$RANK"
step=$(cat "$file" 2>/dev/null || echo 0)
while [ ! -e enough ]; do
  step=$((step + 1))
  echo $step >"$file"
  echo $step >>"steps-$RANK"
  sleep 0.2
done
"""


def test_a_program_of_flags_is_switched_by_a_start_from_its_checkpoint() -> None:
    """It knows nothing of Weft: another plan is another command, which counts on."""
    plans = {"data": "sh count.sh data {data} {gpus}", "tensor": "sh count.sh tensor {tensor}"}
    with a_lab(slots=2, recipe=RECIPE, agent=AGENT) as lab:
        (lab.folder / "count.sh").write_text(COUNTING)
        lab.start()
        lab.submit("other", "sleep 1000", grace="1s")
        lab.wait_for("other", "Running")
        about = {"model": MODEL, "plans": plans, "duration": "10h", "checkpoint": {"every": "1s"}}
        lab.submit("flags", "sh count.sh as written", gpus="1..2", grace="1s", **about)
        # until what both have had allows for a restart of two slots, half a minute each
        wait_until(lambda: len(lines(lab, "steps-0")) > 180, "it to count", lab.log, PATIENCE)
        assert lines(lab, "runs") == ["data 1 1 as 0 of 1"]
        assert lab.entry("flags").plan == "data=1"
        lab.client.cancel("other")
        wait_until(lambda: len(lines(lab, "runs")) == 3, "both to count", lab.log, PATIENCE)
        goal = len(lines(lab, "steps-0")) + 3
        wait_until(lambda: len(lines(lab, "steps-0")) >= goal, "it to count on", lab.log)
        (lab.folder / "enough").touch()
        lab.wait_for("flags", "Succeeded", seconds=PATIENCE)
        counted = [int(line) for line in lines(lab, "steps-0")]
        assert counted == list(range(1, len(counted) + 1)), "from its checkpoint, no step twice"
        second = sorted(lines(lab, "runs")[1:])
        assert second in (
            ["data 2 2 as 0 of 2", "data 2 2 as 1 of 2"],
            ["tensor 2 as 0 of 2", "tensor 2 as 1 of 2"],
        )
        assert lab.entry("flags").plan == ("data=2" if "data" in second[0] else "data=1,tensor=2")
        assert lab.entry("flags").epoch == 2


def lines(lab: Lab, name: str) -> list[str]:
    path = lab.folder / name
    return path.read_text().splitlines() if path.exists() else []
