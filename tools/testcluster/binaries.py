"""Where the programs of a control plane are.

A folder of envtest (`KUBEBUILDER_ASSETS`) comes first, so that whoever has one needs no Go; then
what `tools/testcluster/build` has made. etcd may also be the distribution's, from the PATH; the
others may not, because their version is part of what the tests promise.
"""

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final

from weft.model.errors import WorldError

API_PROGRAMS: Final = ("etcd", "kube-apiserver", "kubectl", "openssl", "setpriv")
FULL_PROGRAMS: Final = (*API_PROGRAMS, "kube-controller-manager", "kube-scheduler", "kwok", "helm")
"""With these pods are bound and run; with `API_PROGRAMS` alone they are only stored."""

REAL_PROGRAMS: Final = (
    *API_PROGRAMS,
    *("kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "coredns", "helm"),
    *("containerd", "ctr", "runc", "ip", "iptables", "busybox", "unshare", "nsenter"),
)
"""With these pods run in containers, on nodes that are machines of their own."""

CDI_PROGRAMS: Final = ("containerd-2", "ctr-2", "gpu-driver")
"""With these a driver hands GPUs to containers."""

_BUILD: Final = Path(__file__).with_name("build")
_BUILD_CONTAINERD: Final = Path(__file__).with_name("build_containerd")
_FROM_PATH: Final = {
    "etcd": "apt-get install etcd-server",
    "openssl": "apt-get install openssl",
    "setpriv": "apt-get install util-linux",
    "unshare": "apt-get install util-linux",
    "nsenter": "apt-get install util-linux",
    "bash": "apt-get install bash",
    "containerd": "apt-get install containerd",
    "ctr": "apt-get install containerd",
    "runc": "apt-get install runc",
    "ip": "apt-get install iproute2",
    "iptables": "apt-get install iptables",
    "busybox": "apt-get install busybox-static",
}
_SYSTEM_PATH: Final = "/usr/local/sbin:/usr/sbin:/sbin"


class MissingProgram(WorldError):
    """A program of the control plane is neither built nor installed."""


def find(program: str) -> Path:
    """The path of one program; raises `MissingProgram` with what to do about it."""
    found = _search(program)
    if found is None:
        hint = _FROM_PATH.get(program, f"run {_BUILD} {program}, or set KUBEBUILDER_ASSETS")
        if program.endswith("-2"):
            hint = f"run {_BUILD_CONTAINERD}"
        raise MissingProgram(f"{program} was not found", hint=hint)
    return found


def missing(programs: Iterable[str]) -> list[str]:
    """Those of the programs that `find` would not find."""
    return [program for program in programs if _search(program) is None]


def _search(program: str) -> Path | None:
    if program.endswith("-2"):
        newer = containerd_folder() / program.removesuffix("-2")
        return newer if os.access(newer, os.X_OK) else None
    for folder in (os.environ.get("KUBEBUILDER_ASSETS"), _built()):
        if folder and os.access(Path(folder, _file(program)), os.X_OK):
            return Path(folder, _file(program))
    path = f"{os.environ.get('PATH', os.defpath)}:{_SYSTEM_PATH}"
    on_path = shutil.which(program, path=path) if program in _FROM_PATH else None
    return Path(on_path) if on_path else None


@cache
def _file(program: str) -> str:
    """CoreDNS carries its version in its name, and the driver a digest of its source."""
    if program == "gpu-driver":
        source = _BUILD.with_name("gpu_driver").joinpath("main.go").read_bytes()
        return f"gpu-driver-{hashlib.sha256(source).hexdigest()[:12]}"
    if program != "coredns":
        return program
    pinned = re.search(
        r"/coredns (v[\d.]+)", _BUILD.with_name("coredns").joinpath("go.mod").read_text()
    )
    return f"coredns-{pinned[1]}" if pinned else program


@cache
def containerd_folder() -> Path:
    """Where a containerd is that knows CDI, with its shim."""
    done = subprocess.run(
        [_BUILD_CONTAINERD, "--where"], capture_output=True, text=True, check=True
    )
    return Path(done.stdout.strip())


@cache
def _built() -> str:
    done = subprocess.run([_BUILD, "--where"], capture_output=True, text=True, check=True)
    return done.stdout.strip()
