"""The guide's two commands on a cluster that has the chart: from a job file to its loss."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.kube.operators import wait_until
from tests.realnodes.site import TEAM, Site

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 200


def test_two_commands_lead_to_the_loss(site: Site) -> None:
    began = time.monotonic()
    typed(site, "submit", "-y", "examples/jobs/lm.yaml")
    printed = typed(site, "logs", "-f", "lm")
    site.times.append(("guide", "weft submit to the job's end", time.monotonic() - began))
    assert re.search(r"\bloss\b.*\d", printed), printed[-2000:]


def typed(site: Site, *words: str) -> str:
    variables = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "KUBECONFIG": str(site.plane.kubeconfig(namespace=TEAM)),
        "WEFT_CONTEXT": "cluster",
    }
    done = subprocess.run(
        [sys.executable, "-m", "weft.cli.main", *words],
        cwd=ROOT,
        env=variables,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_each_failure_is_named_and_handled_as_its_class_says(site: Site) -> None:
    """Side by side with a job that trains, and notices nothing."""
    lab = site.lab
    lab.submit("well", 1, run="sleep 600")
    began = time.monotonic()
    lab.submit("syntax", 1, run="exec python -c 'def f(:'")
    lab.submit("image", 1, image="Nothing:1")
    eats = "b = [bytearray(b'x') * (8 << 20) for _ in range(999)]"
    asked = {"gpus": 1, "memory_per_gpu": "256Mi"}
    lab.submit("memory", run=f'exec python -c "{eats}"', resources=asked, retry={"limit": 0})
    wait_until(lambda: lab.state("syntax") == "Failed", "the syntax error to be final", 60.0)
    site.note("failures", "a syntax error, submitted to final", time.monotonic() - began)
    lab.submit("killed", 1, run="sleep 600 & echo $! && wait $! || kill -9 $$")
    for name in ("image", "memory"):
        wait_until(lambda name=name: lab.state(name) == "Failed", f"{name} to fail", 90.0)  # type: ignore[misc]
    wait_until(lambda: lab.state("killed") == "Running", "the one to be killed to run", 60.0)
    (pod,) = site.uids("killed")
    site.plane.kubectl("exec", "-n", TEAM, pod, "--", "pkill", "sleep")
    wait_until(lambda: len(failures(site, "killed")) == 1, "its failure to be known", 60.0)
    found = {name: failures(site, name) for name in ("syntax", "image", "memory", "killed")}
    assert {name: [one["class"] for one in ends] for name, ends in found.items()} == {
        "syntax": ["user"],
        "image": ["environment"],
        "memory": ["memory"],
        "killed": ["unknown"],
    }, found
    assert found["syntax"][0]["line"].startswith("SyntaxError: ")
    assert found["killed"][0]["rule"] == "bare_kill"
    assert "to do: mend the program" in typed(site, "why", "syntax")
    assert "environment: image_not_found" in typed(site, "failures")
    assert (lab.state("well"), site.restarts("well")) == ("Running", 0)
    for name in ("well", "killed"):
        lab.cancel(name)


def failures(site: Site, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = site.lab.job(name).get("status", {}).get("failures", [])
    return found
