"""A real control plane for the tests of the Kubernetes world, one for all of them.

`cluster` is a whole cluster, empty at the beginning of each test; `api_server` is the same with the
promise of an API server only, so that it runs where nothing but envtest's programs are installed.
Where programs are missing a test is skipped, but in CI (`CI` is set) it fails.

Whatever uses one of them is marked `cluster`, may open sockets, and runs in the same xdist worker
(with `--dist loadgroup`): on a small machine two control planes at a time are slower than one.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.waiting import until
from tools.testcluster import ControlPlane
from tools.testcluster.binaries import API_PROGRAMS, FULL_PROGRAMS, missing

CRDS = Path(__file__).parents[2] / "charts" / "weft" / "crds"
FIXTURES = {"cluster_programs", "control_plane", "api_server", "cluster"}


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups when its own turn comes
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker("cluster")
            item.add_marker("enable_socket")
            item.add_marker(pytest.mark.xdist_group("cluster"))


@pytest.fixture(scope="session")
def cluster_programs() -> None:
    """For tests that start programs of the control plane themselves."""
    _demand(API_PROGRAMS)


@pytest.fixture(scope="session")
def control_plane(
    cluster_programs: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """As much of a cluster as the programs allow, with Weft's custom resources."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        # The folder is shared by all workers: a second one fails here if they are not grouped.
        (tmp_path_factory.getbasetemp().parent / "control-plane").mkdir()
    with ControlPlane(full=not missing(FULL_PROGRAMS)) as running:
        running.apply_crds(CRDS)
        running.keep()
        yield running


@pytest.fixture
def api_server(control_plane: ControlPlane) -> ControlPlane:
    """Emptied, but perhaps without controllers, scheduler and kubelets."""
    control_plane.reset()
    _outlast_policies(control_plane)
    return control_plane


@pytest.fixture
def cluster(api_server: ControlPlane) -> ControlPlane:
    """Emptied, with everything that makes pods run."""
    _demand(FULL_PROGRAMS)
    return api_server


def _outlast_policies(control_plane: ControlPlane) -> None:
    """An admission policy that an earlier test installed acts for a moment after it is gone."""
    probe = {
        "metadata": {"name": "probe", "labels": {"weft.dev/job": "probe"}},
        "spec": {"containers": [{"name": "probe", "image": "probe"}]},
    }
    path = "/api/v1/namespaces/default/pods?dryRun=All"
    until(
        lambda: (
            "ValidatingAdmissionPolicy" not in control_plane.api.send("POST", path, probe).message
        ),
        "the admission policies of an earlier test to end",
    )


def _demand(programs: Iterable[str]) -> None:
    absent = missing(programs)
    if not absent:
        return
    reason = f"not found: {', '.join(absent)}; run tools/testcluster/build"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
