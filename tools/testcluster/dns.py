"""Names of services and pods: CoreDNS on this machine, at the address that kubelets give to pods.

It knows the cluster and nothing else: any other name does not exist, so a test cannot come to
depend on what lies outside.
"""

import socket
import struct
import time
from pathlib import Path
from typing import Final

from tools.testcluster import arguments, network
from tools.testcluster.node_settings import DOMAIN
from tools.testcluster.process import Process
from weft.model.errors import WorldError

_PORT: Final = 53
_PATIENCE_SECONDS: Final = 30.0
_SETTINGS: Final = """\
{domain} in-addr.arpa {{
    bind {address}
    errors
    kubernetes {{
        kubeconfig {kubeconfig}
        pods insecure
        ttl 0
    }}
}}
. {{
    bind {address}
    template ANY ANY {{
        rcode NXDOMAIN
    }}
}}
"""


class Dns:
    """One CoreDNS."""

    def __init__(self, folder: Path, kubeconfig: Path) -> None:
        settings = folder / "Corefile"
        settings.write_text(
            _SETTINGS.format(address=network.ADDRESS, domain=DOMAIN, kubeconfig=kubeconfig)
        )
        self._process = Process("coredns", arguments.coredns(settings), folder)

    def start(self) -> None:
        self._process.start()

    def stop(self) -> None:
        self._process.kill()

    def wait(self) -> None:
        """Until it knows the API server's service."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not is_known(f"kubernetes.default.svc.{DOMAIN}"):
            self._process.check()
            if time.monotonic() > deadline:
                raise WorldError("CoreDNS knows no service", hint=f"see {self._process.log}")
            time.sleep(0.05)


def is_known(name: str) -> bool:
    """Whether CoreDNS has an address for this name."""
    labels = b"".join(struct.pack("B", len(part)) + part.encode() for part in name.split("."))
    question = struct.pack(">6H", 1, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">2H", 1, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as wire:
        wire.settimeout(0.5)
        try:
            wire.sendto(question, (network.ADDRESS, _PORT))
            answer = wire.recv(512)
        except OSError:
            return False
    return int(struct.unpack(">H", answer[6:8])[0]) > 0
