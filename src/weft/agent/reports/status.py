"""How a job stands, as JSON: for drivers, and for the world that the agent works for."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from weft.agent.coordination.coordinator import Coordinator
from weft.agent.coordination.worker import Worker
from weft.agent.messages import FRESH

if TYPE_CHECKING:
    from weft.agent.agent import Agent


def of(agent: "Agent") -> dict[str, Any]:
    """All that an agent knows of its job.

    `step` is the last one that was committed, counted from 0, and `saved_step` the last one of
    which there is a checkpoint; -1 where there is none. `live` is whether the workers can be
    resized while they train: null as long as none has spoken, since a plain script never does.
    `speed` is the newest measurement of it at one width, `profile` what one of its steps did while
    it had its GPUs to itself, `profile_in_turns` the same in company, and `paused_seconds` how long
    training stood still for the last order to resize; null before there is one. `unreached` is the
    width that was ordered last, with the reason, if the job has stayed as it was instead.
    """
    mind = agent.coordinator
    pulse = agent.progress.latest.get(mind.members[0]) if mind.members else None
    progress = agent.progress
    speed, profile, in_turns = progress.speed.newest, progress.profile, progress.profile_in_turns
    return {
        "job": agent.settings.job,
        "incarnation": agent.settings.incarnation,
        "phase": mind.phase.value,
        "epoch": mind.epoch,
        "live": True if mind.elastic else None,
        "draining": mind.draining,
        "width": len(mind.members),
        "target": mind.width,
        "unreached": asdict(mind.unreached) if mind.unreached else None,
        "members": list(mind.members),
        "plan": str(mind.plans.plan),
        "target_plan": str(mind.plans.wanted),
        "offers": list(mind.offers),
        "switches": mind.plans.done,
        "switch_seconds": mind.plans.paused_seconds,
        "step": newest_step(mind),
        "total": pulse.total if pulse else None,
        "loss": pulse.metrics.get("loss") if pulse else None,
        "metrics": dict(pulse.metrics) if pulse else {},
        "speed": speed.as_json() if speed else None,
        "profile": profile.as_json() if profile else None,
        "profile_in_turns": in_turns.as_json() if in_turns else None,
        "resizes": mind.resizes,
        "paused_seconds": mind.paused_seconds,
        "restarts": mind.restarts,
        "saved_step": agent.writer.durable_step,
        "save_every_seconds": agent.save_every_seconds() or None,
        "company": _company(agent),
        "workers": {str(w.number): _worker(agent, w) for w in mind.workers.values()},
    }


def _company(agent: "Agent") -> dict[str, Any] | None:
    """Where it meets the jobs on its GPUs, if there are any, and how often they had to pass it."""
    company = agent.leases.company
    if company is None:
        return None
    return {
        "folder": str(company.folder),
        "gpus": list(company.gpus),
        "breaches": agent.progress.breaches,
    }


def newest_step(mind: Coordinator) -> int:
    return max((worker.step for worker in mind.workers.values()), default=FRESH)


def _worker(agent: "Agent", worker: Worker) -> dict[str, Any]:
    place = agent.places.of(worker.number)
    return {
        "state": worker.state.value,
        "pid": agent.crew.pids.get(worker.number),
        "rank": worker.rank,
        "seat": place.seat if place else None,
        "device": place.device if place else None,
        "cpus": list(agent.processes.bound.get(worker.number, ())),
    }
