"""`weft context`: which worlds there are, and which one commands speak to."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from weft.cli.entry import Entry
from weft.cli.lazy import LazyGroup
from weft.cli.options import output_option
from weft.cli.terminal.grid import Grid
from weft.cli.terminal.screen import print_json, say
from weft.cli.worlds.contexts import (
    CLUSTER,
    KUBE,
    LOCAL,
    Context,
    answers,
    chosen,
    has_cluster,
    kubeconfigs,
    socket_path,
)
from weft.model.errors import WorldError

SCHEMA = "weft-contexts/1"
COMMANDS = {
    "use": Entry("weft.cli.context.use:use", "Speak to this world from now on."),
}


@dataclass(frozen=True, slots=True)
class Choice:
    """A world that can be named. `found` is None where that is not known before it is asked."""

    name: str
    where: str
    found: bool | None
    current: bool


@click.group(cls=LazyGroup, entries=COMMANDS, invoke_without_command=True)
@output_option()
@click.pass_context
def context(ctx: click.Context, *, output: str) -> None:
    """List the worlds that commands can speak to; the present one has a star.

    It is chosen by --context, else by WEFT_CONTEXT, else by what weft context use left. Where
    nobody has chosen it is the world of this machine if one answers, else the cluster of the
    kubeconfig. A context is local, cluster (the kubeconfig's current one), or the name of one of
    the kubeconfig's contexts, with kube: before it where it is itself called local or cluster.
    """
    if ctx.invoked_subcommand is not None:
        return
    present = _present()
    choices = choices_for(present)
    if output == "json":
        print_json(as_dict(choices, present))
        return
    grid_of(choices).print()
    if present is None:
        say("none of them is there; weft local up starts a world here")
    else:
        say(f"{present.name}: {present.chosen_by}")


def choices_for(present: Context | None) -> list[Choice]:
    """The machine's own world, and what the kubeconfig names."""
    socket = socket_path()
    kube, current = kube_contexts()
    current_one = f"the kubeconfig's {current}" if current else "the kubeconfig's current context"
    choices = [
        Choice(LOCAL, str(socket), answers(socket), _is(present, LOCAL)),
        Choice(CLUSTER, current_one, has_cluster(), _is(present, CLUSTER)),
    ]
    named = [
        Choice(name, "a context of the kubeconfig", None, _is(present, name))
        for name in (f"{KUBE}{each}" if each in (LOCAL, CLUSTER) else each for each in kube)
    ]
    known = {choice.name for choice in (*choices, *named)}
    if present is not None and present.name.removeprefix(KUBE) not in known | {LOCAL, CLUSTER}:
        named.append(Choice(present.name, "not in the kubeconfig", False, True))
    return [*choices, *named]


def kube_contexts() -> tuple[list[str], str]:
    """The names that stand in the kubeconfig, and its current one."""
    names: dict[str, None] = {}
    current = ""
    for path in kubeconfigs():
        told = _read_yaml(path)
        current = current or str(told.get("current-context") or "")
        listed = told.get("contexts")
        for each in listed if isinstance(listed, list) else ():
            if isinstance(each, dict) and each.get("name"):
                names[str(each["name"])] = None
    return list(names), current


def grid_of(choices: Sequence[Choice]) -> Grid:
    grid = Grid(("", "context", "where", "there"), state="there")
    for choice in choices:
        there = "" if choice.found is None else "yes" if choice.found else "no"
        grid.add("*" if choice.current else " ", choice.name, choice.where, there)
    return grid


def as_dict(choices: Sequence[Choice], present: Context | None) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "current": None if present is None else present.name,
        "chosen_by": None if present is None else present.chosen_by,
        "contexts": choices,
    }


def _present() -> Context | None:
    try:
        return chosen()
    except WorldError:
        return None


def _is(present: Context | None, name: str) -> bool:
    """`kube:` before a name that needs none means the same."""
    if present is None:
        return False
    alias = f"{KUBE}{name}" if name not in (LOCAL, CLUSTER) else name
    return present.name in (name, alias)


def _read_yaml(path: Path) -> dict[str, Any]:
    """What stands there; nothing where it cannot be read: whoever needs it will say so."""
    import yaml

    try:
        told = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return {}
    return told if isinstance(told, dict) else {}
