"""The options that say which cluster, and the way there.

A command gets a `Place` and runs its work there: connected before, closed after. Packages that only
clusters need are loaded at that moment, and whoever lacks them is told how to get them.
"""

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import click

from weft.cli.options import bundled
from weft.model.errors import SpecError, WeftError

if TYPE_CHECKING:
    from weft.kube.client.api import Api

NAMESPACE = click.option("-n", "--namespace", help="Namespace.  [default: the kubeconfig's]")
CONTEXT = click.option("--context", help="Context of the kubeconfig.  [default: its current one]")
KUBECONFIG = click.option(
    "--kubeconfig", help="Path of the kubeconfig.  [default: $KUBECONFIG, ~/.kube/config]"
)
YES = click.option("-y", "--yes", is_flag=True, help="Do not ask.")
DRY_RUN = click.option(
    "--dry-run", is_flag=True, help="Let the server check it, and change nothing."
)
WATCH = click.option("-w", "--watch", is_flag=True, help="Stay, and draw it anew as it changes.")
ALL_NAMESPACES = click.option(
    "-A", "--all-namespaces", is_flag=True, help="All namespaces that there are."
)

EXTRA = frozenset({"aiohttp", "kubernetes_asyncio", "prometheus_client", "yarl"})
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster that is connected, and the namespace that is meant."""

    api: "Api"
    namespace: str

    def locate(self, job: str) -> tuple[str, str]:
        """Namespace and name of `name` or `namespace/name`."""
        namespace, slash, name = job.rpartition("/")
        if "/" in namespace or (slash and not (namespace and name)):
            raise SpecError(f"'{job}' is no job", hint="write NAME or NAMESPACE/NAME")
        return namespace or self.namespace, name


@dataclass(frozen=True, slots=True)
class Place:
    """Which cluster and which namespace, as the options say."""

    namespace: str | None = None
    context: str | None = None
    kubeconfig: str | None = None

    def run(self, work: Callable[[Cluster], Awaitable[T]]) -> T:
        """Do the work there, in an event loop of its own."""
        return asyncio.run(self._run(work))

    def command(self, *words: str) -> str:
        """A command line that leads to the same place."""
        options = {
            "-n": self.namespace,
            "--context": self.context,
            "--kubeconfig": self.kubeconfig,
        }
        given = [word for name, value in options.items() if value for word in (name, value)]
        return shlex.join(["weft", *words, *given])

    async def _run(self, work: Callable[[Cluster], Awaitable[T]]) -> T:
        api = await connect(self)
        try:
            return await work(Cluster(api, self.namespace or api.namespace))
        finally:
            await api.close()


async def connect(place: Place) -> "Api":
    """The API server that the options lead to."""
    with kube_extra():
        from weft.kube.client.api import Api
    return await Api.connect(kubeconfig=place.kubeconfig, context=place.context)


@contextmanager
def kube_extra() -> Iterator[None]:
    """Around imports of what only the extra `kube` installs: a missing package gets its hint."""
    try:
        yield
    except ModuleNotFoundError as missing:
        if (missing.name or "").split(".")[0] not in EXTRA:
            raise
        raise WeftError(
            f"this needs a package that is not installed: {missing.name}",
            hint="pip install 'weft[kube]'",
        ) from None


place_options = bundled("place", Place, NAMESPACE, CONTEXT, KUBECONFIG)
