"""Bring everything behind the API server back to a kept state, at the speed of etcd.

Deleting what a test left through the API takes seconds: finalizers, grace periods, namespaces that
empty slowly. Deleting the keys in etcd takes milliseconds, and is seen by all: the API server, and
through it every controller, learns of each deletion from etcd's own watch.
"""

import base64
import http.client
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Final, Self

from weft.model.errors import WorldError

_FIRST, _END = b"/registry/", b"/registry0"
_EVENTS, _EVENTS_END = b"/registry/events/", b"/registry/events0"  # many, and watched by nobody

# The API server and the controllers write these for themselves at any time: neither removed nor
# put back. System namespaces get their account and certificate some time after the first start.
_OWN: Final = re.compile(
    rb"/registry/(masterleases|peerserverleases|ranges|apiregistration\.k8s\.io/apiservices"
    rb"|leases/kube-system/apiserver-|configmaps/kube-system"
    rb"|(configmaps|serviceaccounts)/(default|kube-system|kube-public|kube-node-lease)"
    rb"/(kube-root-ca\.crt|default)$)"
)
_TIMEOUT_SECONDS = 30


@dataclass(frozen=True)
class _Record:
    value: str  # base64, as it came
    revision: str


class Store:
    """etcd's JSON gateway on one kept-alive connection."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_SECONDS)
        self._kept: dict[bytes, _Record] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def keep(self) -> None:
        """What is stored now is what `restore` brings back."""
        self._kept = self._read()

    def restore(self) -> list[bytes]:
        """Remove what came since `keep`, put back what was changed; return what was removed."""
        found = self._read(keys_only=True)
        new = [key for key in found if key not in self._kept and not _OWN.match(key)]
        self._call("kv/deleterange", key=_encode(_EVENTS), range_end=_encode(_EVENTS_END))
        for keys in _one_of_each_kind(new):
            self._commit([_removal(key) for key in keys])
        for keys in _one_of_each_kind(self._changed(found)):
            revision = self._commit([_return(key, self._kept[key].value) for key in keys])
            self._kept.update({key: _Record(self._kept[key].value, revision) for key in keys})
        return new

    def compact(self) -> None:
        """Forget all history: whoever asks for an older revision is told that it is gone."""
        revision = self._call("kv/range", key=_encode(_FIRST))["header"]["revision"]
        self._call("kv/compaction", revision=revision, physical=True)

    def _read(self, *, keys_only: bool = False) -> dict[bytes, _Record]:
        answer = self._call(
            "kv/range", key=_encode(_FIRST), range_end=_encode(_END), keys_only=keys_only
        )
        return {
            base64.b64decode(item["key"]): _Record(item.get("value", ""), item["mod_revision"])
            for item in answer.get("kvs", ())
        }

    def _changed(self, found: dict[bytes, _Record]) -> Iterator[bytes]:
        for key, kept in self._kept.items():
            now = found.get(key)
            if (now is None or now.revision != kept.revision) and not _OWN.match(key):
                yield key

    def _commit(self, operations: list[dict[str, Any]]) -> str:
        """The revision of the transaction."""
        return str(self._call("kv/txn", success=operations)["header"]["revision"])

    def _call(self, path: str, **request: object) -> dict[str, Any]:
        self._connection.request("POST", f"/v3/{path}", body=json.dumps(request))
        response = self._connection.getresponse()
        answer: dict[str, Any] = json.loads(response.read())
        if response.status != http.client.OK:
            raise WorldError(f"etcd {path}: {response.status} {answer}")
        return answer


def _one_of_each_kind(keys: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Sets of keys that may share a revision.

    A watch that breaks goes on after the last revision it has seen: had two pods gone in the same
    one, it might never hear of the second. Watches of different kinds do not mix.
    """
    kinds: defaultdict[bytes, list[bytes]] = defaultdict(list)
    for key in keys:
        if not key.startswith(_EVENTS):
            kinds[key.split(b"/")[2]].append(key)
    for row in zip_longest(*kinds.values()):
        yield [key for key in row if key is not None]


def _removal(key: bytes) -> dict[str, Any]:
    return {"request_delete_range": {"key": _encode(key)}}


def _return(key: bytes, value: str) -> dict[str, Any]:
    return {"request_put": {"key": _encode(key), "value": value}}


def _encode(key: bytes) -> str:
    return base64.b64encode(key).decode()
