"""The ConfigMap in which an operator keeps what it remembers of nodes and services.

It is packed, since it may tell of thousands of failures; what cannot be unpacked counts as nothing.
"""

import base64
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from weft.failure.health import WELL, Health
from weft.kube.logs import Log

KEY: Final = "health.json.z"
MOST_BYTES: Final = 16 << 20

log = Log("health")


@dataclass(frozen=True, slots=True)
class HealthMap:
    """Which ConfigMap."""

    namespace: str
    name: str

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/configmaps/{self.name}"

    @classmethod
    def of(cls, namespace: str, operator: str) -> "HealthMap":
        """The one of an operator of that name."""
        return cls(namespace, f"{operator}-health")

    def object(self, health: Health) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "binaryData": {KEY: packed(health)},
        }


def packed(health: Health) -> str:
    text = json.dumps(health.told(), separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode())).decode()


def health_in(thing: Mapping[str, Any]) -> Health:
    """What such a ConfigMap holds."""
    return unpacked((thing.get("binaryData") or {}).get(KEY, ""))


def unpacked(text: str) -> Health:
    """What was packed; nothing of what another version wrote, or somebody else."""
    try:
        plain = zlib.decompressobj().decompress(base64.b64decode(text), MOST_BYTES)
        return Health.read(json.loads(plain)) if text else WELL
    except (ValueError, KeyError, TypeError, zlib.error):
        log.warning("health_not_understood")
        return WELL
