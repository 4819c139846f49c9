"""Which world a command speaks to: this machine's, or a cluster's.

A context is `local`, `cluster` (the kubeconfig's current one), or a context of the kubeconfig by
its name, with `kube:` before it where it has the name of another. It is taken from the option, else
from WEFT_CONTEXT, else from what `weft context use` left; and where nobody has chosen, a world on
this machine is meant if one answers, else the kubeconfig's cluster.
"""

import json
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from weft.model.errors import SpecError, WorldError

LOCAL, CLUSTER, KUBE = "local", "cluster", "kube:"
SOCKET: Final = "weft.sock"
SYSTEM_SOCKET: Final = Path("/run/weft") / SOCKET
PATIENCE_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Context:
    """A world by its name, and who chose it."""

    name: str
    chosen_by: str = ""

    @property
    def local(self) -> bool:
        return self.name == LOCAL

    @property
    def kube_context(self) -> str | None:
        """The kubeconfig's context; None for its current one."""
        return None if self.name == CLUSTER else self.name.removeprefix(KUBE)


@dataclass(frozen=True, slots=True)
class Settings:
    """What `weft context use` left."""

    current: str | None = None
    socket: str | None = None


def chosen(option: str | None = None, *, kubeconfig: str | None = None) -> Context:
    """The world that is meant."""
    if option:
        return Context(option, "--context")
    if kubeconfig:
        return Context(CLUSTER, "--kubeconfig")
    if named := os.environ.get("WEFT_CONTEXT"):
        return Context(named, "WEFT_CONTEXT")
    if named := read_settings().current:
        return Context(named, "weft context use")
    if answers(socket_path()):
        return Context(LOCAL, "it answers")
    if has_cluster():
        return Context(CLUSTER, "there is a kubeconfig")
    raise WorldError(
        "there is neither a world on this machine nor a kubeconfig",
        hint="weft local up starts one here; KUBECONFIG or --kubeconfig leads to a cluster",
    )


def socket_path() -> Path:
    """Where the world on this machine is heard: of several places the first that answers."""
    named = os.environ.get("WEFT_LOCAL_SOCKET") or read_settings().socket
    if named:
        return Path(named)
    places = list(dict.fromkeys((own_socket(), SYSTEM_SOCKET)))
    for found in (answers, Path.exists):
        for path in places:
            if found(path):
                return path
    return places[0]


def own_socket() -> Path:
    """Where a world that this user starts is heard."""
    if os.geteuid() == 0:
        return SYSTEM_SOCKET
    if runtime := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(runtime) / "weft" / SOCKET
    return own_folder() / SOCKET


def own_folder() -> Path:
    """Where a world that this user starts keeps what it has to remember."""
    if named := os.environ.get("WEFT_LOCAL_FOLDER"):
        return Path(named)
    if os.geteuid() == 0:
        return Path("/var/lib/weft")
    return Path.home() / ".local" / "share" / "weft"


def answers(path: Path) -> bool:
    """Whether somebody listens there, and to us."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trial:
        trial.settimeout(PATIENCE_SECONDS)
        try:
            trial.connect(str(path))
        except OSError:
            return False
    return True


def has_cluster() -> bool:
    """Whether anything leads to one: a kubeconfig, or the account of the pod that we are in."""
    return any(path.exists() for path in kubeconfigs()) or "KUBERNETES_SERVICE_HOST" in os.environ


def kubeconfigs() -> Iterator[Path]:
    named = os.environ.get("KUBECONFIG")
    if not named:
        yield Path.home() / ".kube" / "config"
        return
    yield from (Path(part).expanduser() for part in named.split(os.pathsep) if part)


def settings_path() -> Path:
    home = os.environ.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "weft" / "context.json"


def read_settings() -> Settings:
    """What was left; nothing where there is no file."""
    path = settings_path()
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        return Settings(told.get("current"), told.get("socket"))
    except FileNotFoundError:
        return Settings()
    except (OSError, ValueError, AttributeError) as error:
        raise SpecError(
            f"{path} cannot be read: {error}", hint="remove it; weft context use writes it again"
        ) from error


def write_settings(settings: Settings) -> None:
    """Kept for later commands; a reader sees all of it or what was there before."""
    path = settings_path()
    told = {"current": settings.current, "socket": settings.socket}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f"{path.name}.{os.getpid()}")
        fresh.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
        fresh.replace(path)
    except OSError as error:
        raise SpecError(
            f"{path} cannot be written: {error.strerror}", hint="set WEFT_CONTEXT instead"
        ) from error
