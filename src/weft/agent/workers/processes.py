"""Worker processes: started, watched, signalled with everything they started, and reaped.

Each worker leads a session of its own, so that a signal reaches its children too. The agent makes
itself the reaper of orphans: what a worker leaves behind comes to the agent and is ended with it.
The environment is what torchrun and Kubeflow's trainer set, so that a script that knows nothing of
Weft finds its rank and its peers, plus the few variables that Weft's library looks for.
"""

import asyncio
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from weft.agent.evidence import error_file
from weft.agent.plan import Plan
from weft.agent.workers import cpus, stacks, tracking
from weft.agent.workers.cpus import Cpus
from weft.agent.workers.output import Files, Outlet, Outlets
from weft.agent.workers.places import Standing
from weft.agent.workers.spawn_pool import SWITCH, Request, SpawnPool, script_of

PR_SET_CHILD_SUBREAPER: Final = 36
GPUS: Final = "WEFT_GPUS"  # of a process that has all GPUs of its node
LOCALHOST: Final = "127.0.0.1"
NOT_FOUND: Final = 127  # what a shell ends with if there is no such command
NOT_STARTED: Final = 126
UNBUFFERED: Final = {"PYTHONUNBUFFERED": "1"}  # what is printed is seen when it is printed


@dataclass(frozen=True, slots=True)
class Launch:
    """What all workers of a job have in common on this seat.

    `gpus` are those of a process that has all of this seat, and what a launcher (torchrun) is told
    to start; None where each process has one. `threads` of 0 are left to torch. `uuids` are the
    names of devices that keep their meaning whatever else a process sees, by number. `head_file`
    tells who leads, where that may change.
    """

    command: tuple[str, ...]
    job: str
    incarnation: int
    socket: str
    key_file: Path
    slots: Path
    logs: Path
    host: str = LOCALHOST
    master_host: str = LOCALHOST
    master_port: int = 29500
    gpus: int | None = None
    shard: int = 1
    threads: int = 1
    uuids: Mapping[int, str] = field(default_factory=dict)
    run: str = ""
    head_file: Path | None = None
    writer: bool = False  # whether this seat writes what its workers have saved

    @property
    def once(self) -> bool:
        """Whether one process has all GPUs, and starts processes or threads for them itself."""
        return self.gpus is not None


@dataclass(frozen=True, slots=True)
class Child:
    """A process that is waited for once it has ended."""

    pid: int
    wait: Callable[[], int]


class Processes:
    """The workers on this machine; who ends, and who begins, is told."""

    def __init__(
        self,
        launch: Launch,
        ended: Callable[[int, int], None],
        started: Callable[[int, int], None] = lambda worker, pid: None,
        outlets: Outlets | None = None,
    ) -> None:
        self.launch = launch
        self.pool: Cpus = ()
        self.bound: dict[int, Cpus] = {}
        self._ended, self._started, self._outlets = ended, started, outlets or Files()
        self._spawn_pool: SpawnPool | None = None
        self._unborn: dict[int, list[int]] = {}  # with the signals that wait for them
        self._running: dict[int, Child] = {}
        self._printing: dict[int, Outlet] = {}
        self._closed = False

    def start(
        self,
        worker: int,
        standing: Standing,
        devices: Collection[int] = (),
        plan: Plan | None = None,
    ) -> None:
        """Start a worker; its process id will be told, and its end."""
        self._share_cpus((*self.running, worker))
        env = {**os.environ, **environment(self.launch, worker, standing, devices, plan)}
        env.pop(SWITCH, None)
        if not self.launch.once:  # the agent may itself be a process with all GPUs of its node
            env.pop(GPUS, None)
        log = self.launch.logs / f"worker-{worker}.log"
        outlet = self._outlets.outlet(worker, standing.rank, log)
        self._printing[worker] = outlet
        self._unborn[worker] = []

        def born(pid: int | None) -> None:
            child = Child(pid, partial(_wait, pid)) if pid is not None else None
            try:
                self._born(worker, child or self._spawned(worker, env, outlet))
            finally:
                outlet.close()

        suits = SpawnPool.suits(self.launch.command, self.launch.threads)
        if self.launch.once or not suits:
            born(None)
            return
        argv = script_of(self.launch.command)
        cpus = self.bound.get(worker, ())
        self._made_spawn_pool().ask(Request(argv, env, cpus, (outlet.output, outlet.errors), born))

    def serve(
        self,
        launch: Launch,
        ended: Callable[[int, int], None],
        started: Callable[[int, int], None],
    ) -> None:
        """Somebody else is told from now on, and the next are started as this says."""
        self.launch, self._ended, self._started = launch, ended, started

    def signal(self, worker: int, number: int) -> None:
        """To the worker and all that it started; a call for stacks only to those who listen."""
        if number == stacks.STACKS:
            if worker in self._running:
                stacks.take(self._running[worker].pid, self.launch.logs, worker)
        elif worker in self._running:
            with suppress(ProcessLookupError):
                os.killpg(self._running[worker].pid, number)
        elif worker in self._unborn:
            self._unborn[worker].append(number)
            if number == signal.SIGKILL:
                self._never_born(worker, -number)

    def close(self) -> None:
        """Kill whoever runs, and start nobody any more."""
        self._closed = True
        for worker in self.running:
            self.signal(worker, signal.SIGKILL)
        if self._spawn_pool is not None:
            self._spawn_pool.close()

    def share_cpus(self, pool: Cpus) -> None:
        """Another pool: everyone gets another slice."""
        self.pool = pool
        self._share_cpus(self.running)

    @property
    def running(self) -> tuple[int, ...]:
        return (*self._running, *self._unborn)

    @property
    def pids(self) -> tuple[int, ...]:
        """All processes that are waited for here."""
        zygote = self._spawn_pool.pid if self._spawn_pool else None
        return (*(c.pid for c in self._running.values()), *((zygote,) if zygote else ()))

    def _made_spawn_pool(self) -> SpawnPool:
        if self._spawn_pool is None:
            launch = self.launch
            shared = {
                "OMP_NUM_THREADS": str(launch.threads),
                "WEFT_SHARD": str(launch.shard),
                **UNBUFFERED,
            }
            self._spawn_pool = SpawnPool(launch.command[0], shared, launch.logs / "zygote.log")
        return self._spawn_pool

    def _spawned(self, worker: int, env: Mapping[str, str], outlet: Outlet) -> Child | None:
        if self._closed or worker not in self._unborn:
            return None
        try:
            with cpus.on(self.bound.get(worker, ())):
                process = subprocess.Popen(
                    self.launch.command,
                    env=env,
                    stdin=subprocess.DEVNULL,
                    stdout=outlet.output,
                    stderr=outlet.errors,
                    start_new_session=True,
                )
        except OSError as error:
            os.write(outlet.errors, f"cannot start {self.launch.command[0]}: {error}\n".encode())
            code = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_STARTED
            self._never_born(worker, code)
            return None
        return Child(process.pid, process.wait)

    def _born(self, worker: int, child: Child | None) -> None:
        if child is None:
            return
        signals = self._unborn.pop(worker, None)
        if signals is None:  # its end has been told already
            os.kill(child.pid, signal.SIGKILL)
            watch_end(child.pid, child.wait)
            return
        self._running[worker] = child
        if worker in self.bound:  # its slice may have changed since it was asked for
            cpus.move(child.pid, self.bound[worker])
        watch_end(child.pid, lambda: self._reap(worker))
        self._started(worker, child.pid)
        for number in signals:
            self.signal(worker, number)

    def _never_born(self, worker: int, code: int) -> None:
        del self._unborn[worker]
        self._printing.pop(worker, None)
        asyncio.get_running_loop().call_soon(self._ended, worker, code)

    def _reap(self, worker: int) -> None:
        child = self._running.pop(worker)
        code = child.wait()
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        self._printing.pop(worker).finish()
        self._share_cpus(self.running)
        self._ended(worker, code)

    def _share_cpus(self, workers: Sequence[int]) -> None:
        """Equal slices; those that run already are moved where theirs has changed."""
        before = self.bound
        parts = cpus.slices(self.pool, len(workers))
        self.bound = {w: part for w, part in zip(workers, parts, strict=True) if part}
        for worker, part in self.bound.items():
            if worker in self._running and part != before.get(worker):
                cpus.move(self._running[worker].pid, part)


def environment(
    launch: Launch,
    worker: int,
    standing: Standing,
    devices: Collection[int] = (),
    plan: Plan | None = None,
) -> dict[str, str]:
    """What a worker finds in its environment, besides what the agent itself was given."""
    local_width = standing.local_width if launch.gpus is None else launch.gpus
    shared = {
        "MASTER_ADDR": launch.master_host,
        "MASTER_PORT": str(launch.master_port),
        "RANK": str(standing.rank),
        "WORLD_SIZE": str(standing.width),
        "NODE_RANK": str(standing.node_rank),
        "GROUP_RANK": str(standing.node_rank),
        "GROUP_WORLD_SIZE": str(standing.nodes),
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": os.environ.get("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"),
        "TORCHELASTIC_ERROR_FILE": str(launch.logs / error_file(worker)),
    }
    per_gpu = {
        "LOCAL_RANK": str(standing.local_rank),
        "LOCAL_WORLD_SIZE": str(standing.local_width),
        "ROLE_NAME": "default",
        "ROLE_RANK": str(standing.rank),
        "ROLE_WORLD_SIZE": str(standing.width),
        "TORCHELASTIC_RUN_ID": launch.job,
        "TORCHELASTIC_RESTART_COUNT": str(max(launch.incarnation - 1, 0)),
        "TORCHELASTIC_MAX_RESTARTS": "0",
        "TORCHELASTIC_USE_AGENT_STORE": "False",  # rank 0 opens the store that all meet at
    }
    kubeflow = {
        "PET_NNODES": str(standing.nodes),
        "PET_NPROC_PER_NODE": str(local_width),
        "PET_NODE_RANK": str(standing.node_rank),
        "PET_MASTER_ADDR": launch.master_host,
        "PET_MASTER_PORT": str(launch.master_port),
    }
    own = {
        "WEFT_JOB": launch.job,
        "WEFT_INCARNATION": str(launch.incarnation),
        "WEFT_SOCKET": launch.socket,
        "WEFT_KEY_FILE": str(launch.key_file),
        "WEFT_SLOTS": str(launch.slots),
        "WEFT_WORKER": str(worker),
        "WEFT_HOST": launch.host,
        "WEFT_SHARD": str(launch.shard if plan is None else plan.unit),
        **({"WEFT_PLAN": json.dumps(plan.to_json())} if plan and plan.unit > 1 else {}),
        **({"WEFT_HEAD_FILE": str(launch.head_file)} if launch.head_file else {}),
        **({"WEFT_WRITER": "1"} if launch.writer else {}),
        **UNBUFFERED,
        **stacks.variables(launch.logs, worker),
    }
    threads = {"OMP_NUM_THREADS": str(launch.threads)} if launch.threads else {}
    # By `per_gpu` a trainer takes itself for one of several processes, each with one GPU.
    process = {GPUS: str(launch.gpus)} if launch.once else {**per_gpu, **threads}
    tracked = tracking.variables(launch.run, os.environ, first=standing.rank == 0)
    return {**shared, **process, **kubeflow, **own, **tracked, **_visible(launch, devices)}


def _visible(launch: Launch, devices: Collection[int]) -> dict[str, str]:
    """The devices as the only ones; a number has no meaning without the order it is counted in."""
    if not devices:
        return {}
    named = [launch.uuids.get(number, str(number)) for number in devices]
    return {"CUDA_VISIBLE_DEVICES": ",".join(named), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def _wait(pid: int) -> int:
    """The code of a worker that was forked; one that was ended as an orphan counts as killed."""
    try:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except ChildProcessError:
        return -signal.SIGKILL


def watch_end(pid: int, ended: Callable[[], object]) -> None:
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


def reap_orphans(known: Collection[int]) -> None:
    """Let go of the dead that nobody else waits for."""
    for pid in set(children()) - set(known):
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


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
