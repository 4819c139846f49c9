"""The guide's two commands on a cluster that has the chart: from a job file to its loss."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

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
