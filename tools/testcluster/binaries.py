"""Where the programs of a control plane are.

A folder of envtest (`KUBEBUILDER_ASSETS`) comes first, so that whoever has one needs no Go; then
what `tools/testcluster/build` has made. etcd may also be the distribution's, from the PATH; the
others may not, because their version is part of what the tests promise.
"""

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

_BUILD: Final = Path(__file__).with_name("build")
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
        raise MissingProgram(f"{program} was not found", hint=hint)
    return found


def missing(programs: Iterable[str]) -> list[str]:
    """Those of the programs that `find` would not find."""
    return [program for program in programs if _search(program) is None]


def _search(program: str) -> Path | None:
    for folder in (os.environ.get("KUBEBUILDER_ASSETS"), _built()):
        if folder and os.access(Path(folder, _file(program)), os.X_OK):
            return Path(folder, _file(program))
    path = f"{os.environ.get('PATH', os.defpath)}:{_SYSTEM_PATH}"
    on_path = shutil.which(program, path=path) if program in _FROM_PATH else None
    return Path(on_path) if on_path else None


@cache
def _file(program: str) -> str:
    """CoreDNS alone carries its version in its name."""
    if program != "coredns":
        return program
    pinned = re.search(
        r"/coredns (v[\d.]+)", _BUILD.with_name("coredns").joinpath("go.mod").read_text()
    )
    return f"coredns-{pinned[1]}" if pinned else program


@cache
def _built() -> str:
    done = subprocess.run([_BUILD, "--where"], capture_output=True, text=True, check=True)
    return done.stdout.strip()
