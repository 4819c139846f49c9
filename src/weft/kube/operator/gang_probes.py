"""Nodes are asked how they are before a gang has them, and have a minute to answer.

Each node's probe answers at once where it looked a moment ago, and looks now where it did not. The
answer holds for two minutes, for whichever gang comes. Where nobody listens nothing can be asked,
and the gang starts as it would without; who was reached and does not answer in time has failed.
A node that fails takes nobody, until its own pod has come to say so.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import orjson

from weft.failure.lines import plain
from weft.kube.logs import Log
from weft.kube.operator.reconcile.step import NodeProbe

BOUND_SECONDS: Final = 60.0
CONNECT_SECONDS: Final = 5.0
RECENT_SECONDS: Final = 60
HOLDS_SECONDS: Final = 120.0
FORGET_SECONDS: Final = 1.0
AT_ONCE: Final = 256
MOST_BYTES: Final = 64 * 1024
MOST_WORDS: Final = 500
SILENT: Final = "its probe did not answer"

Address = tuple[str, int]
log = Log("probes")


@dataclass(frozen=True, slots=True)
class Wires:
    """Where a node's probe listens, what time it is, and who hears of an answer."""

    address_of: Callable[[str], Address | None]
    now: Callable[[], float]
    touch_job: Callable[[str], None]
    touch_node: Callable[[str], None]


class GangProbes:
    """Asks for gangs, and remembers for a while what was answered."""

    def __init__(self, wires: Wires, bound_seconds: float = BOUND_SECONDS) -> None:
        self._wires, self._bound = wires, bound_seconds
        self._known: dict[str, NodeProbe] = {}
        self._forgot = 0.0
        self._awaited: dict[str, set[str]] = {}  # nodes, by the job that waits for them
        self._tasks: set[asyncio.Task[None]] = set()
        self._later: dict[str, asyncio.TimerHandle] = {}  # by node, until it is looked at again
        self._at_once = asyncio.Semaphore(AT_ONCE)

    def known(self) -> dict[str, NodeProbe]:
        """By node; what is old is forgotten, now and then, since every look at a job asks."""
        now = self._wires.now()
        if not self._forgot <= now < self._forgot + FORGET_SECONDS:
            self._forgot = now
            self._known = {n: one for n, one in self._known.items() if not _is_old(one, now)}
        return self._known

    def unfit(self, node: str) -> str:
        """Why nothing may start there."""
        found = self._known.get(node)
        return "" if found is None or _is_old(found, self._wires.now()) else found.unfit

    def ask(self, job: str, nodes: Iterable[str]) -> None:
        """The job is looked at again when all have answered."""
        for node in nodes:
            if self.inquire(node).answered is None:
                self._awaited.setdefault(job, set()).add(node)

    def inquire(self, node: str) -> NodeProbe:
        """What it has answered of late; it is asked where it has not."""
        now, known = self._wires.now(), self._known.get(node)
        if known is None or _is_old(known, now):
            self._ask(node, now)
        return self._known[node]

    def _ask(self, node: str, now: float) -> None:
        address = self._wires.address_of(node)
        if address is None:
            self._known[node] = NodeProbe(now, answered=now, reached=False)
            return
        self._known[node] = NodeProbe(now)
        task = asyncio.get_running_loop().create_task(self._hear(node, address))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _hear(self, node: str, address: Address) -> None:
        try:
            async with asyncio.timeout(self._bound), self._at_once:
                unfit = await ask(*address)
        except TimeoutError:
            unfit = f"{SILENT} within {self._bound:.0f} s"
        if unfit is None:
            log.warning("probe_not_reached", node=node)
        asked, now = self._known[node].since, self._wires.now()
        self._known[node] = NodeProbe(asked, now, unfit or "", reached=unfit is not None)
        if unfit:
            log.warning("probe_failed", node=node, words=unfit)
            self._close(node)
        for job in [job for job, nodes in self._awaited.items() if node in nodes]:
            self._awaited[job].discard(node)
            if not self._awaited[job]:
                del self._awaited[job]
                self._wires.touch_job(job)

    def _close(self, node: str) -> None:
        """It takes nobody from now on, and is looked at again when that is forgotten."""
        self._wires.touch_node(node)
        if (before := self._later.get(node)) is not None:
            before.cancel()
        loop = asyncio.get_running_loop()
        self._later[node] = loop.call_later(HOLDS_SECONDS + 1.0, self._reopen, node)

    def _reopen(self, node: str) -> None:
        del self._later[node]
        self._wires.touch_node(node)

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        for again in self._later.values():
            again.cancel()
        self._later.clear()


def _is_old(one: NodeProbe, now: float) -> bool:
    return one.answered is not None and now >= one.answered + HOLDS_SECONDS


async def ask(host: str, port: int) -> str | None:
    """What is wrong with the machine, empty where nothing is; None where nobody listens."""
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            reader, writer = await asyncio.open_connection(host, port, limit=MOST_BYTES)
    except OSError:  # TimeoutError is one
        return None
    try:
        writer.write(f"GET /probe?within={RECENT_SECONDS} HTTP/1.0\r\n\r\n".encode())
        answer = b""
        while len(answer) < MOST_BYTES and (part := await reader.read(MOST_BYTES)):
            answer += part
        return _understood(answer)
    except OSError:
        return SILENT
    finally:
        writer.close()


def _understood(answer: bytes) -> str:
    """One that cannot be read is a failure: somebody is there, and says not that all is well."""
    head, _, body = answer.partition(b"\r\n\r\n")
    try:
        status, told = int(head.split(maxsplit=2)[1]), orjson.loads(body)
        passed, words = bool(told["passed"]), plain(str(told["words"]))[:MOST_WORDS]
    except (ValueError, KeyError, TypeError, IndexError):
        return SILENT
    if status != 200:  # noqa: PLR2004 - as HTTP has it
        return SILENT
    return "" if passed else words or "its probes fail"
