"""GPUs of a node, counted from what a driver publishes and claims hold."""

import asyncio
from typing import Any
from unittest.mock import AsyncMock, Mock, patch

import pytest

from weft.kube.claims import claim, claim_name, claims_path, shared
from weft.kube.device_index import DeviceIndex
from weft.kube.devices import (
    MOST_TOLD,
    NodeDevices,
    ObservedClaim,
    devices_on,
    read_claim,
    read_slice,
    tainted_on,
)
from weft.kube.names import JOB_LABEL
from weft.kube.operator.executor import claim_sweep
from weft.kube.pods import owner_of
from weft.kube.reading.paging import Listing

DRIVER = "gpu.example.com"


def published(node: str, *memory: str | None, driver: str = DRIVER, name: str = "s") -> Any:  # noqa: ANN401
    devices = [
        {"name": f"gpu-{n}", **({"capacity": {"memory": {"value": one}}} if one else {})}
        for n, one in enumerate(memory)
    ]
    return read_slice(
        {
            "metadata": {"name": name, "uid": name, "resourceVersion": "7"},
            "spec": {"driver": driver, "nodeName": node, "devices": devices},
        }
    )


def test_all_slices_of_the_driver_on_a_node_count() -> None:
    slices = [
        published("a", "16Gi", "16Gi"),
        published("a", "8Gi", name="t"),
        published("a", "1Gi", driver="nic.example.com"),
        published("b", "80Gi"),
    ]
    assert devices_on("a", DRIVER, slices) == NodeDevices(3, 8.0), "the smallest has 8 GiB"
    assert devices_on("b", DRIVER, slices) == NodeDevices(1, 80.0)
    assert devices_on("c", DRIVER, slices) == NodeDevices(0, None)


def test_memory_that_one_of_them_does_not_tell_is_not_known() -> None:
    assert devices_on("a", DRIVER, [published("a", "16Gi", None)]) == NodeDevices(2, None)
    both = [published("a", "16Gi"), published("a", None, name="t")]
    assert devices_on("a", DRIVER, both) == NodeDevices(2, None)


def test_a_slice_of_no_node_is_nobodys() -> None:
    bare = read_slice({"metadata": {"uid": "u", "resourceVersion": "1"}, "spec": {}})
    assert (bare.node, bare.devices, bare.memory_gib) == ("", 0, None)


@pytest.mark.parametrize(
    ("party", "name"),
    [
        ("", "vit-3-1"),
        ("team/loads/2", "loads-2-0"),
        ("team/a-1/14", "a-1-14-0"),
    ],
)
def test_a_claim_is_called_as_the_pod_that_it_was_made_for(party: str, name: str) -> None:
    assert claim_name("vit", 3, 1, party) == name


def a_tainted_slice(*effects: str | None) -> Any:  # noqa: ANN401
    """A device for each; None has no taint."""
    taint = {"key": "gpu.example.com/xid", "value": "79", "timeAdded": "1970-01-01T00:01:40Z"}
    devices = [
        {
            "name": f"gpu-{number}",
            "capacity": {"memory": {"value": "16Gi" if effect is None else "8Gi"}},
            "taints": [{"key": "a", "effect": "None"}, {**taint, "effect": effect}]
            if effect
            else [],
        }
        for number, effect in enumerate(effects)
    ]
    spec = {"driver": DRIVER, "nodeName": "a", "pool": {"name": "a"}, "devices": devices}
    return read_slice({"metadata": {"uid": "u", "resourceVersion": "1"}, "spec": spec})


def test_a_device_with_a_taint_is_not_counted_and_is_told() -> None:
    found = a_tainted_slice(None, "NoSchedule", "NoExecute", "None", "Unheard")
    assert devices_on("a", DRIVER, [found]) == NodeDevices(3, 8.0, 0, 2)
    first, second = tainted_on("a", DRIVER, [found])
    assert first.message == "gpu-1 has the taint gpu.example.com/xid=79"
    assert (first.kind, first.since, second.message[:5]) == ("DeviceTaint", 100.0, "gpu-2")
    assert tainted_on("b", DRIVER, [found]) == tainted_on("a", "nic.example.com", [found]) == ()


def test_all_devices_with_a_taint_leave_none() -> None:
    found = a_tainted_slice(*["NoExecute"] * 100)
    assert devices_on("a", DRIVER, [found]) == NodeDevices(0, None, 0, 100)
    assert len(found.tainted) == MOST_TOLD


def test_one_that_others_hold_with_its_taint_counts_once() -> None:
    held = ObservedClaim("u", 1, frozenset({(DRIVER, "a", "gpu-0"), (DRIVER, "a", "gpu-1")}))
    found = devices_on("a", DRIVER, [a_tainted_slice(None, "NoSchedule", None)], [held])
    assert found == NodeDevices(1, 16.0, 1, 0)


def a_raw_claim(**about: object) -> dict[str, Any]:
    """As the operator makes it for the job vit, allocated; with other metadata where asked."""
    made = claim("lab", "vit-1-0", 1, job="vit", owner=owner_of("vit", "u"), kind=DRIVER)
    made["metadata"] |= {"uid": "c", "resourceVersion": "1", **about}
    given = [{"driver": DRIVER, "pool": "a", "device": "gpu-0"}]
    return {**made, "status": {"allocation": {"devices": {"results": given}}}}


def held_beside(raw: dict[str, Any]) -> int:
    """Devices that count as foreign beside this claim."""
    index = DeviceIndex()
    index.slice_changed(None, a_tainted_slice(None, None))
    index.claim_changed(None, read_claim(raw))
    return devices_on("a", DRIVER, index.slices_on("a"), index.claims_on("a")).foreign


def test_a_claim_of_a_job_is_accounted_for_by_its_seat() -> None:
    assert held_beside(a_raw_claim()) == 0
    others = [shared(owner_of("other", "o"))]
    assert held_beside(a_raw_claim(ownerReferences=others)) == 0, "its first job has left it"


@pytest.mark.parametrize(
    "about",
    [
        {"labels": {}},
        {"labels": {JOB_LABEL: "other"}},
        {"ownerReferences": []},
        {"name": "mine"},
        {"name": "other-1-0"},
    ],
)
def test_a_claim_that_only_has_the_label_of_a_job_is_foreign(about: dict[str, Any]) -> None:
    assert held_beside(a_raw_claim(**about)) == 1


def test_the_sweep_removes_claims_of_jobs_alone() -> None:
    raws = [
        a_raw_claim(),
        a_raw_claim(name="mine"),
        a_raw_claim(name="vit-2-0", ownerReferences=[]),
    ]
    api, listing = AsyncMock(), AsyncMock(return_value=Listing(tuple(raws), "1"))
    with patch.object(claim_sweep, "list_all", listing):
        asyncio.run(claim_sweep.ClaimSweep(api, Mock(observed_jobs={}), DRIVER).look())
    assert [call.args[0] for call in api.delete.await_args_list] == [claims_path("lab", "vit-1-0")]


@pytest.mark.parametrize(("held", "gpus"), [(0, 6), (5, 6), (7, 7), (8, 8), (9, 8)])
def test_a_taint_sends_nobody_away(held: int, gpus: int) -> None:
    assert NodeDevices(6, None, 0, 2).while_held(held).gpus == gpus
