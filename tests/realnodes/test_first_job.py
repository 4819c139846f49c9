"""The guide's two commands on a cluster that has the chart: from a job file to its loss."""

import os
import re
import subprocess
import sys
import time
from functools import partial
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
    lab.submit("memory", 1, run=f'ulimit -v 400000; exec python -c "{eats}"')
    lab.submit("killed", 1, run="sleep 1; kill -9 $$")
    ends = {
        "syntax": ["user"],
        "image": ["environment"],
        "memory": ["memory"],
        "killed": ["unknown", "unknown"],  # once more, to see whether it comes again
    }
    for name in ends:
        wait_until(partial(is_over, site, name), f"{name} to be given up")
        site.note("failures", f"{name}, submitted to given up", time.monotonic() - began)
    found = {name: failures(site, name) for name in ends}
    assert {name: [one["class"] for one in each] for name, each in found.items()} == ends, found
    assert found["syntax"][0]["line"] == "SyntaxError: invalid syntax"
    assert {one["rule"] for one in found["killed"]} == {"bare_kill"}
    assert "to do: mend the program" in typed(site, "why", "syntax")
    assert "environment: image_not_found" in typed(site, "failures")
    assert (lab.state("well"), site.restarts("well")) == ("Running", 0)
    lab.cancel("well")


def is_over(site: Site, name: str) -> bool:
    return site.lab.state(name) == "Failed"


def failures(site: Site, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = site.lab.job(name).get("status", {}).get("failures", [])
    return found
