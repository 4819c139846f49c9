"""A real S3 server for a test; where there is none, the test is skipped, and in CI it fails."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from tools.objectstore.server import program, serving

BUCKET = "kept"


@contextmanager
def a_store(folder: Path) -> Iterator[dict[str, str]]:
    """The variables by which clients find it; it has one empty bucket."""
    missing = [] if program().exists() else ["tools/objectstore/build"]
    missing += [] if find_spec("s3fs") else ["pip install '.[s3]'"]
    if missing and os.environ.get("CI"):
        pytest.fail(f"there is no S3 server: {' and '.join(missing)}")
    if missing:
        pytest.skip(f"needs {' and '.join(missing)}")
    with serving(folder, BUCKET) as variables:
        yield variables
