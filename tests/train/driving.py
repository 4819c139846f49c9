"""A real agent with real training processes, driven from a test."""

import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.train.cradle import ROOT, begin
from tests.train.lines import Line, read_lines

JOBS = Path(__file__).parent / "jobs"
PATIENCE_SECONDS = 60.0

Event = dict[str, Any]
FOLDERS: list[Path] = []  # of the present test, to be looked through at its end


class Driven:
    """An agent in a process of its own; its events as they come, its orders by a pipe."""

    def __init__(self, folder: Path, arguments: list[str], variables: dict[str, str]) -> None:
        self.folder = folder
        self.events: list[Event] = []
        self._changed = threading.Condition()
        self.process = begin(
            ["run", "--json", *arguments],
            agent=True,
            folder=folder,
            env={
                **os.environ,
                "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
                "WEFT_TEST_OUT": str(folder),
                **variables,
            },
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.complaints: list[str] = []
        threading.Thread(target=self._complain, daemon=True).start()

    def order(self, text: str) -> None:
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def until(self, found: Callable[[Event], bool], seconds: float = PATIENCE_SECONDS) -> Event:
        """The first event, past or to come, that is wanted."""
        deadline = time.monotonic() + seconds
        looked = 0
        with self._changed:
            while True:
                for event in self.events[looked:]:
                    if found(event):
                        return event
                looked = len(self.events)
                left = deadline - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    raise AssertionError(f"it did not happen; logs:\n{self.logs()}")

    def steady(self, width: int, after: int = 0) -> Event:
        """The epoch of that width, later than epoch `after`."""
        return self.until(
            lambda e: e["event"] == "steady" and e["width"] == width and e["epoch"] > after
        )

    def reached(self, step: int, seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until some worker has committed that step."""
        deadline = time.monotonic() + seconds
        while self.newest_step < step:
            assert self.process.poll() is None, self.logs()
            assert time.monotonic() < deadline, f"step {step} was not reached\n{self.logs()}"
            time.sleep(0.02)

    @property
    def newest_step(self) -> int:
        return max((line["step"] for line in self.lines() if line.get("stepped")), default=-1)

    def wait(self, seconds: float = PATIENCE_SECONDS) -> int:
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"no end in {seconds:g} s\n{self.logs()}") from None
        self._reader.join(5)
        return code

    def lines(self, worker: int | str = "*") -> list[Line]:
        """What the job's steps have written, of one worker or of all."""
        return read_lines(self.folder, worker)

    def pid(self, worker: int) -> int:
        """The process of a worker, as soon as there is one."""
        spawned = self.until(lambda e: e["event"] == "spawned" and e["worker"] == worker)
        return int(spawned["pid"])

    def signal(self, number: int, worker: int | None = None) -> float:
        """Send a signal to the agent, or to one worker behind its back; gives when."""
        os.kill(self.process.pid if worker is None else self.pid(worker), number)
        return time.monotonic()

    def status(self) -> Event:
        """How the agent says that the job stands."""
        answers = len(self.named("answer"))
        self.order("status")
        self.until(lambda _: len(self.named("answer")) > answers)
        return self.named("answer")[-1]

    def logs(self, events: int = 20) -> str:
        texts = [path.read_text()[-4000:] for path in sorted(self.folder.glob("**/worker-*.log"))]
        return "\n".join([*map(str, self.events[-events:]), *self.complaints[-40:], *texts])

    def named(self, what: str) -> list[Event]:
        return [event for event in self.events if event["event"] == what]

    def _read(self) -> None:
        for line in self.process.stdout:
            with self._changed:
                self.events.append(json.loads(line))
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def _complain(self) -> None:
        for line in self.process.stderr:
            self.complaints.append(line)


@contextmanager
def driven(
    folder: Path, script: str, *options: str, agent: tuple[str, ...] = (), **variables: str
) -> Iterator[Driven]:
    """An agent that runs a job of `tests/train/jobs`, ended at the latest with the test."""
    folder.mkdir(exist_ok=True)
    FOLDERS.append(folder)
    arguments = ["--folder", str(folder / "run"), *agent, str(JOBS / script), *options]
    job = Driven(folder, arguments, variables)
    try:
        yield job
    finally:
        if job.process.poll() is None:
            job.process.kill()
        job.process.wait()
        for stream in (job.process.stdin, job.process.stdout, job.process.stderr):
            with suppress(BrokenPipeError):
                stream.close()


def leftovers(folder: Path) -> list[str]:
    """What a job that is over has left of itself, besides its logs and checkpoints."""
    found = [f"process {pid}" for pid in processes_of(folder)]
    found += [str(path) for name in ("agent.sock", "key") for path in folder.glob(f"**/{name}")]
    for card in folder.glob("**/agent.json"):
        slots = json.loads(card.read_text())["slots"]
        found += [slots] if Path(slots).exists() else []
    return found


def clear(folder: Path) -> None:
    """End and remove what is left, so that one failing test does not disturb the next."""
    for pid in processes_of(folder):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for card in folder.glob("**/agent.json"):
        shutil.rmtree(json.loads(card.read_text())["slots"], ignore_errors=True)


def processes_of(folder: Path) -> list[int]:
    """Live processes that a job of this folder has started: they work in it."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (path / "cwd").readlink() == folder and int(path.name) != os.getpid():
                found.append(int(path.name))
    return found
