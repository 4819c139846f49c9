"""Real nodes for tests of the whole: where they cannot run a test is skipped, but in CI it fails.

One control plane and one set of nodes serve all modules; each module installs the chart anew and
leaves the cluster empty.

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


@pytest.fixture(scope="package")
def real_nodes() -> Iterator[tuple[ControlPlane, RealNodes]]:
    """Two nodes, each with a driver that hands out one GPU where its programs are there."""
    _demand(unmet())
    devices = 0 if unmet(drivers=True) else 1
    with (
        ControlPlane(real=True) as plane,
        RealNodes(plane, count=2, gpus=2, devices=devices) as nodes,
    ):
        yield plane, nodes


@pytest.fixture(scope="module")
def site(
    request: pytest.FixtureRequest, real_nodes: tuple[ControlPlane, RealNodes]
) -> Iterator[Site]:
    """The chart on two real nodes of two GPUs; the times are printed at the end.

    A module's own `VALUES` are values of the chart beside the usual ones, and `GPUS` those of a
    node. A module with `DRIVERS` uses the GPUs of the drivers instead.
    """
    drivers = bool(getattr(request.module, "DRIVERS", False))
    _demand(unmet(drivers=drivers))
    plane, nodes = real_nodes
    nodes.set_all_gpus(getattr(request.module, "GPUS", 0 if drivers else 2))
    with Site(plane, nodes, **getattr(request.module, "VALUES", {})) as made:
        yield made
        request.config.stash.setdefault(TOLD, []).extend(
            [*made.table(), "", *made.watched().splitlines()]
        )


def _demand(lacking: list[str]) -> None:
    if not lacking:
        return
    reason = f"not found: {', '.join(lacking)}; run tools/testcluster/build and build_containerd"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What took how long, and what `kubectl get trainingjobs -w` showed meanwhile."""
    for line in terminalreporter.config.stash.get(TOLD, []):
        terminalreporter.write_line(line)
