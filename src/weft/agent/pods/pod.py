"""The first process of a worker's pod: the head of the job on seat 0, a follower on the others.

A follower may come to lead: then the same process goes on as the head, with the workers it has.

Everything it needs to know stands in its environment. What it ends with is what the operator reads:
0 finished, 143 drained, 75 the machinery, else the script's own code; and a short line in the
container's termination log, with the mark by which it is told from the end of a program's output.
"""

import asyncio
import signal
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from weft.agent.agent import Told, exit_code_of
from weft.agent.evidence import Evidence
from weft.agent.messages import Over
from weft.agent.outcome import DRAINED, INFRASTRUCTURE
from weft.agent.pods.discovery import find
from weft.agent.pods.follower import Follower
from weft.agent.pods.head import HeadAgent
from weft.agent.settings import Pod, Settings, from_environment
from weft.agent.workers.output import Echo
from weft.failure.last_words import written
from weft.failure.rulebook import shipped
from weft.model.errors import WeftError, WorldError

TERMINATION_LOG: Final = "/dev/termination-log"
MOST_WORDS: Final = 4000
STDOUT: Final = 1

End = tuple[int, str, Evidence | None]  # exit code, why, and what workers left if they failed


def run_pod(command: tuple[str, ...], variables: Mapping[str, str], tell: Told) -> int:
    """Until this seat is not needed any more; gives the exit code."""
    kept: Evidence | None = None
    try:
        code, why, kept = _run(from_environment(command, variables), tell)
    except (WeftError, OSError) as error:
        hint = getattr(error, "hint", "")
        code, why = INFRASTRUCTURE, f"{error} (hint: {hint})" if hint else str(error)
    tell("over", {"exit_code": code, "why": why})
    _last_words(variables, written(why, kept.observed() if kept else (), shipped()))
    return code


def _run(settings: Settings, tell: Told) -> End:
    pod = settings.pod
    assert pod is not None
    echo = Echo(STDOUT, ranks=pod.gpus > 1 and not settings.once_per_seat)
    if pod.is_head:
        return asyncio.run(_led(HeadAgent(settings, pod, tell, echo)))
    return asyncio.run(_follower(settings, pod, tell, echo))


async def _led(head: HeadAgent) -> End:
    conclusion = await head.run()
    return exit_code_of(conclusion), conclusion.why, head.witness.kept


async def _follower(settings: Settings, pod: Pod, tell: Told, echo: Echo) -> End:
    """Find the head, then serve it; SIGTERM while it is looked for ends the search."""
    assert pod.destination is not None
    stopped = threading.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    limit = settings.limits.meet_seconds
    try:
        head = await asyncio.to_thread(find, pod.destination, limit, wait=stopped.wait)
    except WorldError:
        if stopped.is_set():
            return DRAINED, "ended before it had met its head", None
        raise
    follower = Follower(settings, pod, head, tell, echo)
    end = await follower.run()
    if isinstance(end, Over):
        return end.exit_code, end.why, follower.witness.kept
    return await _led(HeadAgent(settings, pod, tell, echo, end))


def _last_words(variables: Mapping[str, str], text: str) -> None:
    """Where Kubernetes looks for them; elsewhere there is no such file."""
    path = Path(variables.get("WEFT_TERMINATION_LOG", TERMINATION_LOG))
    with suppress(OSError):
        if path.exists():
            path.write_text(text[:MOST_WORDS])
