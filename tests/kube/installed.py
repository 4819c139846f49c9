"""The chart as an administrator installs it, in a second and without a kubelet.

Whatever plays the operator in a test has the rights that the chart gives and no others: it runs
with a token of the chart's own service account. Nothing waits for pods of the operator, because a
test brings its own, so the Deployment is left out.
"""

import hashlib
import json
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from tests.waiting import until
from tools.testcluster import ControlPlane
from tools.testcluster.binaries import find
from tools.testcluster.rest import APPLY_PATCH, Rest
from weft.kube.names import API_VERSION, LEASE
from weft.model.errors import WorldError

Manifest = dict[str, Any]

CHART: Final = Path(__file__).parents[2] / "charts" / "weft"
NAMESPACE: Final = "weft-system"
OPERATOR: Final = "weft-operator"
KUBERNETES: Final = "v1.35.8"  # what `helm template` takes the cluster to be
LEFT_OUT: Final = ("Deployment", "PrometheusRule", "ServiceMonitor")


def install_chart(cluster: ControlPlane, values: Mapping[str, Any] | None = None) -> Path:
    """Install what the chart renders, or bring it up to date; the operator's kubeconfig comes back.

    It returns when the custom resources are served and the operator's rights hold.
    """
    manifests = [each for each in render(values) if each["kind"] not in LEFT_OUT]
    definitions = [each for each in manifests if each["kind"] == "CustomResourceDefinition"]
    _apply(cluster.api, [_namespace(), *definitions])
    until(lambda: _serves(cluster.api, definitions), "the custom resources")
    _apply(cluster.api, (each for each in manifests if each not in definitions))
    kubeconfig = cluster.service_account_kubeconfig(NAMESPACE, OPERATOR)
    with Rest(cluster.layout.api_port, cluster.ca, token_of(kubeconfig)) as operator:
        until(lambda: _may_lead(operator), "the operator's rights")
    return kubeconfig


def render(values: Mapping[str, Any] | None = None) -> list[Manifest]:
    """Every manifest of the chart, custom resource definitions included."""
    return _rendered(_fingerprint(), json.dumps(values or {}, sort_keys=True))


def helm(*words: str, text: str = "") -> str:
    """What helm printed; raises with its complaint if it failed."""
    done = subprocess.run(
        [str(find("helm")), *words], input=text, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise WorldError(f"helm {' '.join(words)}: {done.stdout}{done.stderr}".strip())
    return done.stdout


def path_of(manifest: Manifest) -> str:
    """Where the API server keeps it; whatever has no namespace is the cluster's."""
    version, about = manifest["apiVersion"], manifest["metadata"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    within = f"/namespaces/{about['namespace']}" if "namespace" in about else ""
    kind = str(manifest["kind"]).lower()
    plural = (
        f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}{'es' if kind.endswith('s') else 's'}"
    )
    return f"{root}{within}/{plural}/{about['name']}"


def token_of(kubeconfig: Path) -> str:
    return str(json.loads(kubeconfig.read_text())["users"][0]["user"]["token"])


_RENDERED: dict[tuple[str, str], str] = {}


def _rendered(fingerprint: str, values: str) -> list[Manifest]:
    """Rendered once for each state of the chart; handed out as copies."""
    key = fingerprint, values
    if key not in _RENDERED:
        words = ["--namespace", NAMESPACE, "--include-crds", "--kube-version", KUBERNETES]
        text = helm("template", "weft", str(CHART), *words, "--values", "-", text=values)
        documents = yaml.load_all(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        _RENDERED[key] = json.dumps([document for document in documents if document])
    manifests: list[Manifest] = json.loads(_RENDERED[key])
    return manifests


def _fingerprint() -> str:
    digest = hashlib.sha256()
    for file in sorted(CHART.rglob("*")):
        if file.is_file():
            digest.update(f"{file}\0".encode() + file.read_bytes())
    return digest.hexdigest()


def _namespace() -> Manifest:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    about = {"name": NAMESPACE, "labels": labels}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": about}


def _apply(api: Rest, manifests: Iterable[Manifest]) -> None:
    for manifest in manifests:
        path = f"{path_of(manifest)}?fieldManager=chart&force=true&fieldValidation=Strict"
        api.must("PATCH", path, manifest, APPLY_PATCH)


def _serves(api: Rest, definitions: Iterable[Manifest]) -> bool:
    wanted = {definition["spec"]["names"]["plural"] for definition in definitions}
    served = api.send("GET", f"/apis/{API_VERSION}").body.get("resources", ())
    return wanted <= {resource["name"] for resource in served}


def _may_lead(operator: Rest) -> bool:
    """One right of the cluster's role, and one of the namespace's; each set comes as a whole."""
    lead = {"group": "coordination.k8s.io", "resource": "leases", "verb": "update"}
    look = {"group": "", "resource": "nodes", "verb": "list"}
    return _may(operator, lead | {"namespace": NAMESPACE, "name": LEASE}) and _may(operator, look)


def _may(operator: Rest, asked: Mapping[str, str]) -> bool:
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    answer = operator.send("POST", path, {"spec": {"resourceAttributes": asked}})
    return bool(answer.body.get("status", {}).get("allowed"))
