"""What every test shares: the Hypothesis profile, and where recorded traces lie.

Tests never sleep and never open a network socket (pytest-socket refuses it). Time comes from the
events that a test sends, chance from the seed that it names.
"""

import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests import hypothesis_profiles, outside

# A shell that starts the tests in the background has them ignore Ctrl-C, and all they start, too.
signal.signal(signal.SIGINT, signal.default_int_handler)

hypothesis_profiles.load()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test that asks for the traces, so that `-m "not traces"` leaves none behind."""
    for item in items:
        if "traces" in getattr(item, "fixturenames", ()):
            item.add_marker("traces")


# What a machine cannot have, whatever is installed on it.
LAWFUL_SKIPS = (
    "root may read everything",
    "no cgroup v2 of our own here",
    "chance is seeded by the place in the run",
    "WEFT_TRACES not set",  # the project ships none
    outside.LEFT_OUT,
)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: "pytest.CallInfo[None]"
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI a test that lacks what it needs fails: a skip that nobody reads tests nothing."""
    report = yield
    if not (report.skipped and os.environ.get("CI")) or hasattr(report, "wasxfail"):
        return report
    why = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if not any(lawful in why for lawful in LAWFUL_SKIPS):
        report.outcome, report.longrepr = "failed", f"CI may not skip it: {why}"
    return report


@pytest.fixture(autouse=True)
def _test_begins() -> Iterator[None]:
    outside.begin()
    yield
    outside.end()


@pytest.fixture(scope="session")
def traces() -> Path:
    """The folder of recorded traces that the environment names; without one the test is skipped."""
    folder = os.environ.get("WEFT_TRACES")
    if not folder:
        pytest.skip("WEFT_TRACES not set")
    path = Path(folder)
    if not path.is_dir():
        pytest.fail(f"WEFT_TRACES is not a folder: {path}")
    return path
