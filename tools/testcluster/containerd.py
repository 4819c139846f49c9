"""The container runtime of one machine, and how images get into it."""

import subprocess
import time
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final

from tools.testcluster.binaries import containerd_folder, find
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
# The same for the version that knows CDI; its own shim is on its PATH, before that of an older one.
_CDI_SETTINGS: Final = """\
version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.nri.v1.nri"]

[grpc]
  address = "{socket}"

[ttrpc]
  address = "{socket}.ttrpc"

[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{pause}"

[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  cdi_spec_dirs = ["{cdi}"]
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["{plugins}"]
    conf_dir = "{networks}"
"""
CDI: Final = "/run/cdi"
_PATIENCE_SECONDS: Final = 30.0
_IMPORT_SECONDS: Final = "600"
_POLL_SECONDS: Final = 0.02


class Containerd:
    """What it holds lies in `root` until the machine is lost.

    `pause` is the image that holds a pod's namespaces, `networks` the folder that tells how pods
    are connected. With `cdi` it is one that gives containers what a driver of devices says.
    """

    def __init__(self, machine: Machine, pause: str, networks: Path, *, cdi: bool = False) -> None:
        self._machine = machine
        self._version = "-2" if cdi else ""
        self._settings = machine.logs / "containerd.toml"
        told = {"socket": SOCKET, "pause": pause, "plugins": PLUGINS, "networks": networks}
        if cdi:
            self._settings.write_text(_CDI_SETTINGS.format(**told, cdi=CDI))
        else:
            self._settings.write_text(_SETTINGS.format(**told))

    @property
    def root(self) -> Path:
        return self._machine.disk / "lib" / "containerd"

    def start(self) -> None:
        """Return before it is ready."""
        first = (containerd_folder(),) if self._version else ()
        program = f"containerd{self._version}"
        self._machine.run(program, [f"--config={self._settings}"], path=first)

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
            *self._ctr("images", "import", *(["--local"] if self._version else []), "-"),
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

    def _ctr(self, *words: str) -> tuple[str, ...]:
        program = str(find(f"ctr{self._version}"))
        return (program, f"--address={SOCKET}", "--namespace=k8s.io", *words)
