"""The wire between real nodes: a switch, and one plug of it in the machine itself.

The switch is a network namespace of its own that holds a bridge, and so are the nodes. All
interfaces therefore vanish with the process that holds the switch, however a test run ends, and
the machine's own forwarding and packet filters are never touched. From outside nothing is
reachable; from the machine, nodes and pods are, and services as long as the first node runs.

A machine has this network once: a lock keeps a second cluster of real nodes waiting.
"""

import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Final, TextIO

from tools.testcluster.layout import MAX_REAL_NODES
from tools.testcluster.process import Process
from weft.model.errors import WorldError

ADDRESS: Final = "10.245.0.1"
"""Of this machine, where the API server and CoreDNS listen for pods."""

PODS: Final = "10.244.0.0/16"
SERVICES: Final = "10.96.0.0/16"

_LOCK: Final = Path("/run/lock/weft-nodes.lock")
_LOCK_SECONDS: Final = 100.0
_PLUG: Final = "weft-host"
_HOLDER: Final = "import signal; signal.pause()"
_PATIENCE_SECONDS: Final = 10.0


class Network:
    """Started before the API server, which listens at its address."""

    def __init__(self, folder: Path) -> None:
        words = ["--net", "--", sys.executable, "-ISc", _HOLDER]
        self._switch = Process("unshare", words, folder)
        self._lock: TextIO | None = None
        self._plugged = 0

    def start(self) -> None:
        self._lock = _locked()
        if Path(f"/sys/class/net/{_PLUG}").exists():  # of a run that was killed a moment ago
            _run(f"ip link delete {_PLUG}")
        self._switch.start()
        self._wait_for_switch()
        self._in_switch("ip link add switch type bridge")
        self._in_switch("ip link set switch up")
        _run(f"ip link add {_PLUG} type veth peer name host netns {self._switch.pid}")
        self._in_switch("ip link set host master switch up")
        _run(f"ip address add {ADDRESS}/24 dev {_PLUG}")
        _run(f"ip link set {_PLUG} up")

    def stop(self) -> None:
        """The interfaces go with the switch, a moment later."""
        self._switch.kill()
        if self._lock:
            self._lock.close()
            self._lock = None

    def attach(self, index: int, pid: int) -> None:
        """Plug in the node whose first process this is; it may have been attached before."""
        self._plugged += 1  # the plug of a lost node may stay for a moment
        port = f"node{index}-{self._plugged}"
        # Always the same hardware address: the others remember it.
        _run(
            f"ip link add eth0 netns {pid} address 02:00:0a:f5:00:{10 + index:02x} type veth"
            f" peer name {port} netns {self._switch.pid}"
        )
        self._in_switch(f"ip link set {port} master switch up")
        _in_network_of(pid, f"ip address add {node_address(index)}/24 dev eth0")
        _in_network_of(pid, "ip link set eth0 up")
        _in_network_of(pid, f"ip route add default via {ADDRESS}")
        for other in range(MAX_REAL_NODES):
            if other != index:
                _in_network_of(pid, f"ip route add {pods_of(other)} via {node_address(other)}")
        _run(f"ip route replace {pods_of(index)} via {node_address(index)}")
        if index == 0:  # its kube-proxy serves this machine too
            _run(f"ip route replace {SERVICES} via {node_address(index)}")

    def _wait_for_switch(self) -> None:
        """Until it has left this machine's network, which takes some milliseconds."""
        own = os.readlink("/proc/self/ns/net")
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while os.readlink(f"/proc/{self._switch.pid}/ns/net") == own:
            self._switch.check()
            if time.monotonic() > deadline:
                raise WorldError("no network namespace could be made", hint="this needs root")
            time.sleep(0.01)

    def _in_switch(self, command: str) -> None:
        if self._switch.pid is None:
            raise WorldError("the network is not started")
        _in_network_of(self._switch.pid, command)


def node_address(index: int) -> str:
    return f"10.245.0.{10 + index}"


def pods_of(index: int) -> str:
    """The addresses that this node gives to its pods."""
    return f"10.244.{index}.0/24"


def _locked() -> TextIO:
    _LOCK.parent.mkdir(parents=True, exist_ok=True)
    lock = _LOCK.open("a")
    deadline = time.monotonic() + _LOCK_SECONDS
    while not _try_to_lock(lock):
        if time.monotonic() > deadline:
            lock.close()
            raise WorldError(
                f"another cluster of real nodes runs on this machine (process {_LOCK.read_text()})",
                hint=f"wait for it to end; it holds {_LOCK}",
            )
        time.sleep(0.2)
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()
    return lock


def _try_to_lock(lock: TextIO) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _in_network_of(pid: int, command: str) -> None:
    _run(f"nsenter --target {pid} --net {command}")


def _run(command: str) -> None:
    done = subprocess.run(
        command.split(), capture_output=True, text=True, timeout=_PATIENCE_SECONDS, check=False
    )
    if done.returncode:
        raise WorldError(f"{command}: {done.stderr.strip()}", hint="this needs root")
