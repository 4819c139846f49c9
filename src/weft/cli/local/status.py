"""`weft local status`: whether the machine's own world is up, and how it is."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weft.api.client import Client, Health
from weft.cli.jobs.job_words import several
from weft.cli.options import output_option
from weft.cli.terminal.screen import fact_table, print_json, stdout
from weft.cli.worlds.contexts import socket_path

if TYPE_CHECKING:
    from weft.view.node_page import NodePage
    from weft.view.use import Use

SCHEMA = "weft-local/1"
SLOT = "slot"


@dataclass(frozen=True, slots=True)
class Standing:
    """A world that answered, and the process that keeps it."""

    socket: Path
    pid: int
    health: Health
    nodes: "NodePage"
    use: "Use"


@click.command()
@click.option(
    "--socket", type=click.Path(path_type=Path), help="Where it is heard.  [default: looked for]"
)
@output_option()
def status(*, socket: Path | None, output: str) -> None:
    """Tell whether the world on this machine is up, what it shares and how much of it is used.

    The exit status is 5 if nobody answers.
    """
    tell(standing_of(Client(socket or socket_path())), output)


def standing_of(client: Client) -> Standing:
    health = client.health()
    return Standing(client.socket, client.server().pid, health, client.nodes(), client.top())


def tell(standing: Standing, output: str) -> None:
    if output == "json":
        print_json(as_dict(standing))
    else:
        stdout().print(fact_table(facts(standing)))


def facts(standing: Standing) -> dict[str, str]:
    use, health = standing.use, standing.health
    wrong = [finding for finding in health.findings if finding.verdict != "ok"]
    found = {
        "local": f"up, pid {standing.pid}, Weft {health.version}",
        "socket": str(standing.socket),
        **{node.name: _node(node.gpus, node.gpu_type) for node in standing.nodes.nodes},
        "used": f"{use.used_gpus:,} of {use.gpus or 0:,}",
        "jobs": f"{use.running:,} running, {use.waiting:,} waiting",
    }
    if wrong:
        found["look at"] = "; ".join(f"{each.check}: {each.text}" for each in wrong)
    return found


def as_dict(standing: Standing) -> dict[str, Any]:
    use = asdict(standing.use)
    del use["jobs"]
    return {
        "schema": SCHEMA,
        "socket": str(standing.socket),
        "pid": standing.pid,
        **asdict(standing.health),
        **use,
    }


def _node(gpus: int, gpu_type: str | None) -> str:
    """Where there are no GPUs, slots stand for them, and that is their type."""
    if gpu_type in (None, SLOT):
        return several(gpus, "slot")
    return f"{several(gpus, 'GPU')} of {gpu_type}"
