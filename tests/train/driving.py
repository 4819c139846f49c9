"""A real agent with real training processes, driven from a test."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
JOBS = Path(__file__).parent / "jobs"
PATIENCE_SECONDS = 60.0

Event = dict[str, Any]


class Driven:
    """An agent in a process of its own; its events as they come, its orders by a pipe."""

    def __init__(self, folder: Path, arguments: list[str], variables: dict[str, str]) -> None:
        self.folder = folder
        self.events: list[Event] = []
        self._changed = threading.Condition()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "weft.agent", "run", "--json", *arguments],
            cwd=folder,
            env={
                **os.environ,
                "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
                "WEFT_TEST_OUT": str(folder),
                **variables,
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def order(self, text: str) -> None:
        assert self.process.stdin is not None
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
        while max((line["step"] for line in self.lines() if "step" in line), default=-1) < step:
            assert self.process.poll() is None, self.logs()
            assert time.monotonic() < deadline, f"step {step} was not reached\n{self.logs()}"
            time.sleep(0.02)

    def wait(self, seconds: float = PATIENCE_SECONDS) -> int:
        code = self.process.wait(seconds)
        self._reader.join(5)
        return code

    def lines(self, worker: int | None = None) -> list[Event]:
        """What the job's steps have written, of one worker or of all."""
        pattern = f"steps-{'*' if worker is None else worker}.jsonl"
        found: list[Event] = []
        for path in sorted(self.folder.glob(pattern)):
            for line in path.read_text().splitlines():
                try:
                    found.append(json.loads(line))
                except ValueError:
                    continue
        return found

    def logs(self) -> str:
        texts = [path.read_text()[-4000:] for path in sorted(self.folder.glob("**/worker-*.log"))]
        return "\n".join([*map(str, self.events[-20:]), *texts])

    def named(self, what: str) -> list[Event]:
        return [event for event in self.events if event["event"] == what]

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._changed:
                self.events.append(json.loads(line))
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()


@contextmanager
def driven(
    folder: Path, script: str, *options: str, agent: tuple[str, ...] = (), **variables: str
) -> Iterator[Driven]:
    """An agent that runs a job of `tests/train/jobs`, ended at the latest with the test."""
    folder.mkdir(exist_ok=True)
    arguments = ["--folder", str(folder / "run"), *agent, str(JOBS / script), *options]
    job = Driven(folder, arguments, variables)
    try:
        yield job
    finally:
        if job.process.poll() is None:
            job.process.kill()
        job.process.wait()
        for stream in (job.process.stdin, job.process.stdout):
            if stream is not None:
                stream.close()


def used(lines: list[Event]) -> dict[int, list[int]]:
    """The samples of each step that counted, over all workers."""
    found: dict[int, list[int]] = {}
    for line in lines:
        if line.get("ids") and line.get("counted", True):
            found.setdefault(line["step"], []).extend(line["ids"])
    return found
