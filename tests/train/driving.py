"""A real agent with real training processes, driven from a test."""

import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.train.cradle import ROOT, begin
from tests.train.lines import Line, NewestStep, read_lines
from tests.waiting import HANG_SECONDS, until

JOBS = Path(__file__).parent / "jobs"
#: No limit of an agent's ends a wait that must end by itself: such a test fails instead. A test
#: that is about a limit gives its own.
UNLIMITED = ("--hang", "600", "--grace", "600")

Event = dict[str, Any]
FOLDERS: list[Path] = []  # of the present test, to be looked through at its end


class Driven:
    """An agent in a process of its own; its events as they come, its orders by a pipe."""

    def __init__(self, folder: Path, arguments: list[str], variables: dict[str, str]) -> None:
        self.folder = folder
        self.events: list[Event] = []
        self._newest_step = NewestStep(folder)
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

    def until(self, found: Callable[[Event], bool], seconds: float = HANG_SECONDS) -> Event:
        """The first event, past or to come, that is wanted."""
        looked = 0

        def first() -> Event | None:
            nonlocal looked
            new, looked = self.events[looked:], len(self.events)
            return next((event for event in new if found(event)), None)

        with self._changed:
            event = self._changed.wait_for(first, seconds)
        assert event is not None, f"it did not happen; logs:\n{self.logs()}"
        return event

    def steady(self, width: int, after: int = 0) -> Event:
        """The epoch of that width, later than epoch `after`."""
        return self.until(
            lambda e: e["event"] == "steady" and e["width"] == width and e["epoch"] > after
        )

    def reached(self, step: int, seconds: float = HANG_SECONDS) -> None:
        """Wait until some worker has committed that step."""

        def there() -> bool:
            ended = self.process.poll() is not None
            assert self.newest_step >= step or not ended, self.logs()
            return self.newest_step >= step

        until(there, f"step {step}", state=self.logs, seconds=seconds)

    @property
    def newest_step(self) -> int:
        return self._newest_step()

    def wait(self, seconds: float = HANG_SECONDS) -> int:
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"no end in {seconds:g} s\n{self.logs()}") from None
        self._reader.join(HANG_SECONDS)
        return code

    def lines(self, worker: int | str = "*") -> list[Line]:
        """What the job's steps have written, of one worker or of all."""
        return read_lines(self.folder, worker)

    def pid(self, worker: int) -> int:
        """The process of a worker, as soon as there is one."""
        spawned = self.until(lambda e: e["event"] == "spawned" and e["worker"] == worker)
        return int(spawned["pid"])

    def signal(self, number: int, worker: int | None = None) -> None:
        """Send a signal to the agent, or to one worker behind its back."""
        os.kill(self.process.pid if worker is None else self.pid(worker), number)

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
    arguments = ["--folder", str(folder / "run"), *UNLIMITED, *agent, str(JOBS / script), *options]
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
