"""Real nodes for tests of the whole: where they cannot run a test is skipped, but in CI it fails.

All of them run in the worker that has the other control planes: two at a time are slower than one.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.realnodes.site import Site
from tools.testcluster import ControlPlane
from tools.testcluster.real_nodes import RealNodes, unmet

TOLD = pytest.StashKey[list[str]]()


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups when its own turn comes
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if "site" in getattr(item, "fixturenames", ()) and item.path.is_relative_to(here):
            item.add_marker("realnodes")
            item.add_marker("slow")
            item.add_marker("enable_socket")
            item.add_marker(pytest.mark.timeout(300))  # the first one may have to make the images
            item.add_marker(pytest.mark.xdist_group("cluster"))


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    """Two real nodes of two GPUs with the chart installed; the times are told at the end.

    A module's own `VALUES` are values of the chart beside the usual ones, and `GPUS` those of a
    node. In one that has `DRIVERS` a driver hands out a GPU of each node.
    """
    drivers = bool(getattr(request.module, "DRIVERS", False))
    gpus = getattr(request.module, "GPUS", 1 if drivers else 2)
    if lacking := unmet(drivers=drivers):
        reason = (
            f"not found: {', '.join(lacking)}; run tools/testcluster/build and build_containerd"
        )
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with (
        ControlPlane(real=True) as plane,
        RealNodes(plane, count=2, gpus=gpus, drivers=drivers) as nodes,
        Site(plane, nodes, **getattr(request.module, "VALUES", {})) as made,
    ):
        yield made
        request.config.stash[TOLD] = [*made.table(), "", *made.watched().splitlines()]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What took how long, and what `kubectl get trainingjobs -w` showed meanwhile."""
    for line in terminalreporter.config.stash.get(TOLD, []):
        terminalreporter.write_line(line)
