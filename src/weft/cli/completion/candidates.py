"""Names that a shell may offer, from wherever they are known: the present world, the code, a file.

A world is asked in a thread that nobody waits for longer than `PATIENCE_SECONDS`: a daemon that
hangs or a cluster far away costs a short pause, and offers nothing.
"""

import threading
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from weft.cli.worlds.world import World

PATIENCE_SECONDS: Final = 1.5
MOST_JOBS: Final = 1_000
Completer = Callable[[click.Context, click.Parameter, str], "list[str] | list[CompletionItem]"]


def jobs_in(*states: str) -> Completer:
    """Jobs of the present world that are in one of these states; in any, if none is given."""

    def complete(context: click.Context, _: click.Parameter, typed: str) -> list[str]:
        if context.params.get("folder"):  # a recorded run
            return []
        owner, slash, _name = typed.rpartition("/")

        async def names(world: "World") -> list[str]:
            from weft.api.backend import Selection

            wanted = Selection(owner or world.namespace, frozenset(states), most=MOST_JOBS)
            page = await world.jobs(wanted)
            return [f"{owner}{slash}{line.name}" for line in page.jobs]

        return _beginning(typed, _asked(context, names), but=context.params.get("jobs"))

    return complete


def queues(context: click.Context, _: click.Parameter, typed: str) -> list[str]:
    async def names(world: "World") -> list[str]:
        return [line.name for line in await world.queues() if " " not in line.name]

    return _beginning(typed, _asked(context, names))


def recipes(_context: click.Context, _: click.Parameter, typed: str) -> "list[CompletionItem]":
    """Those that come with Weft, also behind a comma; one's own is completed as a file."""
    from click.shell_completion import CompletionItem

    from weft.policy.recipes import RECIPES

    if "/" in typed or typed.startswith("."):
        return [CompletionItem(typed, type="file")]
    before, comma, last = typed.rpartition(",")
    found = [name for name in RECIPES if name.startswith(last)]
    return [CompletionItem(f"{before}{comma}{name}") for name in found]


def contexts(_context: click.Context, _: click.Parameter, typed: str) -> list[str]:
    from weft.cli.context.group import choices_for

    with suppress(Exception):  # a kubeconfig that cannot be read offers nothing
        return _beginning(typed, [choice.name for choice in choices_for(None)])
    return []


def fields(_context: click.Context, _: click.Parameter, typed: str) -> list[str]:
    """Of a job file."""
    from weft.spec.fields import every_field
    from weft.spec.job_file import JobFile

    return _beginning(typed, [path for path, _info in every_field(JobFile)])


def files(_context: click.Context, _: click.Parameter, typed: str) -> "list[CompletionItem]":
    from click.shell_completion import CompletionItem

    return [CompletionItem(typed, type="file")]


def _beginning(typed: str, names: Iterable[str], *, but: Iterable[str] | None = None) -> list[str]:
    left_out = set(but or ())
    return [name for name in names if name.startswith(typed) and name not in left_out]


def _asked(
    context: click.Context, question: "Callable[[World], Awaitable[list[str]]]"
) -> list[str]:
    """What the world answers in time; nothing where there is none."""
    found: list[str] = []

    def ask() -> None:
        from weft.cli.worlds.place import Place

        given: dict[str, Any] = {
            name: context.params.get(name) for name in ("namespace", "context", "kubeconfig")
        }
        with suppress(BaseException):
            found.extend(Place(**given).run(question, quiet=True))

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(PATIENCE_SECONDS)
    return list(found)
