"""Plays all users and all machines of the baseline, in a process of its own.

It does what the peer's runner does: it creates each class of jobs at its interval (later where the
API server is slower), watches, and ends each job so long after it saw it admitted, by one write.
Times are those at which the watch told of a change. Nothing runs anywhere.

`python -m benchmarks.kube.executor KUBECONFIG SHARE`; the outcome is one line of JSON.
"""

import asyncio
import sys
import time
from collections import defaultdict
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from statistics import fmean
from typing import Any

import orjson

from benchmarks.kube.baseline import TOTAL_GPUS, JobClass, Work, class_of, job_object
from weft.kube.client.api import MERGE, Api
from weft.kube.client.errors import Conflict, Unavailable
from weft.kube.names import jobs_path

PATIENCE_SECONDS = 1_800.0
LONG_CALL_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the work went. `wall_seconds` is from the first creation to the last end."""

    jobs: int
    wall_seconds: float
    creating_seconds: float
    admission_seconds: dict[str, float]
    usage: float
    preempted: int
    stopped_late: int
    calls: int


@dataclass(slots=True)
class Life:
    """One job, by the times at which the watch told of it."""

    kind: JobClass
    created: float
    admitted: float | None = None
    ended: float | None = None
    epoch: int = 0
    used_gpu_seconds: float = 0.0


@dataclass(slots=True)
class Tally:
    """What went otherwise than the first try."""

    preempted: int = 0
    stopped_late: int = 0
    tasks: set[asyncio.Task[None]] = field(default_factory=set)


class Executor:
    """One run of the work."""

    def __init__(self, api: Api, work: Work) -> None:
        self._api = api
        self._work = work
        self._lives: dict[tuple[str, str], Life] = {}
        self._timers: dict[tuple[str, str], asyncio.TimerHandle] = {}
        self._ended = 0
        self._done = asyncio.Event()
        self._tally = Tally()
        self._began = self._created_all = 0.0

    async def run(self) -> Outcome:
        version = (await self._api.get(jobs_path(), {"limit": "1"}))["metadata"]["resourceVersion"]
        watch = asyncio.create_task(self._watch(version))
        self._began = time.monotonic()
        create = asyncio.create_task(self._create_all())
        done = asyncio.create_task(self._done.wait())
        await _all_or_first_error({create, done}, watch)
        watch.cancel()
        return self._outcome()

    async def _create_all(self) -> None:
        async with asyncio.TaskGroup() as group:
            for queue, kind in self._work.streams():
                group.create_task(self._create(queue, kind))
        self._created_all = time.monotonic()

    async def _create(self, queue: str, kind: JobClass) -> None:
        """As the peer's generator: wait, create, wait for the answer, and so on."""
        for number in range(self._work.count(kind)):
            await asyncio.sleep(kind.every_seconds)
            body = orjson.dumps(job_object(queue, kind, number))
            await self._api.raw(
                "POST", jobs_path(queue), body=body, timeout_seconds=LONG_CALL_SECONDS
            )

    async def _watch(self, version: str) -> None:
        while True:
            params = {"resourceVersion": version, "timeoutSeconds": "3600"}
            async for kind, raw in self._api.watch(jobs_path(), params):
                version = raw["metadata"]["resourceVersion"]
                if kind in ("ADDED", "MODIFIED"):
                    self._see(raw)

    def _see(self, raw: dict[str, Any]) -> None:
        about, status = raw["metadata"], raw.get("status") or {}
        key = about["namespace"], about["name"]
        life = self._lives.get(key)
        now = time.monotonic()
        if life is None:
            life = self._lives[key] = Life(class_of(about["name"]), now)
        state = status.get("state", "")
        if state == "Running":
            self._run(key, life, int(status["decision"]["epoch"]), raw)
        elif state == "Succeeded":
            self._end(key, life, now)
        elif life.admitted is not None:
            self._withdraw(key, life, now)

    def _run(self, key: tuple[str, str], life: Life, epoch: int, raw: dict[str, Any]) -> None:
        if life.epoch == epoch:
            return
        life.epoch, life.admitted = epoch, time.monotonic()
        loop = asyncio.get_running_loop()
        self._timers[key] = loop.call_later(
            life.kind.run_seconds, self._start_ending, key, epoch, _end_of(raw, epoch)
        )

    def _withdraw(self, key: tuple[str, str], life: Life, now: float) -> None:
        """It lost its place; what it has done is lost, as with the peer."""
        assert life.admitted is not None
        self._timers.pop(key).cancel()
        life.used_gpu_seconds += life.kind.gpus * (now - life.admitted)
        life.admitted = None
        self._tally.preempted += 1

    def _end(self, key: tuple[str, str], life: Life, now: float) -> None:
        if life.ended is not None:
            return
        life.ended = now
        if life.admitted is not None:
            life.used_gpu_seconds += life.kind.gpus * (now - life.admitted)
        self._ended += 1
        if self._ended == self._work.jobs:
            self._done.set()

    def _start_ending(self, key: tuple[str, str], epoch: int, body: bytes) -> None:
        task = asyncio.get_running_loop().create_task(self._write_end(key, epoch, body))
        self._tally.tasks.add(task)
        task.add_done_callback(self._tally.tasks.discard)

    async def _write_end(self, key: tuple[str, str], epoch: int, body: bytes) -> None:
        """By the version that was seen running: a job stopped meanwhile has not ended."""
        path = f"{jobs_path(*key)}/status"
        try:
            await self._api.raw(
                "PATCH", path, body=body, content_type=MERGE, timeout_seconds=LONG_CALL_SECONDS
            )
        except Conflict:
            raw = await self._api.get(jobs_path(*key))
            status = raw["status"]
            if status["state"] == "Running" and status["decision"]["epoch"] == epoch:
                await self._write_end(key, epoch, _end_of(raw, epoch))
            else:
                self._tally.stopped_late += 1

    def _outcome(self) -> Outcome:
        waits: defaultdict[str, list[float]] = defaultdict(list)
        last, used = 0.0, 0.0
        for life in self._lives.values():
            assert life.ended is not None
            assert life.admitted is not None
            waits[life.kind.name].append(life.admitted - life.created)
            used += life.used_gpu_seconds
            last = max(last, life.ended)
        wall = last - self._began
        return Outcome(
            jobs=len(self._lives),
            wall_seconds=wall,
            creating_seconds=self._created_all - self._began,
            admission_seconds={name: fmean(each) for name, each in sorted(waits.items())},
            usage=used / (TOTAL_GPUS * wall),
            preempted=self._tally.preempted,
            stopped_late=self._tally.stopped_late,
            calls=sum(self._api.calls.values()),
        )


def _end_of(raw: dict[str, Any], epoch: int) -> bytes:
    """The patch that tells the end, conditions included."""
    now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    status = raw["status"]
    patch = {
        "state": "Succeeded",
        "gpus": 0,
        "endedAt": now,
        "execution": {"epoch": epoch, "phase": "Succeeded"},
        "conditions": [_closed(each, now) for each in status.get("conditions", ())],
    }
    version = raw["metadata"]["resourceVersion"]
    return orjson.dumps({"metadata": {"resourceVersion": version}, "status": patch})


def _closed(condition: dict[str, Any], now: str) -> dict[str, Any]:
    status = "True" if condition["type"] == "Finished" else "False"
    return condition | {
        "status": status,
        "reason": "Succeeded",
        "lastTransitionTime": f"{now[:19]}Z",
    }


async def _all_or_first_error(tasks: set[asyncio.Task[Any]], endless: asyncio.Task[None]) -> None:
    """Until all are done; what breaks one, or the endless one, is raised at once."""
    left = set(tasks)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while left:
        wait = deadline - time.monotonic()
        done, _ = await asyncio.wait(
            {*left, endless}, timeout=wait, return_when=asyncio.FIRST_COMPLETED
        )
        if not done:
            raise Unavailable(f"the work was not over after {PATIENCE_SECONDS:.0f} s")
        for task in done:
            task.result()
        left -= done


async def _main(kubeconfig: str, share: float) -> None:
    async with await Api.connect(kubeconfig=kubeconfig, user_agent="executor") as api:
        outcome = await Executor(api, Work(share)).run()
    print(orjson.dumps(asdict(outcome)).decode(), flush=True)


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], float(sys.argv[2])))
