"""Jobs that demand devices or bear taints go to nodes that suit them, and to no others."""

from typing import Any

import pytest

from tests.builders import Scene, a_cluster, a_job, a_node, given
from weft.model.reason import ReasonCode
from weft.model.suit import Demand, Offering

WIRED = Offering(devices_per_gpu=(("rdma/hca", 1.0),))
SPOT = Offering(taints=("spot",))
RDMA = Demand(devices_per_gpu=(("rdma/hca", 1.0),))


def two_kinds() -> Scene:
    return given(a_cluster(a_node("plain", 8), a_node("wired", 8, offering=WIRED)))


def test_a_node_without_the_devices_is_never_chosen() -> None:
    scene = two_kinds().submit(a_job("one", 6, demand=RDMA), a_job("two", 6, demand=RDMA)).decide()
    assert list(scene.nodes("one")) == ["wired"]
    assert list(scene.nodes("two")) == []
    assert scene.reasons("two")[0].code is ReasonCode.CONSTRAINT_TYPE


def test_what_no_node_has_is_told_as_never() -> None:
    scene = two_kinds().submit(
        a_job("efa", 1, demand=Demand(devices_per_gpu=(("vpc.amazonaws.com/efa", 4.0),)))
    )
    assert scene.decide().reasons("efa")[0].code is ReasonCode.CONSTRAINT_NEVER


@pytest.mark.parametrize("gpus", [0, 4])
def test_a_taint_keeps_away_who_does_not_bear_it(gpus: int) -> None:
    more: dict[str, Any] = {} if gpus else {"cpus": 4.0}
    scene = given(a_cluster(a_node("spot", 8, cpus=64.0, offering=SPOT)))
    scene.submit(a_job("shy", gpus, **more)).decide()
    assert list(scene.nodes("shy")) == []
    scene.submit(a_job("bold", gpus, demand=Demand(bears=("spot",)), **more)).decide()
    assert list(scene.nodes("bold")) == ["spot"]
