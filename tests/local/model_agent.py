"""A model of an agent: a real process with the real door, whose workers are sleeping children.

It stands where the agent stands, so the daemon starts it, speaks with it and ends it in the same
way, but a step costs a moment instead of a training step. What the job does is its command:

    /bin/sh -c "model total=40 step=0.05 join=0.2 live fail=12"

A step is committed every `step` seconds divided by the width, to the power of `scale` where that is
given; a live job says how fast that is. Growing takes `join` seconds. The step is saved at a
drain, and every `save` steps, in the folder for checkpoints, where the next incarnation goes on
from it; a file `enough` there ends it early. `fail` ends it there with code 3, once; `deaf` never
drains; `stay` never grows. With `storage`, `cpu`, `gpu` or `network`, seconds of a step, it tells
what its steps do. In company it says that it is `slowed` so many times, and where it would meet
others. With `offers` it says that its program can be run replicated and split by tensors.
"""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from weft.agent.messages import Accompany, Answer, Drain, Kill, Message, Resize, Status
from weft.agent.outcome import DRAINED, Ending, Outcome
from weft.agent.run_folder import RunFolder
from weft.agent.wire.control_store import ControlStore
from weft.agent.wire.server import Server

TICK_SECONDS = 0.01
FAILED = 3


def main() -> None:
    """As `weft.agent.__main__` is called."""
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=["run"])
    for name in ("job", "folder", "checkpoints"):
        parser.add_argument(f"--{name}")
    for name in ("workers", "incarnation"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--save-advice")
    for name in ("every", "grace"):
        parser.add_argument(f"--{name}", type=float)
    for name in ("devices", "cpus", "company", "nproc-per-node"):
        parser.add_argument(f"--{name}", default="")
    cut = sys.argv.index("--")
    given = parser.parse_args(sys.argv[1:cut])
    sys.exit(asyncio.run(ModelAgent(given, sys.argv[cut + 1 :]).run()))


class ModelAgent:
    """One job; listens at the door as an agent does."""

    def __init__(self, given: argparse.Namespace, command: list[str]) -> None:
        self.given = given
        words = command[-1].split()
        self.knobs = {key: float(value or 1) for key, _, value in (w.partition("=") for w in words)}
        self.run_folder = RunFolder(Path(given.folder))
        self.server = Server(
            given.job, given.incarnation, self.run_folder.token, ControlStore(), self
        )
        self.checkpoint = Path(given.checkpoints) / "step.json"
        self.target = self.width = given.workers
        self.devices = [int(number) for number in given.devices.split(",") if number]
        self.workers: dict[int, tuple[subprocess.Popen[bytes], int | None]] = {}
        self.step = self.saved_step = -1
        self.total = int(self.knobs.get("total", 10))
        self.draining = False
        self.changes_at = float("inf")
        self.switched_at, self.steps_since = time.monotonic(), 0
        self.speed: dict[str, Any] | None = None
        self.paused_seconds: float | None = None
        self.company = given.company.partition(":")[0]
        self.history: list[str] = []

    async def run(self) -> int:
        self.run_folder.open(self.given.job, self.given.incarnation)
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self.drain)
        await self.server.open(self.run_folder.socket)
        self.resume()
        self.staff()
        outcome, code, why = await self.train()
        for process, _ in self.workers.values():
            process.kill()
            process.wait()
        await self.server.close()
        self.run_folder.close(Ending(outcome, code, why, self.step, self.saved_step, time.time()))
        return code

    async def train(self) -> tuple[Outcome, int, str]:
        began, progress = time.monotonic(), 0.0
        while self.step + 1 < self.total and not self.is_enough():
            await asyncio.sleep(TICK_SECONDS)
            now = time.monotonic()
            speedup = self.width ** self.knobs.get("scale", 1.0)
            progress += (now - began) * speedup / self.knobs.get("step", 0.05)
            began = now
            if now >= self.changes_at:
                self.switch()
            if progress >= 1.0:
                progress -= 1.0
                self.commit()
            if self.must_fail():
                return Outcome.USER_ERROR, FAILED, "as it was told"
            if self.draining and "deaf" not in self.knobs:
                self.save()
                return Outcome.DRAINED, DRAINED, "drained"
        self.save()
        return Outcome.FINISHED, 0, "all steps are done"

    def is_enough(self) -> bool:
        return self.checkpoint.with_name("enough").exists()

    def commit(self) -> None:
        self.step += 1
        self.steps_since += 1
        self.measure()
        print(f"step {self.step} of {self.total} on {self.width}", flush=True)  # noqa: T201
        with (self.run_folder.logs / "worker-0.log").open("a") as log:
            log.write(f"step {self.step} incarnation {self.given.incarnation}\n")
        if "save" in self.knobs and self.step % int(self.knobs["save"]) == 0:
            self.save()

    def measure(self) -> None:
        """Every second, as fast as it is at the width of now when nobody takes its time away."""
        seconds = time.monotonic() - self.switched_at
        if "live" not in self.knobs or seconds < 1.0 or self.steps_since < 5:
            return
        number = self.speed["number"] + 1 if self.speed else 1
        rate = self.width ** self.knobs.get("scale", 1.0) / self.knobs.get("step", 0.05)
        rate /= self.knobs.get("slowed", 1.0) if self.company else 1.0
        told = {"number": number, "width": self.width, "steps_per_second": rate}
        self.speed = {**told, "seconds": seconds, "shared": bool(self.company)}
        self.switched_at, self.steps_since = time.monotonic(), 0

    def must_fail(self) -> bool:
        if self.step < self.knobs.get("fail", float("inf")):
            return False
        mark = self.checkpoint.with_name("failed")
        if mark.exists():
            return False
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()
        return True

    # --- widths ---------------------------------------------------------------------------------

    def resize(self, width: int, devices: tuple[int, ...]) -> None:
        self.paused_seconds = None
        self.target = self.width if width > self.width and "stay" in self.knobs else width
        self.devices = list(devices) or self.devices
        grows = self.target > self.width
        self.changes_at = time.monotonic() + (self.knobs.get("join", 0.1) if grows else 0.0)

    def switch(self) -> None:
        """All at once: who is not wanted goes, who is missing comes."""
        self.changes_at = float("inf")
        self.width = self.target
        self.paused_seconds = 0.0
        self.switched_at, self.steps_since = time.monotonic(), 0
        leaving = [
            n for n, (_, d) in self.workers.items() if self.devices and d not in self.devices
        ]
        leaving += list(self.workers)[self.width :] if not leaving else []
        for number in leaving:
            process, _ = self.workers.pop(number)
            process.kill()
            process.wait()
        self.staff()

    def staff(self) -> None:
        """A sleeping child for each worker, on the lowest device that nobody has."""
        while len(self.workers) < self.width:
            number = max(self.workers, default=-1) + 1
            taken = {device for _, device in self.workers.values()}
            device = next((d for d in sorted(self.devices) if d not in taken), None)
            environment = {**os.environ, "WEFT_WORKER": str(number)}
            process = subprocess.Popen(["sleep", "1000"], env=environment, start_new_session=True)
            self.workers[number] = process, device

    # --- what is kept ---------------------------------------------------------------------------

    def resume(self) -> None:
        if self.checkpoint.exists():
            self.step = self.saved_step = json.loads(self.checkpoint.read_text())["step"]

    def save(self) -> None:
        self.checkpoint.parent.mkdir(parents=True, exist_ok=True)
        new = self.checkpoint.with_suffix(".new")
        new.write_text(json.dumps({"step": self.step}))
        new.replace(self.checkpoint)
        self.saved_step = self.step

    # --- at the door ----------------------------------------------------------------------------

    def drain(self) -> None:
        self.draining = True

    def driver_asked(self, message: Message) -> Answer:
        match message:
            case Resize(width, devices, _) if "live" in self.knobs:
                self.resize(width, devices)
            case Drain() if self.draining:
                os._exit(1)  # a second order to leave is one to leave at once
            case Drain():
                self.drain()
            case Accompany(folder, _):
                self.company = folder
            case Kill():
                pass
            case Status():
                pass
            case _:
                return Answer(ok=False, body={"why": f"cannot do {message}"})
        return Answer(ok=True, body=self.status())

    def status(self) -> dict[str, Any]:
        return {
            "job": self.given.job,
            "incarnation": self.given.incarnation,
            "phase": "steady",
            "epoch": 1,
            "live": True if "live" in self.knobs else None,
            "draining": self.draining,
            "save_every_seconds": None,
            "company": {"folder": self.company} if self.company else None,
            "profile": self.profile(),
            "profile_in_turns": None,
            "width": self.width if "live" in self.knobs else 0,
            "target": self.target,
            "unreached": None,
            "members": list(self.workers) if "live" in self.knobs else [],
            "plan": "",
            "target_plan": "",
            "offers": ["data", "tensor"] if "offers" in self.knobs else [],
            "switches": 0,
            "switch_seconds": 0.0,
            "step": self.step,
            "total": self.total,
            "loss": 1.0 / (self.step + 2),
            "metrics": {"loss": 1.0 / (self.step + 2)},
            "speed": self.speed,
            "resizes": 0,
            "paused_seconds": self.paused_seconds,
            "restarts": 0,
            "saved_step": self.saved_step,
            "workers": {
                str(number): {
                    "state": "active",
                    "pid": process.pid,
                    "rank": rank,
                    "seat": 0,
                    "device": device,
                    "cpus": [],
                }
                for rank, (number, (process, device)) in enumerate(self.workers.items())
            },
        }

    def profile(self) -> dict[str, Any] | None:
        stages = {name: self.knobs.get(name, 0.0) for name in ("storage", "cpu", "gpu", "network")}
        if not any(stages.values()):
            return None
        told = {f"{name}_seconds": seconds for name, seconds in stages.items()}
        return {"width": self.width, "step_seconds": self.knobs.get("step", 0.05), **told}

    def worker_said(self, worker: int, message: Message) -> None: ...
    def worker_silent(self, worker: int) -> None: ...
    def follower_said(self, seat: int, message: Message) -> None: ...
    def follower_silent(self, seat: int) -> None: ...


if __name__ == "__main__":
    main()
