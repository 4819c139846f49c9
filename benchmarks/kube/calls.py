"""What the API server was asked, by its own count: no client has to be trusted or slowed down."""

import re
from collections import Counter
from typing import NamedTuple

from tools.testcluster import ControlPlane

WRITES = ("POST", "PATCH", "APPLY", "PUT", "DELETE", "DELETECOLLECTION")

_LINE = re.compile(r"^apiserver_request_total\{(?P<labels>.*)\} (?P<count>\S+)$")
_LABEL = re.compile(r'(\w+)="([^"]*)"')


class Call(NamedTuple):
    """One kind of call; `resource` has its subresource behind a stroke."""

    verb: str
    resource: str
    code: str


Calls = Counter[Call]


def calls_of(cluster: ControlPlane) -> Calls:
    """All calls since the API server started."""
    with cluster.connect() as fresh:  # one that has idled for long may be closed
        _, page = fresh.raw("GET", "/metrics")
    return counted(page.decode())


def counted(page: str) -> Calls:
    """The counts on a page of metrics."""
    calls: Calls = Counter()
    for line in page.splitlines():
        if found := _LINE.match(line):
            labels = dict(_LABEL.findall(found["labels"]))
            sub = labels.get("subresource", "")
            resource = labels["resource"] + (f"/{sub}" if sub else "")
            calls[Call(labels["verb"], resource, labels["code"])] += int(float(found["count"]))
    return calls


def writes(calls: Calls, *resources: str) -> int:
    """How many of them were to write these resources."""
    return sum(
        count
        for call, count in calls.items()
        if call.verb in WRITES and (not resources or call.resource in resources)
    )
