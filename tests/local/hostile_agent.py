"""An agent as an enemy would write it: a model agent that does mischief in its owner's name.

The agent runs under the owner's account, in the owner's folder, so whatever it does an owner could
do. The kind of mischief is a word of its command: `deep total=10 step=0.05`. What it starts is
bounded in number and in time.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tests.local import model_agent
from tests.local.model_agent import ModelAgent
from weft.agent.messages import Answer, Message
from weft.agent.run_folder import SHARED_MEMORY

DEPTH: Final = 3_000
FILES: Final = 2_000
LOG_BYTES: Final = 48 << 20
SPARSE_BYTES: Final = 1 << 42
STORM: Final = 100
SLEEP: Final = "20"


class HostileAgent(ModelAgent):
    """Does what it must to be taken for an agent, and then what it should not."""

    def resume(self) -> None:
        super().resume()
        self.kind = next((word for word in self.knobs if word in KINDS), "")
        if self.kind:
            KINDS[self.kind](self)

    def driver_asked(self, message: Message) -> Answer:
        if self.kind == "slow":
            signal.pause()
        answer = super().driver_asked(message)
        return Answer(ok=True, body=nonsense()) if self.kind == "liar" else answer


def nonsense() -> dict[str, Any]:
    """As a status, what none can be."""
    worker = {"state": "x" * 9, "pid": -7, "rank": 1e300}
    return {
        "width": 1 << 70,
        "target": -5,
        "live": "yes",
        "step": 1e400,
        "total": float("nan"),
        "metrics": {f"m{number}\x1b[2J": "9" * 900 for number in range(100)},
        "speed": {"number": -1, "width": 0, "steps_per_second": 1e308, "seconds": -1},
        "saved_step": 1 << 80,
        "workers": {str(number): worker for number in range(500)},
    }


def deep(agent: HostileAgent) -> None:
    """Folders in folders, deeper than a program that calls itself can go."""
    nest(Path(agent.given.checkpoints).parent / "deep")


def nest(top: Path) -> None:
    top.mkdir(parents=True, exist_ok=True)
    at = os.open(top, os.O_RDONLY)
    for _ in range(DEPTH):
        with suppress(FileExistsError):
            os.mkdir("d", dir_fd=at)
        inner = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = inner
    os.close(at)


def memory(agent: HostileAgent) -> None:
    """The same where snapshots lie, and no last words: the daemon is to clear it away."""
    mine = SHARED_MEMORY / f"weft-{os.getuid():016x}"
    nest(mine)
    card = agent.run_folder.path / "agent.json"
    card.write_text(json.dumps({**json.loads(card.read_text()), "also": str(mine)}))
    os.kill(os.getpid(), signal.SIGKILL)


def files(agent: HostileAgent) -> None:
    """More files than anybody wants to list, beside those that the daemon looks for."""
    for number in range(FILES):
        (agent.run_folder.path / f"f{number}").touch()
        if number % 20 == 0:
            (agent.run_folder.logs / f"worker-{number}.log").touch()


def endless(agent: HostileAgent) -> None:
    """A log of one line that does not end."""
    with (agent.run_folder.logs / "worker-0.log").open("ab", buffering=0) as log:
        for _ in range(LOG_BYTES >> 20):
            log.write(b"x" * (1 << 20))


def sparse(agent: HostileAgent) -> None:
    """Files that seem larger than the disk."""
    for path in (agent.run_folder.logs / "worker-3.log", agent.run_folder.path / "agent.log"):
        path.touch()
        os.truncate(path, SPARSE_BYTES)


def links(agent: HostileAgent) -> None:
    """What the daemon reads leads elsewhere."""
    folder = agent.run_folder.path
    for name, target in {
        "agent.json": "/etc/shadow",
        "outcome.json": "/dev/zero",
        "agent.log": "/dev/random",
        "logs/worker-1.log": "/dev/zero",
        "logs/worker-2.log": "/proc/self/mem",
        "logs/worker-4.log": "worker-4.log",
    }.items():
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(target)
    os.mkfifo(folder / "logs" / "worker-5.log")


def half(agent: HostileAgent) -> None:
    """It dies with its last words half written."""
    (agent.run_folder.path / "outcome.json").write_text('{"outcome": "finished", "exit_co')
    os.kill(os.getpid(), signal.SIGKILL)


def forks(agent: HostileAgent) -> None:
    for _ in range(STORM):
        subprocess.Popen(["sleep", SLEEP])


def escape(agent: HostileAgent) -> None:
    """Sessions of their own, deaf to SIGTERM; half of them without a mark as well."""
    deaf = ["sh", "-c", f'trap "" TERM HUP INT; sleep {SLEEP}']
    for number in range(20):
        environment = {} if number % 2 else dict(os.environ)
        subprocess.Popen(deaf, env=environment, start_new_session=True)


def quick(agent: HostileAgent) -> None:
    """It ends as soon as it has begun, again and again."""
    os._exit(1)


def stopped(agent: HostileAgent) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def remove(agent: HostileAgent) -> None:
    """The floor it stands on."""
    shutil.rmtree(agent.run_folder.path, ignore_errors=True)
    agent.run_folder.path.parent.chmod(0)
    os._exit(1)


def nothing(agent: HostileAgent) -> None:
    """At the door, or nowhere, is the mischief."""


KINDS: Final[dict[str, Callable[[HostileAgent], None]]] = {
    **{one.__name__: one for one in (deep, memory, files, endless, sparse, links, half, forks)},
    **{one.__name__: one for one in (escape, quick, stopped, remove)},
    "slow": nothing,
    "liar": nothing,
}


def main() -> None:
    model_agent.ModelAgent = HostileAgent  # type: ignore[misc]
    sys.setrecursionlimit(1_000)
    model_agent.main()


if __name__ == "__main__":
    main()
