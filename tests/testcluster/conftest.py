"""Real nodes for the tests of the test cluster itself.

Where they cannot run (no root, or a program is missing) a test is skipped, but in CI (`CI` is set)
it fails. All of them run in the worker that has the other control plane: two at a time are slower
than one.
"""

import os
from collections.abc import Iterator

import pytest

from tests.testcluster.restricted_pods import TEAM, Real
from tools.testcluster import ControlPlane
from tools.testcluster.real_nodes import RealNodes, unmet

FIXTURES = {"real_programs", "real"}


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups when its own turn comes
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker("realnodes")
            item.add_marker("enable_socket")
            item.add_marker(pytest.mark.timeout(300))  # the first one may have to make the images
            item.add_marker(pytest.mark.xdist_group("cluster"))


@pytest.fixture(scope="session")
def real_programs() -> None:
    lacking = unmet()
    if not lacking:
        return
    reason = f"not found: {', '.join(lacking)}; run tools/testcluster/provide and .../build"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="module")
def real(real_programs: None) -> Iterator[Real]:
    with ControlPlane(real=True) as plane, RealNodes(plane, count=2, gpus=2) as nodes:
        plane.add_namespace(TEAM, {"pod-security.kubernetes.io/enforce": "restricted"})
        yield Real(plane, nodes)
