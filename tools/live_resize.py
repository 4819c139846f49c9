"""`python -m tools.live_resize record|draw`: the moving picture of a live resize.

`record` starts the local world with four slots, lets a job with a range train, sends two others
in beside it and writes down what the world told: each job's events, and how far the first had come.
`draw` makes the picture of that record alone, so that it shows nothing that did not happen.
"""

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from tools.live_resize_picture import drawn
from weft.api.client import Client
from weft.view.jobs import JobPicture

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "docs" / "images" / "live-resize.json"
SLOTS = 4
ELASTIC = "lm"
STEPS = 1700
GUESTS = {
    "cnn-a": ("python examples/cnn.py --steps 900", 250),
    "cnn-b": ("python examples/cnn.py --steps 450", 400),
}
POLL_SECONDS = 0.5
PATIENCE_SECONDS = 500.0
Told = dict[str, Any]
Sample = tuple[float, int, float | None]


@click.group()
def main() -> None:
    """Record a live resize, or draw the record."""


@main.command()
@click.argument("file", type=click.Path(path_type=Path), default=RECORD)
def draw(file: Path) -> None:
    """Draw the record in FILE into a picture beside it."""
    file.with_suffix(".svg").write_text(drawn(json.loads(file.read_text())))


@main.command()
@click.argument("file", type=click.Path(path_type=Path), default=RECORD)
def record(file: Path) -> None:
    """Run it, and write what was told into FILE."""
    with TemporaryDirectory(prefix="weft-") as folder:
        world = _World(Path(folder))
        world.typed("local", "up", "--slots", str(SLOTS), "--recipe", "maxmin")
        try:
            told = _watched(world)
        finally:
            world.typed("local", "down", "--now")
    file.write_text(json.dumps(told) + "\n")


@dataclass(frozen=True, slots=True)
class _World:
    """A local world of its own."""

    home: Path

    @property
    def client(self) -> Client:
        return Client(self.home / "s")

    def typed(self, *words: str) -> None:
        variables = {
            **os.environ,
            "HOME": str(self.home),
            "XDG_CONFIG_HOME": str(self.home / "config"),
            "WEFT_LOCAL_FOLDER": str(self.home / "world"),
            "WEFT_LOCAL_SOCKET": str(self.home / "s"),
            "WEFT_CONTEXT": "local",
        }
        command = [sys.executable, "-m", "weft.cli.main", *words]
        subprocess.run(command, cwd=ROOT, env=variables, check=True)

    def submit(self, name: str, run: str, gpus: str) -> None:
        file = self.home / f"{name}.yaml"
        file.write_text(json.dumps({"name": name, "run": run, "resources": {"gpus": gpus}}))
        self.typed("submit", "-y", str(file))


def _watched(world: _World) -> Told:
    world.submit(ELASTIC, f"python examples/lm.py --steps {STEPS}", f"1..{SLOTS}")
    samples: list[Sample] = []
    waiting = dict(GUESTS)
    deadline = time.time() + PATIENCE_SECONDS
    while time.time() < deadline:
        job = world.client.job(ELASTIC).detail
        done = int(job.work.get("done") or 0)
        if not samples or done > samples[-1][1]:
            samples.append((time.time(), done, job.metrics.get("loss")))
        for name in [name for name, (_, after) in waiting.items() if done >= after]:
            world.submit(name, waiting.pop(name)[0], "1")
        if job.line.ended_at:
            break
        time.sleep(POLL_SECONDS)
    return _told({name: world.client.job(name) for name in (ELASTIC, *GUESTS)}, samples)


def _told(jobs: dict[str, JobPicture], samples: list[Sample]) -> Told:
    """Times in seconds since the first submission."""
    begun = min(at for job in jobs.values() for at, *_ in _events(job))
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": _commit(),
        "command": "python -m tools.live_resize record",
        "slots": SLOTS,
        "asked": {name: job.detail.line.asked_gpus for name, job in jobs.items()},
        "events": {name: _since(begun, job) for name, job in jobs.items()},
        "steps": [[round(at - begun, 2), done, loss] for at, done, loss in samples],
    }


def _since(begun: float, job: JobPicture) -> list[tuple[float, str, list[int]]]:
    return [(round(at - begun, 2), reason, slots) for at, reason, slots in _events(job)]


def _events(job: JobPicture) -> list[tuple[float, str, list[int]]]:
    """When, what, and the slots that were told, the oldest first."""
    return sorted(
        (event.at.timestamp(), event.reason, _slots(event.message))
        for event in job.events
        if event.at is not None
    )


def _slots(message: str) -> list[int]:
    """`on 2 slots: 0, 1`."""
    _, _, listed = message.partition("slots: ")
    return [int(one) for one in listed.split(", ")] if listed else []


def _commit() -> str:
    words = ["git", "rev-parse", "--short", "HEAD"]
    found = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    return found.stdout.strip()


if __name__ == "__main__":
    main()
