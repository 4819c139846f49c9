"""The test stand: a real control plane with the chart installed, and the operator beside it.

The operator runs as a process with the rights that the chart gives it and no others. Those who
play users, machines or the bare engine are processes too, so that each has an interpreter of its
own and can be measured from outside.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.kube.installed import install_chart
from tests.kube.operators import ROOT, OperatorProcess
from tools.testcluster import ControlPlane
from weft.model.errors import WorldError

PATIENCE_SECONDS = 60.0
POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Stand:
    """A cluster, and the kubeconfig of the operator's own account in it."""

    cluster: ControlPlane
    kubeconfig: Path

    def play(self, module: str, *words: object) -> "Player":
        """Start `python -m module` with the administrator's kubeconfig among its words."""
        return Player([module, *(str(word) for word in words)])

    def reset(self) -> None:
        """Back to what was kept, on a fresh connection: the old one may have idled for minutes."""
        self.cluster.api.close()
        self.cluster.reset()

    @contextmanager
    def operator(self, **options: object) -> Iterator[OperatorProcess]:
        """It leads when the block begins."""
        with TemporaryDirectory(prefix="weft-bench-") as folder:
            process = OperatorProcess(self.kubeconfig, Path(folder), options=options)
            with process:
                wait_until_it_leads(process)
                yield process


@contextmanager
def stand(*, full: bool) -> Iterator[Stand]:
    """`full`: with controllers, scheduler and fake kubelets; else only the API server."""
    with ControlPlane(full=full) as cluster:
        kubeconfig = install_chart(cluster)
        yield Stand(cluster, kubeconfig)


class Player:
    """A process that prints its outcome; its errors are told when it fails."""

    def __init__(self, words: list[str], environment: Mapping[str, str] | None = None) -> None:
        path = f"{ROOT / 'src'}:{ROOT}"
        self._words = words
        self._process = subprocess.Popen(
            [sys.executable, "-m", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path, **(environment or {})},
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def outcome(self, seconds: float) -> str:
        """What it printed, once it has ended well."""
        try:
            out, complaint = self._process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            raise WorldError(f"{self._words[0]} was not over after {seconds:.0f} s") from None
        if self._process.returncode:
            raise WorldError(f"{' '.join(self._words)}: {_last_error(complaint)}")
        return out.strip()


def _last_error(complaint: str) -> str:
    """The last line of a traceback that names an error; groups of errors end with a rule."""
    lines = [line.strip(" |") for line in complaint.splitlines()]
    named = [line for line in lines if ": " in line and not line.startswith(("File", "Traceback"))]
    return (named or lines or ["without a word"])[-1][:300]


def wait_until_it_leads(process: OperatorProcess) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not leads(process):
        if not process.alive or time.monotonic() > deadline:
            raise WorldError(f"the operator does not lead: {log_of(process)[-2000:]}")
        time.sleep(POLL_SECONDS)


def leads(process: OperatorProcess) -> bool:
    """Whether it has said that it does."""
    return '"term_begun"' in log_of(process)


def log_of(process: OperatorProcess) -> str:
    """What it has said so far; a process on a busy machine takes a while to open its log."""
    return process.log.read_text() if process.log.exists() else ""
