"""Checks of nodes: what a look costs, how long a large gang waits for one, how often it is wrong.

Real probes on this machine, and the operator's own client asking 64 probes that take as long as the
slowest look here. This machine is well, so whatever fails is a mistake.
"""

import asyncio
import resource
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.row import Row, at_most, clocked, told
from weft.agent.probes.listening import Listening
from weft.agent.probes.probe import Result
from weft.agent.probes.prober import Prober
from weft.agent.probes.suite import run_apart
from weft.kube.operator.gang_probes import GangProbes, Wires

LOOKS, SHORT_LOOKS = 120, 3
NODES: Final = 64
EVERY_SECONDS: Final = 300.0
MOST_WAIT_SECONDS: Final = 60.0
MOST_CORE_PERCENT: Final = 1.0
MOST_WRONG_PERCENT: Final = 1.0


@dataclass(frozen=True, slots=True)
class Look:
    """One of them: how long it took, what it cost, whether all passed."""

    wall_seconds: float
    cpu_seconds: float
    passed: bool


def rows(traces: Path, *, short: bool = False) -> Iterator[Row]:
    """`traces` is for the other parts. A few looks on a busy machine judge nothing."""
    yield from (clocked(row, short=short) for row in _measured(short=short))


def _measured(*, short: bool) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        looks = [_look(Path(folder)) for _ in range(SHORT_LOOKS if short else LOOKS)]
    slowest = max(look.wall_seconds for look in looks)
    mean_cpu = sum(look.cpu_seconds for look in looks) / len(looks)
    yield told("a look at a machine: slowest", slowest, "s")
    yield at_most(
        "… a look in five minutes, of one core",
        100 * mean_cpu / EVERY_SECONDS,
        "%",
        MOST_CORE_PERCENT,
    )
    wrong = 100 * sum(not look.passed for look in looks) / len(looks)
    yield at_most(
        f"… that fail on a machine that is well, of {len(looks)}", wrong, "%", MOST_WRONG_PERCENT
    )
    waited = asyncio.run(_gang_of(NODES, slowest))
    yield at_most("a gang of 64 nodes waits for their probes", waited, "s", MOST_WAIT_SECONDS)


def _look(folder: Path) -> Look:
    began, before = time.monotonic(), _spent()
    found = run_apart(folder=folder)
    return Look(time.monotonic() - began, _spent() - before, all(one.passed for one in found))


def _spent() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


async def _gang_of(nodes: int, seconds: float) -> float:
    """From asking the first to having heard of all; each looks for so long."""

    def probing() -> Sequence[Result]:
        time.sleep(seconds)
        return (Result(probe="disk", passed=True),)

    heard = asyncio.Event()
    with ExitStack() as until_then:
        ports = []
        for _ in range(nodes):
            listening = Listening(Prober(probing), 0)
            until_then.callback(listening.close)
            ports.append(listening.port)
        wires = Wires(
            address_of=lambda node: ("127.0.0.1", ports[int(node)]),
            now=time.monotonic,
            touch_job=lambda _: heard.set(),
            touch_node=lambda _: None,
        )
        probes, began = GangProbes(wires), time.monotonic()
        probes.ask("gang", map(str, range(nodes)))
        await heard.wait()
        assert not any(probes.unfit(str(node)) for node in range(nodes))
        probes.close()
        return time.monotonic() - began
