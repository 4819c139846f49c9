"""Helm, which renders the chart."""

import os

import pytest

from tools.testcluster.binaries import missing


@pytest.fixture(scope="session")
def helm_is_there() -> None:
    """As with the control plane: without it a test is skipped, but in CI it fails."""
    if not missing(["helm"]):
        return
    reason = "not found: helm; run tools/testcluster/build helm"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
