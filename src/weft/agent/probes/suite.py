"""Several probes, one after the other, in a process that has so long and no longer."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from weft.agent.probes.cpu import Cpu
from weft.agent.probes.dcgm import Dcgm
from weft.agent.probes.disk import Disk
from weft.agent.probes.loopback import Loopback
from weft.agent.probes.memory import Memory
from weft.agent.probes.pair import Pair
from weft.agent.probes.probe import Probe, Result, failed

LIMIT_SECONDS: Final = 60.0
QUICK: Final = ("disk", "memory", "cpu", "loopback")
BEFORE_A_GANG: Final = (*QUICK, "pair", "dcgm")
MODULE: Final = "weft.agent.probes"


def probes_of(names: Iterable[str], folder: Path) -> list[Probe]:
    """Those of these names that make sense here."""
    every: dict[str, Probe] = {
        "disk": Disk(folder),
        "memory": Memory(),
        "cpu": Cpu(),
        "loopback": Loopback(),
        **({"pair": Pair()} if Pair.is_here() else {}),
        **({"dcgm": Dcgm()} if Dcgm.is_here() else {}),
    }
    return [every[name] for name in names if name in every]


def ran(probe: Probe) -> Result:
    """What it found; an error of any kind is a finding."""
    began = time.monotonic()
    try:
        found = probe.run()
    except MemoryError:
        found = failed(probe.name, "there was no memory for it")
    except Exception as error:
        found = failed(probe.name, f"{type(error).__name__}: {error}"[:200])
    return replace(found, seconds=round(time.monotonic() - began, 3))


def run_apart(
    names: Iterable[str] = QUICK,
    folder: Path = Path("/tmp"),
    limit_seconds: float = LIMIT_SECONDS,
) -> list[Result]:
    """In another process, which is killed when its time is over; who did not answer has failed."""
    wanted = list(names)
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", MODULE, "--folder", str(folder), *wanted],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=limit_seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        output = process.communicate()[0]
    found = [Result(**json.loads(line)) for line in output.splitlines()]
    told = {one.probe for one in found}
    spent = time.monotonic() - began
    late = f"it did not end within {spent:.0f} s"
    silent = (one.name for one in probes_of(wanted, folder) if one.name not in told)
    return [*found, *(failed(name, late) for name in silent)]


def as_line(result: Result) -> str:
    return json.dumps(asdict(result))
