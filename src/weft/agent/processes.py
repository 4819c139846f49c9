"""Worker processes: started, watched, signalled with everything they started, and reaped.

Each worker leads a session of its own, so that a signal reaches its children too. The agent makes
itself the reaper of orphans: what a worker leaves behind comes to the agent and is ended with it.
The environment is what torchrun and Kubeflow's trainer set, so that a script that knows nothing of
Weft finds its rank and its peers, plus the few variables that Weft's library looks for.
"""

import asyncio
import ctypes
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PR_SET_CHILD_SUBREAPER: Final = 36
LOCALHOST: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Launch:
    """What all workers of a job have in common."""

    command: tuple[str, ...]
    job: str
    incarnation: int
    socket: Path
    key_file: Path
    slots: Path
    logs: Path
    host: str = LOCALHOST
    master_port: int = 29500
    shard: int = 1
    threads: int = 1
    niceness: int = 10


@dataclass(frozen=True, slots=True)
class Place:
    """Where a worker stands among those that are started with it."""

    rank: int
    width: int


class Processes:
    """The workers on this machine."""

    def __init__(self, launch: Launch, ended: Callable[[int, int], None]) -> None:
        self.launch = launch
        self._ended = ended
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self.pids: dict[int, int] = {}

    def start(self, worker: int, place: Place) -> int:
        """Start a worker; its end will be told. Gives its process id."""
        log_path = self.launch.logs / f"worker-{worker}.log"
        with log_path.open("ab") as log_file:
            process = subprocess.Popen(
                self.launch.command,
                env={**os.environ, **environment(self.launch, worker, place)},
                stdin=subprocess.DEVNULL,
                stdout=log_file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._running[worker] = process
        self.pids[worker] = process.pid
        watch_end(process.pid, lambda: self._reap(worker))
        return process.pid

    def signal(self, worker: int, number: int) -> None:
        """To the worker and all that it started."""
        if worker in self._running:
            with suppress(ProcessLookupError):
                os.killpg(self._running[worker].pid, number)

    @property
    def running(self) -> tuple[int, ...]:
        return tuple(self._running)

    def _reap(self, worker: int) -> None:
        process = self._running.pop(worker)
        code = process.wait()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        self._ended(worker, code)


def environment(launch: Launch, worker: int, place: Place) -> dict[str, str]:
    """What a worker finds in its environment, besides what the agent itself was given."""
    rank, width = str(place.rank), str(place.width)
    torchrun = {
        "MASTER_ADDR": launch.host,
        "MASTER_PORT": str(launch.master_port),
        "RANK": rank,
        "WORLD_SIZE": width,
        "LOCAL_RANK": rank,
        "LOCAL_WORLD_SIZE": width,
        "NODE_RANK": "0",
        "GROUP_RANK": "0",
        "TORCHELASTIC_RUN_ID": launch.job,
        "TORCHELASTIC_ERROR_FILE": str(launch.logs / f"worker-{worker}.error.json"),
        "OMP_NUM_THREADS": str(launch.threads),
    }
    kubeflow = {
        "PET_NNODES": "1",
        "PET_NPROC_PER_NODE": width,
        "PET_NODE_RANK": "0",
        "PET_MASTER_ADDR": launch.host,
        "PET_MASTER_PORT": str(launch.master_port),
    }
    own = {
        "WEFT_JOB": launch.job,
        "WEFT_INCARNATION": str(launch.incarnation),
        "WEFT_SOCKET": str(launch.socket),
        "WEFT_KEY_FILE": str(launch.key_file),
        "WEFT_SLOTS": str(launch.slots),
        "WEFT_WORKER": str(worker),
        "WEFT_HOST": launch.host,
        "WEFT_SHARD": str(launch.shard),
        "PYTHONUNBUFFERED": "1",
    }
    return {**torchrun, **kubeflow, **own}


def watch_end(pid: int, ended: Callable[[], None]) -> None:
    """Call `ended` in the event loop when the process has ended, without polling."""
    loop = asyncio.get_running_loop()
    handle = os.pidfd_open(pid)

    def readable() -> None:
        loop.remove_reader(handle)
        os.close(handle)
        ended()

    loop.add_reader(handle, readable)


def adopt_orphans() -> None:
    """Become the parent of whatever outlives its own parent below this process."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def end_orphans() -> int:
    """Kill and reap what is left below this process; gives how many there were."""
    count = 0
    for pid in children():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)
            count += 1
    return count


def children() -> tuple[int, ...]:
    """The processes whose parent this one is."""
    tasks = Path("/proc/self/task")
    found: list[int] = []
    for task in tasks.iterdir():
        with suppress(OSError):
            found += map(int, (task / "children").read_text().split())
    return tuple(found)


def free_port() -> int:
    """A port that nobody listens on, for plain scripts to meet at."""
    with socket.socket() as probe:
        probe.bind((LOCALHOST, 0))
        return int(probe.getsockname()[1])


def program_of(command: Sequence[str], variables: Mapping[str, str]) -> tuple[str, ...]:
    """The command as it is started: a bare script is given to this interpreter."""
    first = command[0]
    if first.endswith(".py"):
        return (variables.get("PYTHON", sys.executable), *command)
    return tuple(command)
