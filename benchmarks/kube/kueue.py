"""Kueue itself on the same work: its own scheduler, its own runner, on a control plane of its own.

Its suite limits the scheduler's client to 50 calls a second; here it has the limits of the manager
that people install, 300 a second in bursts of 500, and differs in nothing else. Figures are its
runner's: the wall is from the first to the last change of a queue, which leaves out its start, and
the scheduler's processor time and memory are those of its process.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from benchmarks.kube.baseline import Work, kueue_config
from tests.kube.operators import ROOT
from tools.testcluster.binaries import find
from weft.model.errors import WorldError

BUILD = ROOT / "tools" / "testcluster" / "build_kueue"
LONGEST_SECONDS = 900
SCHEDULER = "minimalkueue-300"
LOG_BYTES = 2_000


@dataclass(frozen=True, slots=True)
class KueueOutcome:
    """What its runner and its checker look at."""

    wall_seconds: float
    admission_seconds: dict[str, float]
    usage: float
    cpu_seconds: float
    peak_mib: float
    evictions: int


def run_kueue(work: Work) -> KueueOutcome:
    """Build it if need be, and run the work once."""
    folder = Path(
        subprocess.run([BUILD], check=True, capture_output=True, text=True).stdout.strip()
    )
    with _assets() as assets, TemporaryDirectory(prefix="kueue-") as out:
        generator = Path(out) / "generator.yaml"
        generator.write_text(yaml.safe_dump(kueue_config(work)))
        scheduler = folder / SCHEDULER
        command = [
            str(folder / "runner"),
            *("--o", out),
            f"--crds={folder / 'source/config/components/crd/bases'}",
            f"--generatorConfig={generator}",
            f"--minimalKueue={scheduler}",
            f"--timeout={LONGEST_SECONDS}s",
        ]
        _run(command, {**os.environ, "KUBEBUILDER_ASSETS": assets})
        return read_outcome(Path(out), scheduler.name)


def read_outcome(folder: Path, scheduler: str) -> KueueOutcome:
    """From the two files that its runner leaves."""
    summary = yaml.safe_load((folder / "summary.yaml").read_text())
    stats = yaml.safe_load((folder / f"{scheduler}.stats.yaml").read_text())
    queues, classes = summary["clusterQueueClasses"]["cq"], summary["workloadClasses"]
    return KueueOutcome(
        wall_seconds=_seconds(queues["lastEventTime"]) - _seconds(queues["firstEventTime"]),
        admission_seconds={
            name: found["averageTimeToAdmissionMs"] / 1e3 for name, found in sorted(classes.items())
        },
        usage=queues["cpuAverageUsage"] / queues["nominalQuota"],
        cpu_seconds=(stats["userMs"] + stats["sysMs"]) / 1e3,
        peak_mib=stats["maxrss"] / 1024,
        evictions=sum(found["totalEvictions"] for found in classes.values()),
    )


def _run(command: list[str], environment: dict[str, str]) -> None:
    done = subprocess.run(
        command,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        timeout=LONGEST_SECONDS + 120,
        check=False,
    )
    if done.returncode:
        told = done.stderr[-LOG_BYTES:].decode(errors="replace")
        raise WorldError(f"Kueue's runner ended with {done.returncode}: {told}")


@contextmanager
def _assets() -> Iterator[str]:
    """The three programs under the names and in the one folder that its runner looks for."""
    with TemporaryDirectory(prefix="kueue-assets-") as folder:
        for program in ("kube-apiserver", "etcd", "kubectl"):
            (Path(folder) / program).symlink_to(find(program))
        yield folder


def _seconds(moment: Any) -> float:  # noqa: ANN401 - YAML makes a date or a text of it
    if isinstance(moment, datetime):
        return moment.timestamp()
    return datetime.fromisoformat(str(moment)).timestamp()
