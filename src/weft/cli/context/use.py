"""`weft context use`: the world for all commands that name none."""

from pathlib import Path

import click

from weft.cli.completion.candidates import contexts
from weft.cli.terminal.screen import say
from weft.cli.worlds.contexts import (
    CLUSTER,
    KUBE,
    LOCAL,
    Settings,
    answers,
    own_socket,
    read_settings,
    settings_path,
    write_settings,
)
from weft.model.errors import SpecError


@click.command()
@click.argument("name", required=False, shell_complete=contexts)
@click.option(
    "--socket",
    type=click.Path(path_type=Path),
    help="With local: where it is heard.  [default: looked for]",
)
@click.option("--none", "forget", is_flag=True, help="Choose anew each time, as at the beginning.")
def use(*, name: str | None, socket: Path | None, forget: bool) -> None:
    """Speak to NAME from now on: local, cluster, or a context of the kubeconfig."""
    if (name is None) is not forget:
        raise click.UsageError("give either NAME or --none")
    if socket is not None and name != LOCAL:
        raise click.UsageError("--socket belongs to local")
    settings = Settings() if name is None else _settled(name, socket)
    write_settings(settings)
    click.echo(settings.current or "none")
    say(f"kept in {settings_path()}")
    if name == LOCAL and not answers(Path(settings.socket or own_socket())):
        say("note: nobody answers there yet; weft local up starts it")


def _settled(name: str, socket: Path | None) -> Settings:
    if name != LOCAL:
        _must_exist(name)
        return Settings(name, read_settings().socket)
    return Settings(name, None if socket is None else str(socket.absolute()))


def _must_exist(name: str) -> None:
    from difflib import get_close_matches

    from weft.cli.context.group import kube_contexts

    known, _ = kube_contexts()
    if name == CLUSTER or name.removeprefix(KUBE) in known:
        return
    near = get_close_matches(name, [LOCAL, CLUSTER, *known], n=1)
    there = f"there are {', '.join([LOCAL, CLUSTER, *known])}"
    raise SpecError(f"no context '{name}'", hint=f"did you mean {near[0]}?" if near else there)
