"""A real agent with real training processes, and all that they tell, on one clock.

The agent is a process of its own; its events come through a pipe and its orders go through another.
The workers' steps are read from the files that `jobs/steps.py` writes, each line once, so that
looking on costs next to nothing. At the end nothing of it is left: the agent is asked twice to
drain, which means at once, and whatever it should leave behind is killed by number.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from weft.model.errors import WorldError

ROOT = Path(__file__).resolve().parents[2]
JOBS = Path(__file__).parent / "jobs"
STEPS = "steps.py"
PATIENCE_SECONDS = 120.0
END_SECONDS = 10.0
LOOK_SECONDS = 0.02

Event = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of one worker, as `jobs/steps.py` tells it."""

    worker: int
    step: int
    epoch: int
    width: int
    samples: int
    stepped: bool
    began: float
    ended: float
    waited: float
    ids: list[int] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        return self.ended - self.began


@dataclass(frozen=True, slots=True)
class Size:
    """What a job trains: its state is twelve bytes a parameter."""

    features: int
    batch: int
    samples: int
    pause: float = 0.0

    def words(self) -> tuple[str, ...]:
        """As options of a script."""
        return (
            *("--features", str(self.features)),
            *("--batch", str(self.batch)),
            *("--samples", str(self.samples)),
        )


FULL = Size(features=2048, batch=64, samples=2048)
SHORT = Size(features=128, batch=16, samples=160, pause=0.02)


class Job:
    """An agent that runs `jobs/steps.py`."""

    def __init__(self, folder: Path, words: list[str]) -> None:
        self.folder = folder
        self.events: list[Event] = []
        self.tales: list[Event] = []
        self.steps: list[Step] = []
        self._read_up_to: dict[Path, int] = {}
        self._changed = threading.Condition()
        folder.mkdir(exist_ok=True)
        self._complaints = (folder / "agent.log").open("ab")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "weft.agent", "run", "--json", *words],
            env={**os.environ, "PYTHONPATH": python_path(), "WEFT_BENCH_OUT": str(folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
        )
        self._reader = threading.Thread(target=self._hear, daemon=True)
        self._reader.start()

    # ------------------------------------------------------------------------------- orders

    def order(self, text: str) -> float:
        """Say it to the agent; gives the time."""
        assert self.process.stdin is not None
        now = time.monotonic()
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        return now

    def signal_worker(self, worker: int, number: int) -> float:
        """Behind the agent's back, as a machine would do it."""
        now = time.monotonic()
        os.kill(self.pids()[worker], number)
        return now

    def resize(self, width: int) -> tuple[Event, Event]:
        """Order a width, and wait until all members have committed a step of it."""
        known = len(self.events)
        self.order(f"resize {width}")
        ordered = self.until("the order", lambda e: e["event"] == "ordered", since=known)
        return ordered, self.steady(width, since=known)

    # ------------------------------------------------------------------------- what is seen

    def until(self, what: str, found: Callable[[Event], bool], *, since: int = 0) -> Event:
        """The first event from number `since` on that is wanted, past or to come."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        looked = since
        with self._changed:
            while True:
                for event in self.events[looked:]:
                    if found(event):
                        return event
                looked = len(self.events)
                self._check(deadline, what)
                self._changed.wait(1.0)

    def steady(self, width: int, *, since: int = 0) -> Event:
        return self.until(
            f"{width} workers",
            lambda e: e["event"] == "steady" and e["width"] == width,
            since=since,
        )

    def until_step(self, what: str, found: Callable[[Step], bool], *, since: int = 0) -> Step:
        """The first step from number `since` on, in the order in which steps are read."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        looked = since
        while True:
            self.look()
            for step in self.steps[looked:]:
                if found(step):
                    return step
            looked = len(self.steps)
            self._check(deadline, what)
            time.sleep(LOOK_SECONDS)

    def go_on(self, steps: int) -> None:
        """Wait until so many more steps are committed."""
        self.look()
        goal = self.newest() + steps
        self.until_step(f"step {goal}", lambda s: s.stepped and s.step >= goal)

    def newest(self) -> int:
        """The newest step that any worker has committed."""
        return max((step.step for step in self.steps if step.stepped), default=-1)

    def look(self) -> None:
        """Read what the workers have told since the last look."""
        for path in sorted(self.folder.glob("steps-*.jsonl")):
            with path.open("rb") as file:
                file.seek(self._read_up_to.get(path, 0))
                text = file.read()
            whole = text[: text.rfind(b"\n") + 1]
            self._read_up_to[path] = self._read_up_to.get(path, 0) + len(whole)
            for line in whole.splitlines():
                self._take(json.loads(line))

    def named(self, what: str) -> list[Event]:
        return [event for event in self.events if event["event"] == what]

    def pids(self) -> dict[int, int]:
        """The processes of all workers that ever were."""
        return {event["worker"]: event["pid"] for event in self.named("spawned")}

    # ------------------------------------------------------------------------------- the end

    def end(self, seconds: float = PATIENCE_SECONDS) -> int:
        """Its exit code, once it has ended by itself."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise WorldError(f"the agent did not end in {seconds:.0f} s: {self.logs()}") from None
        self._reader.join(END_SECONDS)
        self.look()
        return code

    def drain(self) -> float:
        """By SIGTERM, as a cluster does it: seconds until the agent's process has ended."""
        before = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        self.end()
        return time.monotonic() - before

    def close(self) -> None:
        """Leave nothing behind."""
        for _ in range(2):
            if self.process.poll() is None:
                self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            for pid in self.pids().values():
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)
        self._reader.join(END_SECONDS)
        for stream in (self.process.stdin, self.process.stdout, self._complaints):
            if stream is not None:
                stream.close()

    def logs(self) -> str:
        """The last words of everybody."""
        paths = [self.folder / "agent.log", *sorted(self.folder.glob("**/worker-*.log"))]
        texts = [path.read_text()[-300:].strip() for path in paths if path.exists()]
        return " | ".join([str(self.events[-1:]), *filter(None, texts)])[-1500:]

    def _hear(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._changed:
                self.events.append({**json.loads(line), "at": time.monotonic()})
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def _take(self, line: Event) -> None:
        if "stepped" in line:
            self.steps.append(Step(**line))
        else:
            self.tales.append(line)

    def _check(self, deadline: float, what: str) -> None:
        if self.process.poll() is not None and not self._reader.is_alive():
            raise WorldError(f"the agent ended before {what}: {self.logs()}")
        if time.monotonic() > deadline:
            raise WorldError(f"{what} did not come: {self.logs()}")


@contextmanager
def running(
    folder: Path, size: Size, *words: str, workers: int = 1, agent: tuple[str, ...] = ()
) -> Iterator[Job]:
    """A job of that size with so many workers, ended at the latest with the block."""
    settings = ["--folder", str(folder / "run"), "--workers", str(workers), *agent]
    script = [str(JOBS / STEPS), *size.words(), "--pause", str(size.pause), *words]
    job = Job(folder, [*settings, *script])
    try:
        yield job
    finally:
        job.close()


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for what a part writes; on a disk, because checkpoints are made durable."""
    with TemporaryDirectory(prefix="weft-bench-") as folder:
        yield Path(folder)


def python_path() -> str:
    return f"{ROOT / 'src'}:{ROOT}"


def outcome_of(words: list[str], seconds: float, **variables: str) -> Any:  # noqa: ANN401 - JSON
    """The last line that a script or module prints, as JSON."""
    try:
        done = subprocess.run(
            [sys.executable, *words],
            env={**os.environ, "PYTHONPATH": python_path(), **variables},
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise WorldError(f"{words[0]} was not over after {seconds:.0f} s") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["without a word"])[-1]
        raise WorldError(f"{' '.join(words)}: {last}"[:500])
    return json.loads(done.stdout.strip().splitlines()[-1])


def say(what: str) -> None:
    """Progress, because a part takes minutes."""
    print(f"  {what} …", file=sys.stderr, flush=True)
