"""How a training process finds its agent: by a few variables in its environment.

Where there is no socket named there is no world, and the script runs as plain PyTorch.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from weft.agent.plan import REPLICATED, Plan, parse_plan
from weft.agent.workers import stacks
from weft.model.errors import SpecError
from weft.train.membership.heads import Heads

LOCALHOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Contact:
    """The agent, and who this worker is to it."""

    socket: str
    job: str
    incarnation: int
    worker: int
    key: str
    slots: Path
    host: str = LOCALHOST
    plan: Plan = REPLICATED
    writer: bool = False  # whether the agent of this machine writes to the common vault
    heads: Heads | None = None

    @property
    def shard(self) -> int:
        """Workers that hold one model together."""
        return self.plan.unit

    @property
    def address(self) -> str:
        """Where the agent that leads is now."""
        return self.heads.address if self.heads else self.socket


def find_contact(variables: Mapping[str, str] = os.environ) -> Contact | None:
    """The agent that started this process, if one did."""
    socket = variables.get("WEFT_SOCKET")
    if not socket:
        return None
    if gpus := variables.get("WEFT_GPUS"):
        raise _one_for_a_node(int(gpus))
    stacks.listen()
    file = variables.get("WEFT_HEAD_FILE")
    return Contact(
        socket=socket,
        job=variables["WEFT_JOB"],
        incarnation=int(variables["WEFT_INCARNATION"]),
        worker=int(variables["WEFT_WORKER"]),
        key=Path(variables["WEFT_KEY_FILE"]).read_text(),
        slots=Path(variables["WEFT_SLOTS"]),
        host=variables.get("WEFT_HOST", LOCALHOST),
        plan=_plan(variables),
        heads=_heads(Path(file), socket) if file else None,
        writer=variables.get("WEFT_WRITER") == "1",
    )


def _one_for_a_node(gpus: int) -> SpecError:
    """It would train on one GPU, and the others would be idle without a word."""
    several = f"{gpus} GPU{'' if gpus == 1 else 's'} of its node"
    return SpecError(
        f"this process has the {several}, and weft.prepare needs a process for each GPU",
        hint="add nproc_per_node: gpu to the job file (weft run --nproc-per-node gpu), and start "
        "the script by python instead of torchrun",
    )


def _plan(variables: Mapping[str, str]) -> Plan:
    """The one that it was started for; an older agent knows of shards alone."""
    told = variables.get("WEFT_PLAN")
    return parse_plan(told) if told else Plan(shard=int(variables.get("WEFT_SHARD", "1")))


def _heads(file: Path, socket: str) -> Heads:
    """As the file says; the variable may be older, where the head has moved meanwhile."""
    heads = Heads(file, socket)
    heads.look()
    return heads
