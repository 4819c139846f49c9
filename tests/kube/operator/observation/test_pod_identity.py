"""What a pod is by its name, label and owner, and that each bound pod is counted whatever it is."""

from copy import deepcopy
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.kube.names import (
    BOUND_PODS,
    JOB_LABEL,
    LABELED_PODS,
    PLACEHOLDER_LABEL,
    PROBE_LABEL,
    UNLABELED_PODS,
    WorkerName,
    parse_pod_name,
    pod_name,
)
from weft.kube.operator.observation.pod import is_placeholder, read_pod
from weft.kube.operator.observation.pod_index import PodIndex
from weft.kube.placeholders import Shape, placeholder
from weft.kube.pods import WorkerSettings, owner_of
from weft.spec.job_file import JobSpec

Raw = dict[str, Any]

SET = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "vit", "uid": "s"}


def a_raw_pod(name: str = "vit-1-0", labels: Raw | None = None, **about: Any) -> Raw:
    """A worker of the job vit on n0, with other metadata where a test says so."""
    meta = {
        "name": name,
        "namespace": "lab",
        "uid": "p",
        "resourceVersion": "1",
        "labels": {JOB_LABEL: "vit"} if labels is None else labels,
        "ownerReferences": [owner_of("vit", "u")],
    }
    gpus = {"resources": {"requests": {"nvidia.com/gpu": "8"}}}
    return {
        "metadata": {**meta, **about},
        "spec": {"nodeName": "n0", "containers": [gpus]},
        "status": {"phase": "Running"},
    }


@given(
    st.from_regex(r"[a-z]([-a-z0-9.]{0,8}[a-z0-9])?", fullmatch=True),
    st.integers(0),
    st.integers(0),
)
def test_the_name_of_a_worker_is_read_back(job: str, epoch: int, seat: int) -> None:
    name = pod_name(job, epoch, seat)
    assert parse_pod_name(name) == WorkerName(job, epoch, seat)


@pytest.mark.parametrize(
    "name", ["web", "web-0", "-1-0", "web-01-0", "web-1-x", "web-1--0", "web-1-²"]
)
def test_other_names_are_no_workers(name: str) -> None:
    assert parse_pod_name(name) is None


@pytest.mark.parametrize(
    "labels",
    [
        {PLACEHOLDER_LABEL: "x"},
        {PROBE_LABEL: "x"},
        {"weft.dev/epoch": "7", "weft.dev/rank": "9"},
        {"weft.dev/epoch": "x"},
        {"weft.dev/queue": "other"},
    ],
)
def test_other_labels_do_not_change_what_a_worker_is(labels: Raw) -> None:
    found = read_pod(a_raw_pod(labels={JOB_LABEL: "vit", **labels}))
    assert (found.job, found.epoch, found.seat, found.owner, found.gpus) == ("vit", 1, 0, "u", 8)


@pytest.mark.parametrize(
    ("changed", "was_worker"),
    [
        ({"labels": {}}, True),
        ({"labels": None}, True),
        ({"labels": {JOB_LABEL: "other"}}, True),
        ({"ownerReferences": []}, True),
        ({"ownerReferences": [SET]}, True),
        ({"ownerReferences": [{**SET, "controller": True}]}, True),
        ({"ownerReferences": [owner_of("other", "o")]}, True),
        ({"labels": {}, "ownerReferences": []}, False),
        ({"labels": {}, "ownerReferences": [{**SET, "controller": True}]}, False),
    ],
)
def test_a_pod_without_label_or_owner_is_no_worker(changed: Raw, was_worker: bool) -> None:
    raw = a_raw_pod()
    raw["metadata"] |= changed
    found = read_pod(raw)
    assert (found.job, found.gpus) == ("", 8)
    assert found.was_worker_of("u") is was_worker


def test_a_worker_of_an_earlier_job_of_that_name_is_still_a_worker() -> None:
    found = read_pod(a_raw_pod(ownerReferences=[owner_of("vit", "earlier")]))
    assert (found.job, found.owner) == ("vit", "earlier")


# --- placeholders ---------------------------------------------------------------------------------


def a_placeholder() -> Raw:
    """As the API server stores it: it resolves the PriorityClass."""
    spec = JobSpec.model_validate({"run": "x", "image": "i", "resources": {"gpus": 8}})
    made = placeholder(
        WorkerSettings(),
        spec,
        job=("lab", "vit", "u"),
        number=0,
        shape=Shape(gpus=8, cpus=0.0, memory_gib=0.0),
        priority_class="weft-placeholder",
    )
    made["metadata"] |= {"uid": "p", "resourceVersion": "1"}
    made["spec"] |= {"nodeName": "n0", "priority": -5}
    return made


def test_a_placeholder_holds_nothing_that_a_worker_cannot_have() -> None:
    found = read_pod(a_placeholder())
    assert is_placeholder(a_placeholder())
    assert (found.job, found.gpus) == ("", 0)


@pytest.mark.parametrize(
    ("part", "changed"),
    [
        ("metadata", {"name": "vit-1-0"}),
        ("metadata", {"name": "free"}),
        ("metadata", {"labels": {PLACEHOLDER_LABEL: "true"}}),
        ("metadata", {"labels": {JOB_LABEL: "other", PLACEHOLDER_LABEL: "true"}}),
        ("metadata", {"ownerReferences": []}),
        ("metadata", {"ownerReferences": [{**SET, "controller": True}]}),
        ("spec", {"priority": 0}),
        ("spec", {"priority": 1000}),
        ("spec", {"terminationGracePeriodSeconds": 3600}),
    ],
)
def test_a_pod_that_only_looks_like_a_placeholder_is_counted(part: str, changed: Raw) -> None:
    raw = deepcopy(a_placeholder())
    raw[part] |= changed
    assert not is_placeholder(raw)
    assert read_pod(raw).gpus == 8


# --- the index ------------------------------------------------------------------------------------


def test_the_two_watches_select_every_bound_pod() -> None:
    assert LABELED_PODS == {"labelSelector": JOB_LABEL}
    assert dict(UNLABELED_PODS) == {"labelSelector": f"!{JOB_LABEL}", **BOUND_PODS}


WORKER = read_pod(a_raw_pod())
UNLABELED = read_pod(a_raw_pod(labels={}, resourceVersion="2"))
LABELED_AGAIN = read_pod(a_raw_pod(resourceVersion="3"))


# Each watch keeps its own order (0 before 1, and 2 before 3); between the two there is none.
ORDERS = [
    order
    for order in permutations(range(4))
    if order.index(0) < order.index(1) and order.index(2) < order.index(3)
]


@pytest.mark.parametrize("order", ORDERS)
def test_a_pod_stays_counted_while_its_label_comes_and_goes(order: tuple[int, ...]) -> None:
    labeled = [(WORKER, None), (None, LABELED_AGAIN)]
    unlabeled = [(None, UNLABELED), (UNLABELED, None)]
    index = PodIndex()
    index.worker_changed("lab/vit-1-0", None, WORKER)
    for event in order:
        if event < len(labeled):
            index.worker_changed("lab/vit-1-0", *labeled[event])
        else:
            index.changed(*unlabeled[event - len(labeled)])
    assert index.on_node == {"n0": {"p": LABELED_AGAIN}}
    assert index.of_job == {"lab/vit": {"vit-1-0": LABELED_AGAIN}}
    assert index.name_conflicts == {}


def test_a_late_event_of_one_watch_does_not_undo_the_other() -> None:
    index = PodIndex()
    later = read_pod(a_raw_pod(resourceVersion="1"))
    index.worker_changed("lab/vit-1-0", None, WORKER)
    index.changed(None, UNLABELED)
    index.worker_changed("lab/vit-1-0", WORKER, later)
    assert index.on_node == {"n0": {"p": UNLABELED}}
    index.worker_changed("lab/vit-1-0", later, None)
    assert index.on_node == {"n0": {"p": UNLABELED}}
    assert index.name_conflicts == {"lab/vit": {"p": UNLABELED}}
    index.changed(UNLABELED, None)
    assert (index.on_node, index.name_conflicts, index.of_job) == ({}, {}, {})


def test_a_worker_that_loses_its_owner_leaves_its_job_and_stays_counted() -> None:
    index = PodIndex()
    index.worker_changed("lab/vit-1-0", None, WORKER)
    orphan = read_pod(a_raw_pod(ownerReferences=[], resourceVersion="2"))
    index.worker_changed("lab/vit-1-0", WORKER, orphan)
    assert index.of_job == {}
    assert index.on_node == {"n0": {"p": orphan}}
    assert index.name_conflicts == {"lab/vit": {"p": orphan}}


def test_a_server_restored_from_a_backup_has_older_versions() -> None:
    index = PodIndex()
    index.worker_changed("lab/vit-1-0", None, LABELED_AGAIN)
    index.worker_changed("lab/vit-1-0", LABELED_AGAIN, WORKER)
    assert index.on_node == {"n0": {"p": WORKER}}
