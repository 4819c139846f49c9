"""The container runtime of one machine, and how images get into it."""

import subprocess
import time
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final

from tools.testcluster.binaries import find
from tools.testcluster.machine import Machine
from tools.testcluster.oci import Image, Layer, write_archive
from weft.model.errors import WorldError

SOCKET: Final = "/run/containerd/containerd.sock"
PLUGINS: Final = Path("/usr/lib/cni")

_SETTINGS: Final = """\
version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.internal.v1.opt"]

[grpc]
  address = "{socket}"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  # Without CAP_SYS_RESOURCE nobody may be made less killable than he was.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{plugins}"
    conf_dir = "{networks}"
"""
_PATIENCE_SECONDS: Final = 30.0
_IMPORT_SECONDS: Final = "600"
_POLL_SECONDS: Final = 0.02


class Containerd:
    """What it holds lies in `root` until the machine is lost.

    `pause` is the image that holds a pod's namespaces, `networks` the folder that tells how pods
    are connected.
    """

    def __init__(self, machine: Machine, pause: str, networks: Path) -> None:
        self._machine = machine
        self._settings = machine.logs / "containerd.toml"
        self._settings.write_text(
            _SETTINGS.format(socket=SOCKET, pause=pause, plugins=PLUGINS, networks=networks)
        )

    @property
    def root(self) -> Path:
        return self._machine.disk / "lib" / "containerd"

    def start(self) -> None:
        """Return before it is ready."""
        self._machine.run("containerd", [f"--config={self._settings}"])

    def wait(self) -> None:
        """Until it answers."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        socket = Path(f"/proc/{self._machine.pid}/root{SOCKET}")
        while not socket.exists():
            self._machine.check()
            if time.monotonic() > deadline:
                name = self._machine.name
                raise WorldError(
                    f"containerd of {name} is silent", hint=f"see {self._machine.logs}"
                )
            time.sleep(_POLL_SECONDS)

    def load(self, images: Iterable[Image], known: Collection[Layer] = ()) -> None:
        """Import images; layers that are known are there already."""
        command = [
            *self._machine.enter(),
            "timeout",
            _IMPORT_SECONDS,
            *_ctr("images", "import", "-"),
        ]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as importing:
            assert importing.stdin and importing.stdout
            try:
                write_archive(importing.stdin, images, known)
                importing.stdin.close()
            except BrokenPipeError:
                pass  # it tells why
            said = importing.stdout.read().decode(errors="replace")
        if importing.returncode:
            raise WorldError(f"containerd took no image: {said.strip()}")


def _ctr(*words: str) -> tuple[str, ...]:
    return (str(find("ctr")), f"--address={SOCKET}", "--namespace=k8s.io", *words)
