"""A program of flags on real nodes goes to another plan by a start from its checkpoint.

It knows nothing of Weft. As long as others hold the rest it counts on one GPU; when one beside it
comes free, the scheduler gives it both under the command that fits them. No count is lost or made
twice.
"""

from pathlib import Path
from typing import Final

import pytest

from tests.kube.operators import wait_until
from tests.realnodes.site import CLAIM, MOUNT, Site

VALUES: Final = {"recipe": "rubick(spacing=0.5, budget=1.0, gate=0.5)"}
MODEL: Final = {
    "parameters": 3 * 10**9,
    "layers": 2,
    "hidden": 2048,
    "sequence": 128,
    "heads": 4,
    "batch": 8,
}
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
    wait_until(lambda: len(_lines(folder, "runs")) == 3, "both to count", PATIENCE_SECONDS)
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


def _is_begun(site: Site) -> Path:
    """On the one GPU that two others leave."""
    for name, gpus in (("wide", 2), ("beside", 1)):
        site.lab.submit(name, gpus, run="sleep 1000", grace="1s")
        site.lab.wait_for(name, "Running", seconds=PATIENCE_SECONDS)
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
