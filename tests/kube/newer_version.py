"""A version of the operator that is one field ahead: what an upgrade brings, and a rollback leaves.

The field stands for any that a later version may add. The newer custom resource definition and the
newer admission policy know it, and a replica of the newer version reads it; a replica of today's
version is then the older one.
"""

from typing import Any, Final

from pydantic import Field

from tests.kube.installed import Manifest, path_of, render
from tools.testcluster import ControlPlane
from tools.testcluster.rest import MERGE_PATCH
from weft.kube.operator.observation import stored_spec
from weft.kube.resources.training_job import TrainingJobSpec

FIELD: Final = "cadence"
AFTER: Final = "'keep_on_failure'"  # where the policy lists a job's fields
DEFINITION: Final = "trainingjobs.weft.dev"
POLICY: Final = "weft-known-fields-trainingjobs"


class NewerSpec(TrainingJobSpec):
    """As today, with one field more."""

    cadence: str = Field("", description="Nobody knows yet.")


def become_newer() -> None:
    """This process is of the newer version from now on."""
    vars(stored_spec)["TrainingJobSpec"] = NewerSpec


def bring_newer(cluster: ControlPlane) -> Manifest:
    """The objects that come with the newer version; gives the older definition."""
    (policy,) = [
        m for m in render() if m["metadata"]["name"] == POLICY and "variables" in m["spec"]
    ]
    (unknown,) = policy["spec"]["variables"]
    known = {**unknown, "expression": unknown["expression"].replace(AFTER, f"'{FIELD}', {AFTER}")}
    cluster.api.must("PATCH", path_of(policy), {"spec": {"variables": [known]}}, MERGE_PATCH)
    (older,) = [m for m in render() if m["metadata"]["name"] == DEFINITION]
    cluster.api.must("PATCH", path_of(older), {"spec": _with_the_field(older)}, MERGE_PATCH)
    return older


def take_back(cluster: ControlPlane) -> None:
    """The policy of the older version; definitions stay, as helm never changes them."""
    (policy,) = [
        m for m in render() if m["metadata"]["name"] == POLICY and "variables" in m["spec"]
    ]
    variables = policy["spec"]["variables"]
    cluster.api.must("PATCH", path_of(policy), {"spec": {"variables": variables}}, MERGE_PATCH)


def restore(cluster: ControlPlane, older: Manifest) -> None:
    versions = {"spec": {"versions": older["spec"]["versions"]}}
    cluster.api.must("PATCH", path_of(older), versions, MERGE_PATCH)


def _policy() -> Manifest:
    named = [m for m in render() if m["metadata"]["name"] == POLICY]
    (policy,) = [m for m in named if m["kind"] == "ValidatingAdmissionPolicy"]
    return policy


def _with_the_field(definition: Manifest) -> dict[str, Any]:
    (version,) = definition["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    spec = schema["properties"]["spec"]
    spec = {**spec, "properties": {**spec["properties"], FIELD: {"type": "string"}}}
    schema = {**schema, "properties": {**schema["properties"], "spec": spec}}
    return {"versions": [{**version, "schema": {"openAPIV3Schema": schema}}]}
