"""Real tokens, made and judged by a real API server, with the rights that the chart gives."""

import asyncio
import base64
import itertools
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest

from tests.kube.installed import install_chart
from tests.kube.reports.reporting import (
    ALL_ROUTES,
    FOLLOWER,
    LLAMA,
    METHODS,
    NOWHERE,
    Scene,
    Workers,
    body_for,
    coded,
    expected,
)
from tests.waiting import POLL_SECONDS, hang_guard
from tools.testcluster import ControlPlane
from weft.kube.client.api import Api
from weft.kube.metrics import Metrics
from weft.kube.reports.limits import Limits
from weft.kube.reports.refusal import Refusal
from weft.kube.reports.server import ReportServer, WorkerIdentity
from weft.kube.reports.tokens import Tokens

LOOPBACK = ("127.0.0.1", 0)


@dataclass
class RealTokens:
    """Pods in a real cluster, and tokens that its API server made for them."""

    cluster: ControlPlane
    workers: Workers = field(default_factory=Workers)

    def pod(self, namespace: str, name: str, worker: WorkerIdentity | None = None) -> str:
        """Create a pod that nobody needs to run, and return its uid."""
        spec = {
            "serviceAccountName": "default",
            "automountServiceAccountToken": False,
            "containers": [{"name": "worker", "image": "none"}],
            "schedulerName": "nobody",
        }
        path = f"/api/v1/namespaces/{namespace}/pods"
        pod = self.cluster.api.must("POST", path, {"metadata": {"name": name}, "spec": spec})
        uid = str(pod["metadata"]["uid"])
        if worker:
            self.workers.pods[namespace, name, uid] = worker
        return uid

    def token(self, namespace: str, pod: str = "", uid: str = "", audience: str = "weft") -> str:
        """As the kubelet asks for it: for one audience, bound to one pod."""
        bound = {"kind": "Pod", "apiVersion": "v1", "name": pod, "uid": uid}
        spec = {
            "audiences": [audience] if audience else [],
            "expirationSeconds": 600,
            "boundObjectRef": bound if pod else None,
        }
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default/token"
        return str(self.cluster.api.must("POST", path, {"spec": spec})["status"]["token"])


def real_credentials(cluster: ControlPlane) -> tuple[Workers, dict[str, str]]:
    """For every row of the matrix a token that the API server really made, or a forgery of one."""
    real = RealTokens(cluster)
    for namespace in ("lab", "prod"):
        cluster.add_namespace(namespace)
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        cluster.api.send("POST", path, {"metadata": {"name": "default"}})
    real.workers.epochs = {("lab", "llama"): 3, ("lab", "vit"): 1, ("prod", "llama"): 1}
    right = real.pod("lab", "llama-3-0", LLAMA)
    follower = real.pod("lab", "llama-3-7", FOLLOWER)
    old = real.pod("lab", "llama-2-0", WorkerIdentity("lab", "llama", 2, 0))
    vit = real.pod("lab", "vit-1-0", WorkerIdentity("lab", "vit", 1, 0))
    prod = real.pod("prod", "llama-1-0", WorkerIdentity("prod", "llama", 1, 0))
    notebook = real.pod("lab", "notebook")
    gone = real.pod("lab", "llama-3-1", WorkerIdentity("lab", "llama", 3, 1))
    tokens = {
        "right": real.token("lab", "llama-3-0", right),
        "follower": real.token("lab", "llama-3-7", follower),
        "old epoch": real.token("lab", "llama-2-0", old),
        "other job": real.token("lab", "vit-1-0", vit),
        "other namespace": real.token("prod", "llama-1-0", prod),
        "no worker": real.token("lab", "notebook", notebook),
        "other audience": real.token("lab", "llama-3-0", right, audience=""),
        "audience of kubeflow": real.token("lab", "llama-3-0", right, "kubeflow"),
        "no pod": real.token("lab"),
        "gone": real.token("lab", "llama-3-1", gone),
        "admin": cluster.admin_token,
    }
    cluster.api.must("DELETE", "/api/v1/namespaces/lab/pods/llama-3-1?gracePeriodSeconds=0")
    head, claims, signature = tokens["other job"].split(".")
    vit_claims = base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4))
    llama_claims = vit_claims.replace(b"vit-1-0", b"llama-3-0").replace(
        vit.encode(), right.encode()
    )
    assert llama_claims != vit_claims
    tokens["forged"] = ".".join((head, coded(llama_claims), signature))
    unsigned = coded(b'{"alg":"none","typ":"JWT"}')
    tokens["unsigned"] = f"{unsigned}.{tokens['right'].split('.')[1]}.e30"
    return real.workers, tokens


def expected_of_real(credential: str, method: str, path: str) -> int:
    nobody = {"audience of kubeflow", "no pod", "gone", "admin", "forged", "unsigned"}
    return expected("garbage" if credential in nobody else credential, method, path)


def test_real_tokens_open_what_they_should_and_nothing_else(cluster: ControlPlane) -> None:
    workers, tokens = real_credentials(cluster)
    paths = {template.format(namespace="lab", name="llama") for _, template in ALL_ROUTES}
    operator = str(install_chart(cluster))

    async def walk() -> dict[tuple[str, str, str], tuple[int, int]]:
        found = {}
        heard: list[WorkerIdentity] = []
        async with await Api.connect(kubeconfig=operator) as api:
            server = ReportServer(
                Tokens(api),
                workers,
                lambda identity, _: heard.append(identity),
                lambda: True,
                metrics=Metrics(),
                limits=Limits(refused_at_once=1000),
            )
            door, _ = await server.start(workers=LOOPBACK, metrics=LOOPBACK)
            scene = Scene(Path(), url=f"http://127.0.0.1:{door.port}", meetings=server.meetings)
            scene.meet()
            async with aiohttp.ClientSession() as scene.door:
                for credential, token in tokens.items():
                    for method, path in itertools.product(METHODS, sorted(paths | set(NOWHERE))):
                        body = body_for(path) if method == "POST" else None
                        got = await scene.call(method, path, token, body)
                        expecting = expected_of_real(credential, method, path)
                        found[credential, method, path] = (got.status, expecting)
            await server.stop()
        assert heard == [LLAMA, LLAMA, FOLLOWER, FOLLOWER]
        return found

    found = asyncio.run(walk())
    assert {key: got for key, got in found.items() if got[0] != got[1]} == {}
    assert len(found) == len(tokens) * len(METHODS) * (len(paths) + len(NOWHERE))


@pytest.mark.slow
def test_a_real_token_dies_with_its_pod(api_server: ControlPlane) -> None:
    """The API server itself remembers tokens for ten seconds; the directory does not."""
    workers, tokens = real_credentials(api_server)
    now = 0.0

    async def refused(known: Tokens) -> bool:
        nonlocal now
        now += 60.0
        try:
            await known.caller(tokens["right"])
        except Refusal as refusal:
            return refusal.status == 401
        return False

    async def ask() -> None:
        async with await Api.connect(kubeconfig=str(api_server.kubeconfig())) as api:
            known = Tokens(api, clock=lambda: now)
            caller = await known.caller(tokens["right"])
            assert workers.pod(caller.namespace, caller.pod, caller.pod_uid) == LLAMA
            path = f"/api/v1/namespaces/lab/pods/{caller.pod}"
            api_server.api.must("DELETE", f"{path}?gracePeriodSeconds=0")
            RealTokens(api_server).pod("lab", caller.pod)
            async with hang_guard("the token to be refused"):
                while not await refused(known):
                    await asyncio.sleep(POLL_SECONDS)

    asyncio.run(ask())


def test_a_real_review_without_the_right_to_ask(api_server: ControlPlane) -> None:
    _, tokens = real_credentials(api_server)

    async def ask() -> int:
        async with await Api.connect(kubeconfig=str(api_server.kubeconfig("alice"))) as api:
            with pytest.raises(Refusal) as refusal:
                await Tokens(api).caller(tokens["right"])
            return refusal.value.status

    assert asyncio.run(ask()) == 503
