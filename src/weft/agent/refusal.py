"""What speaks against an order, if anything does: said at once, and nothing is begun."""

from typing import TYPE_CHECKING

from weft.agent.messages import Resize
from weft.agent.plan import Plan, parse_plan
from weft.agent.workers import cpus
from weft.model.errors import SpecError

if TYPE_CHECKING:
    from weft.agent.agent import Agent


def why_not(agent: "Agent", order: Resize) -> str:
    """Why a job cannot be made as wide as that, or hold its model so."""
    try:
        plan = parse_plan(order.plan) if order.plan else agent.coordinator.plans.wanted
        cpus.usable(order.cpus)
    except SpecError as error:
        return str(error)
    if order.width <= 0 or order.width % plan.unit:
        return f"cannot train on {order.width} workers"
    if agent.once_per_seat:
        return "a command that has all GPUs of a node is started anew, not resized"
    room = len(set(order.devices)) if order.devices else agent.places.room
    if room is not None and order.width > room:
        return f"{order.width} workers do not fit on {room} devices"
    return why_not_so(agent, plan) if order.plan else ""


def why_not_so(agent: "Agent", plan: Plan) -> str:
    """A program is only asked for what it has told that it can be run as.

    Pods hand on the state by a folder that all of them reach.
    """
    mind = agent.coordinator
    if not mind.elastic:
        return "a script that does not speak to Weft keeps its plan until it is started anew"
    lacking = plan.needs - set(mind.offers)
    if mind.offers and lacking:
        return f"the program offers no {', '.join(sorted(lacking))}"
    if len(agent.places.seats) > 1 and agent.settings.shared_vault is None:
        return "its pods share no folder for checkpoints, by which they could hand on the state"
    return ""
