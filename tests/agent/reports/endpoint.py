"""The operator's own endpoint, for agents to speak to; only the API server's word is made up."""

import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.kube.reports.reporting import FOLLOWER, LLAMA, TOKENS, Vouching, Workers, vouched
from tests.waiting import HANG_SECONDS
from weft.agent.reports.operator_client import Destination
from weft.kube.metrics import Metrics
from weft.kube.pod_environment import TOKEN_FILE
from weft.kube.pods import PodMaker, WorkerSettings
from weft.kube.reports.limits import USUAL, Limits
from weft.kube.reports.listener import TlsFiles
from weft.kube.reports.payload import Report
from weft.kube.reports.server import ReportServer, WorkerIdentity
from weft.kube.reports.tokens import Tokens
from weft.kube.resources.training_job import TrainingJobSpec
from weft.model.ids import NodeId
from weft.model.placement import Seat


def pod_environment(url: str, token_file: Path, ca_path: str = "") -> dict[str, str]:
    """As a real pod has it, but for the place of its token."""
    settings = WorkerSettings(default_image="none", report_url=url, report_ca_path=ca_path)
    spec = TrainingJobSpec.model_validate({"run": "python train.py"})
    maker = PodMaker(settings, namespace="lab", name="llama", uid="uid", spec=spec)
    made = maker.pod(epoch=3, seats=(Seat(NodeId("n0"), 8),), number=0, leader=1)
    (container,) = made["spec"]["containers"]
    environ = {entry["name"]: entry["value"] for entry in container["env"] if "value" in entry}
    assert environ["WEFT_TOKEN_FILE"] == TOKEN_FILE
    return environ | {"WEFT_TOKEN_FILE": str(token_file)}


@dataclass
class Endpoint:
    """The operator's own server on loopback; only the API server's word is a stand-in's."""

    environ: dict[str, str]
    token_file: Path
    heard: list[tuple[WorkerIdentity, Report]] = field(default_factory=list)
    leading: bool = True

    def destination(self) -> Destination:
        found = Destination.from_environment(self.environ)
        assert found is not None
        return found

    def of(self, token: str) -> Destination:
        """The same, for a pod with another token."""
        path = self.token_file.with_name(f"token-{token}")
        path.write_text(TOKENS[token])
        return replace(self.destination(), token_file=path)


@asynccontextmanager
async def an_endpoint(
    folder: Path, *, limits: Limits = USUAL, tls: TlsFiles | None = None
) -> AsyncIterator[Endpoint]:
    words = {
        TOKENS["right"]: vouched("lab", "llama-3-0", "u3"),
        TOKENS["follower"]: vouched("lab", "llama-3-7", "u7"),
        TOKENS["old epoch"]: vouched("lab", "llama-2-0", "u2"),
    }
    workers = Workers(
        pods={
            ("lab", "llama-3-0", "u3"): LLAMA,
            ("lab", "llama-3-7", "u7"): FOLLOWER,
            ("lab", "llama-2-0", "u2"): replace(LLAMA, epoch=2),
        },
        epochs={("lab", "llama"): 3},
    )
    endpoint = Endpoint({}, folder / "token")
    endpoint.token_file.write_text(TOKENS["right"])
    server = ReportServer(
        Tokens(Vouching({**words})),
        workers,
        lambda identity, report: endpoint.heard.append((identity, report)),
        lambda: endpoint.leading,
        metrics=Metrics(),
        limits=limits,
    )
    door, _ = await server.start(workers=("127.0.0.1", 0), metrics=None, tls=tls)
    scheme, name = ("https", "localhost") if tls else ("http", "127.0.0.1")
    endpoint.environ = pod_environment(
        f"{scheme}://{name}:{door.port}", endpoint.token_file, str(tls.certificate) if tls else ""
    )
    try:
        yield endpoint
    finally:
        await server.stop()


def a_certificate(folder: Path, host: str = "localhost") -> TlsFiles:
    folder.mkdir(exist_ok=True)
    files = TlsFiles(folder / "tls.crt", folder / "tls.key")
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    made += ["-nodes", "-keyout", str(files.key), "-out", str(files.certificate), "-days", "2"]
    made += ["-subj", f"/CN={host}", "-addext", f"subjectAltName=DNS:{host}"]
    subprocess.run(made, check=True, capture_output=True, timeout=HANG_SECONDS)
    return files
