"""However a cluster of real nodes ends, this machine is as it was before."""

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from tests.testcluster.restricted_pods import TEAM, pod, running, until
from tools.testcluster import ControlPlane
from tools.testcluster.binaries import find
from tools.testcluster.image_store import cache
from tools.testcluster.machine import CGROUPS
from tools.testcluster.real_nodes import RealNodes

ROOT = Path(__file__).parents[2]
SETTINGS = (
    "/proc/sys/net/ipv4/ip_forward",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/kernel/panic",
    "/proc/sys/kernel/keys/root_maxkeys",
)
OWN_TRACES = {"interface weft-host", "cgroup memory", "disk node-0"}
KILLED = """
import os, signal
from tools.testcluster import ControlPlane
from tools.testcluster.real_nodes import RealNodes

plane = ControlPlane(real=True)
plane.start()
nodes = RealNodes(plane, count=1)
nodes.start_all()
print(plane.layout.folder, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_nothing_is_left_of_a_cluster_that_was_stopped(real_programs: None) -> None:
    # What belonged to a cluster before, also to one that was killed, takes a moment to be removed.
    until(lambda: not OWN_TRACES & _traces(), what=f"{OWN_TRACES & _traces()} gone")
    before, settings = _traces(), _settings()
    with ControlPlane(real=True) as plane, RealNodes(plane, count=2) as nodes:
        plane.add_namespace(TEAM)
        for name in nodes.names:
            running(plane, pod(f"on-{name}", "sleep", "1000", node=name))
        during = _traces()
        folder = plane.layout.folder
        assert len(_processes(folder)) > 10
    assert not _processes(folder)
    assert during - before >= OWN_TRACES
    until(lambda: _traces() <= before, what=f"{_traces() - before} gone")
    assert not folder.exists()
    assert _settings() == settings


def test_a_run_that_is_killed_takes_its_nodes_with_it(real_programs: None) -> None:
    before = _traces()
    done = subprocess.run(
        [sys.executable, "-c", KILLED],
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    folder = Path(done.stdout.strip())
    shutil.rmtree(folder)
    until(lambda: not _processes(folder), what="all processes gone")
    until(lambda: _kernels(_traces()) <= before, what="everything but files gone")
    with ControlPlane(real=True) as plane, RealNodes(plane, count=1):
        pass  # the next run removes the rest
    until(lambda: _traces() <= before, what=f"{_traces() - before} gone")


def _traces() -> set[str]:
    """What a cluster of real nodes may leave on a machine."""
    found = {f"interface {path.name}" for path in Path("/sys/class/net").iterdir()}
    found |= {f"cgroup {path.parent.name}" for path in CGROUPS.glob("*/weft-nodes")}
    found |= {f"disk {path.name}" for path in cache().glob("node-*")}
    found |= {f"mount {line}" for line in _lines(Path("/proc/self/mounts")) if "weft" in line}
    found |= {f"network {path.name}" for path in Path("/run/netns").glob("*")}
    found |= {f"rule {line}" for line in _rules() if not line.startswith(("#", ":"))}
    return found


def _kernels(traces: set[str]) -> set[str]:
    """Those that nobody but the kernel could have removed."""
    return {each for each in traces if not each.startswith(("disk", "cgroup"))}


def _processes(folder: Path) -> list[str]:
    """Those in a node, and those that were told of the cluster's folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            if str(folder) in words or "weft-nodes" in (process / "cgroup").read_text():
                found.append(words)
    return found


def _rules() -> list[str]:
    iptables = find("iptables").with_name("iptables-save")
    return subprocess.run([iptables], capture_output=True, text=True, check=True).stdout.split("\n")


def _settings() -> list[list[str]]:
    """Of the kernel, which kubelets and proxies like to change."""
    return [_lines(path) for path in map(Path, SETTINGS)]


def _lines(path: Path) -> list[str]:
    return path.read_text().split("\n")
