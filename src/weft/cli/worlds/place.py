"""The options that say which world, and the way there.

A command gets a `Place` and runs its work there: connected before, closed after. Packages that only
clusters need are loaded at that moment.
"""

import asyncio
import os
import shlex
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Final, TypeVar

import click

from weft.cli.completion.candidates import contexts
from weft.cli.options import bundled
from weft.cli.worlds.contexts import Context, chosen, socket_path
from weft.cli.worlds.world import World

NAMESPACE = click.option(
    "-n", "--namespace", help="Namespace, or user of this machine.  [default: kubeconfig's; you]"
)
CONTEXT = click.option(
    "--context",
    shell_complete=contexts,
    help="World: local, cluster, or a kubeconfig's context.  [see weft context]",
)
KUBECONFIG = click.option(
    "--kubeconfig", help="Path of the kubeconfig.  [default: $KUBECONFIG, ~/.kube/config]"
)
YES = click.option("-y", "--yes", is_flag=True, help="Do not ask.")
DRY_RUN = click.option(
    "--dry-run", is_flag=True, help="Let the server check it, and change nothing."
)
WATCH = click.option("-w", "--watch", is_flag=True, help="Stay, and draw it anew as it changes.")
ALL_NAMESPACES = click.option(
    "-A", "--all-namespaces", is_flag=True, help="All namespaces that there are; all users."
)
WAKING_BYTES: Final = 4096
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Place:
    """Which world and whose jobs, as the options say."""

    namespace: str | None = None
    context: str | None = None
    kubeconfig: str | None = None

    def run(self, work: Callable[[World], Awaitable[T]], *, quiet: bool = False) -> T:
        """Do the work there, in an event loop of its own."""
        return asyncio.run(self._run(work, quiet))

    def command(self, *words: str) -> str:
        """A command line that leads to the same place."""
        options = {
            "-n": self.namespace,
            "--context": self.context,
            "--kubeconfig": self.kubeconfig,
        }
        given = [word for name, value in options.items() if value for word in (name, value)]
        return shlex.join(["weft", *words, *given])

    async def _run(self, work: Callable[[World], Awaitable[T]], quiet: bool) -> T:
        context = chosen(self.context, kubeconfig=self.kubeconfig)
        with _woken_by_signals():
            async with self._world(context) as world:
                if not quiet:
                    tell_of(world)
                return await work(world)

    @asynccontextmanager
    async def _world(self, context: Context) -> AsyncIterator[World]:
        if context.local:
            from weft.cli.worlds.machine import MachineWorld

            yield MachineWorld.at(socket_path(), self.namespace)
            return
        from weft.cli.worlds.cluster import ClusterWorld, connect

        api = await connect(self.kubeconfig, context.kube_context)
        try:
            yield ClusterWorld(
                api, self.namespace or api.namespace, self.kubeconfig, context.kube_context
            )
        finally:
            await api.close()


@contextmanager
def _woken_by_signals() -> Iterator[None]:
    """Let Ctrl-C wake the event loop.

    Python notes a signal and handles it when its next instruction runs. One that arrives just
    before the loop begins to wait would go unnoticed until something else ends the wait.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    receiver, sender = socket.socketpair()
    with receiver, sender:
        sender.setblocking(False)
        loop.add_reader(receiver, receiver.recv, WAKING_BYTES)
        before = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            loop.remove_reader(receiver)


def tell_of(world: World) -> None:
    """Which world it is: to whoever sits at a terminal, and to whoever asked for talk."""
    terminal = sys.stderr.isatty()
    if not terminal and not os.environ.get("WEFT_VERBOSE"):
        return
    dim = terminal and not os.environ.get("NO_COLOR")
    click.echo(click.style(world.title, dim=True) if dim else world.title, err=True)


place_options = bundled("place", Place, NAMESPACE, CONTEXT, KUBECONFIG)
