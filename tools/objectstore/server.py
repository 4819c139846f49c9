"""versitygw as a process: it serves the buckets of a folder on a free port of this machine."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

BUILD = Path(__file__).parent / "build"
ACCESS, SECRET = "weft-tests", "weft-tests-only"
PATIENCE_SECONDS = 30.0
POLL_SECONDS = 0.05


def program() -> Path:
    """Where the server is, or would be."""
    found = subprocess.run([BUILD, "--where"], capture_output=True, text=True, check=True)
    return Path(found.stdout.strip())


@contextmanager
def serving(folder: Path, bucket: str) -> Iterator[dict[str, str]]:
    """The variables by which every client finds it."""
    (folder / bucket).mkdir(parents=True)
    port = _free_port()
    server = subprocess.Popen(
        [program(), "--port", f"127.0.0.1:{port}", "--quiet", "posix", folder],
        env={**os.environ, "ROOT_ACCESS_KEY": ACCESS, "ROOT_SECRET_KEY": SECRET},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _await(port, server)
        yield {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ACCESS_KEY_ID": ACCESS,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_DEFAULT_REGION": "us-east-1",
        }
    finally:
        server.terminate()
        server.wait()


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
    return port


def _await(port: int, server: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while server.poll() is None and time.monotonic() < deadline:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
            return
        time.sleep(POLL_SECONDS)
    raise RuntimeError("the S3 server did not start")
