"""What is seen of an agent: whether it lives, how it says that its job stands, how it ended.

An agent runs under the account of the job's owner, who may have put anything in its place. Whatever
it says is therefore taken as a claim about its own job and nothing else, and read with care.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from weft.agent.outcome import INFRASTRUCTURE, Outcome
from weft.agent.plan import parse_plan
from weft.agent.reports.profile import RESOURCES, Profile
from weft.agent.reports.speed import Measured
from weft.failure.diagnosis import Diagnosis
from weft.local.reconcile.plans import same
from weft.local.record.entry import NO_PROGRESS, Progress
from weft.model.capability import Capability, capabilities
from weft.model.errors import SpecError

EXITED: Final = "exited"
NUMBER: Final = re.compile(r"[0-9]{1,9}")
MOST_METRICS: Final = 32
MOST_WORKERS: Final = 10_000
MOST_WORDS: Final = 500
MOST_AMOUNT: Final = 1e18


class Presence(Enum):
    """Whether there is an agent of the incarnation on record."""

    NONE = "never started"
    ALIVE = "alive"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class ObservedWorker:
    """One training process."""

    number: int
    state: str
    rank: int | None = None
    device: int | None = None
    pid: int | None = None

    @property
    def gone(self) -> bool:
        return self.state == EXITED


@dataclass(frozen=True, slots=True)
class Status:
    """How an agent says that its job stands; `paused_seconds` is what the last resize cost, and
    `switch_seconds` the last change of its plan. `offers` is as what its program can be run.

    `company` is the folder where it meets those on its slots, empty where it is alone there, and
    None where the agent knows nothing of company.
    """

    width: int
    target: int
    live: bool | None = None
    draining: bool = False
    devices: tuple[int, ...] | None = None
    progress: Progress = NO_PROGRESS
    workers: tuple[ObservedWorker, ...] = ()
    speed: Measured | None = None
    profile: Profile | None = None
    profile_in_turns: Profile | None = None
    company: str | None = None
    paused_seconds: float | None = None
    plan: str = ""
    target_plan: str = ""
    offers: tuple[Capability, ...] = ()
    switch_seconds: float | None = None

    @property
    def plan_settled(self) -> bool:
        """Whether its agent is on no way to another plan."""
        return same(self.plan, self.target_plan)

    @property
    def settled(self) -> bool:
        """Whether as many train as should, and nobody else is left."""
        there = sum(not worker.gone for worker in self.workers)
        return self.width == self.target == there

    @property
    def devices_in_use(self) -> frozenset[int]:
        found = (worker.device for worker in self.workers if not worker.gone)
        return frozenset(device for device in found if device is not None)


@dataclass(frozen=True, slots=True)
class LastWords:
    """How an agent said that it ended; without any it was killed."""

    outcome: Outcome
    exit_code: int
    why: str
    step: int | None = None
    saved_step: int | None = None
    retryable: bool = True


KILLED: Final = LastWords(
    Outcome.INFRASTRUCTURE, INFRASTRUCTURE, "its agent was killed or the machine went down"
)


@dataclass(frozen=True, slots=True)
class ObservedAgent:
    """One look at the agent of an incarnation.

    `silent_seconds` have passed since it answered last, or was started. `swept` says that nothing
    of an incarnation that has ended is left; `diagnosis` why it failed, if it did, and
    `ran_seconds` how long it lasted; `fault` why one could not be started.
    """

    presence: Presence = Presence.NONE
    status: Status | None = None
    words: LastWords | None = None
    silent_seconds: float = 0.0
    swept: bool = False
    diagnosis: Diagnosis | None = None
    ran_seconds: float = 0.0
    fault: str = ""

    @property
    def alive(self) -> bool:
        return self.presence is Presence.ALIVE

    @property
    def ended(self) -> bool:
        return self.presence is Presence.ENDED


def read_status(body: Mapping[str, Any]) -> Status:
    """What an agent answered, as far as it makes sense."""
    workers = body.get("workers")
    shown = list(workers.items())[:MOST_WORKERS] if isinstance(workers, dict) else []
    live = body.get("live")
    devices = body.get("devices")
    return Status(
        width=_count(body.get("width")) or 0,
        target=_count(body.get("target")) or 0,
        live=live if isinstance(live, bool) else None,
        draining=body.get("draining") is True,
        devices=_numbers(devices) if isinstance(devices, list) else None,
        progress=Progress(
            step=_count(body.get("step")),
            total=_count(body.get("total")),
            saved_step=_count(body.get("saved_step")),
            live=live if isinstance(live, bool) else None,
            metrics=_figures(body.get("metrics")),
            save_every_seconds=_amount(body.get("save_every_seconds")),
        ),
        workers=tuple(_worker(number, facts) for number, facts in shown if isinstance(facts, dict)),
        speed=_speed(body.get("speed")),
        profile=_profile(body.get("profile")),
        profile_in_turns=_profile(body.get("profile_in_turns")),
        company=_company(body),
        paused_seconds=_amount(body.get("paused_seconds")),
        plan=_plan(body.get("plan")),
        target_plan=_plan(body.get("target_plan")),
        offers=_offers(body.get("offers")),
        switch_seconds=_amount(body.get("switch_seconds")),
    )


def read_last_words(raw: bytes) -> LastWords:
    """What an agent left behind; nothing that makes sense means that it was killed."""
    try:
        said = json.loads(raw)
        outcome = Outcome(said["outcome"])
        code = _whole(said["exit_code"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return KILLED
    return LastWords(
        outcome,
        INFRASTRUCTURE if code is None else code,
        str(said.get("why", ""))[:MOST_WORDS],
        _count(said.get("step")),
        _count(said.get("saved_step")),
        said.get("retryable") is not False,
    )


def _worker(number: str, facts: Mapping[str, Any]) -> ObservedWorker:
    return ObservedWorker(
        int(number) if NUMBER.fullmatch(number) else -1,
        str(facts.get("state", ""))[:20],
        _count(facts.get("rank")),
        _count(facts.get("device")),
        _count(facts.get("pid")),
    )


def _speed(value: object) -> Measured | None:
    """A measurement, if all of it makes sense."""
    if not isinstance(value, dict):
        return None
    number, width = _count(value.get("number")), _count(value.get("width"))
    rate, seconds = _amount(value.get("steps_per_second")), _amount(value.get("seconds"))
    if not number or not width or not rate or not seconds:
        return None
    return Measured(number, width, rate, seconds, value.get("shared") is True)


def _profile(value: object) -> Profile | None:
    """What one step does, if all of it makes sense."""
    if not isinstance(value, dict):
        return None
    width, step = _count(value.get("width")), _amount(value.get("step_seconds"))
    storage, cpu, gpu, network = (_amount(value.get(f"{name}_seconds")) for name in RESOURCES)
    if storage is None or cpu is None or gpu is None or network is None or not width or not step:
        return None
    return Profile(width, step, storage, cpu, gpu, network, _count(value.get("peak_bytes")))


def _company(body: Mapping[str, Any]) -> str | None:
    if "company" not in body:
        return None
    told = body["company"]
    return str(told.get("folder", ""))[:MOST_WORDS] if isinstance(told, dict) else ""


def _amount(value: object) -> float | None:
    """Of something that cannot be negative."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0.0 <= value <= MOST_AMOUNT else None


def _count(value: object) -> int | None:
    """A number of something; -1 and its like mean that there is none yet."""
    found = _whole(value)
    return None if found is None or not 0 <= found < 1 << 53 else found


def _whole(value: object) -> int | None:
    return value if type(value) is int else None


def _numbers(values: list[object]) -> tuple[int, ...]:
    return tuple(value for value in values[:MOST_WORKERS] if type(value) is int)


def _figures(value: object) -> dict[str, float]:
    if not isinstance(value, dict):
        return {}
    return {
        str(name)[:64]: figure
        for name, figure in list(value.items())[:MOST_METRICS]
        if type(figure) is float and math.isfinite(figure)
    }


def _offers(told: object) -> tuple[Capability, ...]:
    return capabilities(told[:MOST_METRICS]) if isinstance(told, list) else ()


def _plan(told: object) -> str:
    """A text that is a plan; an agent that tells none has none."""
    try:
        return str(parse_plan(told)) if isinstance(told, str) else ""
    except SpecError:
        return ""
