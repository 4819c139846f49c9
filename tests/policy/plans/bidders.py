"""Bids for tests of choices."""

from weft.model.plan import ExecutionPlan
from weft.policy.plans.bids import Bid, Option
from weft.policy.plans.market import Market


def option(gpus: int, speed: float, *, as_asked: bool = False) -> Option:
    return Option(gpus, 4.0, ExecutionPlan(data=gpus), speed, as_asked)


def bid(slot: int, *speeds: tuple[int, float], held: int = 0, **known: object) -> Bid:
    """Of (GPUs, speed) pairs; `held` are the GPUs of the one that it runs as."""
    options = tuple(option(gpus, speed) for gpus, speed in speeds)
    runs = next((one for one in options if one.gpus == held), None)
    about: dict[str, object] = {"asked_speed": options[0].speed, "work_done": 0.0, "seq": slot}
    return Bid(slot=slot, options=options, held=runs, **about | known)  # type: ignore[arg-type]


def market(gpus: int, *, allowance: float = 1e9, restart: float = 60.0, **more: object) -> Market:
    about: dict[str, object] = {"restart_seconds": restart, "allowance": allowance}
    return Market(gpus=gpus, **about | more)  # type: ignore[arg-type]
