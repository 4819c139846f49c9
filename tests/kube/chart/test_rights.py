"""What the chart lets the operator and people do: as in the golden file, explained, and no more."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.kube.chart.values import EVERYTHING
from tests.kube.installed import OPERATOR, Manifest, render
from weft.kube.names import SETTINGS

GOLDEN = Path(__file__).with_name("golden") / "rbac.yaml"
INSTALL = Path(__file__).parents[3] / "docs" / "install.md"

pytestmark = pytest.mark.usefixtures("helm_is_there")


def test_rights_are_those_of_the_golden_file() -> None:
    assert list(rights(render(EVERYTHING))) == yaml.safe_load(GOLDEN.read_text())


def test_no_right_is_a_wildcard_or_leads_further() -> None:
    rules = [rule for right in rights(render(EVERYTHING)) for rule in right["rules"]]
    assert rules
    for rule in rules:
        assert "*" not in {*rule["apiGroups"], *rule["resources"], *rule["verbs"]}
        assert not FORBIDDEN & {*rule["resources"]} or rule["resourceNames"] in OWN
        assert not {"bind", "escalate", "impersonate", "use"} & {*rule["verbs"]}
        if "nodes" in rule["resources"]:
            assert set(rule["verbs"]) <= {"get", "list", "watch"}


OWN = ([SETTINGS], ["weft-operator-health"])
"""What the chart and the operator themselves keep."""

FORBIDDEN = {
    "secrets",
    "configmaps",
    "serviceaccounts",
    "serviceaccounts/token",
    "pods/exec",
    "pods/attach",
    "pods/portforward",
    "pods/ephemeralcontainers",
    "pods/binding",
    "nodes/proxy",
    "roles",
    "clusterroles",
    "rolebindings",
    "clusterrolebindings",
}


def test_nobody_reads_queues_and_nodes_unless_named() -> None:
    bound = {right["role"]: right["to"] for right in rights(render())}
    assert bound["ClusterRole weft-cluster-view"] == []
    assert bound["Role weft-system/weft-cluster-view"] == []


def test_the_install_page_explains_every_right_of_the_operator() -> None:
    page = INSTALL.read_text()
    own = [right for right in rights(render()) if right["role"].endswith(OPERATOR)]
    rows = [
        f"| `{resource}` | {', '.join(rule['verbs'])} |"
        for right in own
        for rule in right["rules"]
        for resource in rule["resources"]
    ]
    assert [row for row in rows if row not in page] == []


def rights(manifests: list[Manifest]) -> Iterator[dict[str, Any]]:
    """Roles in the order of the golden file, each with those who have it."""
    order = [each["role"] for each in yaml.safe_load(GOLDEN.read_text())]
    roles = {full_name(m): m for m in manifests if m["kind"] in ("Role", "ClusterRole")}
    for name in sorted(roles, key=lambda name: (order.index(name) if name in order else 99, name)):
        joins = aggregations(roles[name])
        yield {
            "role": name,
            **({"joins": joins} if joins else {}),
            "to": list(holders(name, manifests)),
            "rules": roles[name]["rules"],
        }


def aggregations(role: Manifest) -> list[str]:
    prefix = "rbac.authorization.k8s.io/aggregate-to-"
    labels = role["metadata"]["labels"]
    return sorted(label.removeprefix(prefix) for label in labels if label.startswith(prefix))


def holders(role: str, manifests: list[Manifest]) -> Iterator[str]:
    for manifest in manifests:
        if manifest["kind"] not in ("RoleBinding", "ClusterRoleBinding"):
            continue
        about = {"namespace": manifest["metadata"].get("namespace")}
        reference = {"kind": manifest["roleRef"]["kind"], "metadata": about}
        about["name"] = manifest["roleRef"]["name"]
        if full_name(reference) != role:
            continue
        for subject in manifest["subjects"]:
            yield full_name({"kind": subject["kind"], "metadata": subject})


def full_name(manifest: Manifest) -> str:
    about = manifest["metadata"]
    within = f"{about['namespace']}/" if about.get("namespace") else ""
    return f"{manifest['kind']} {within}{about['name']}"
