"""Unknown fields are refused, whoever sends them.

    python -m weft.kube.resources.admission      writes charts/weft/files/known-fields.yaml

An API server drops a field that a schema does not know, before any rule or policy can see it; only
a client that asks for strict checks is told. A job with a misspelt `checkpoint` would then run
without one. So the schemas keep unknown fields, and these policies, which the API server evaluates
itself, refuse an object that has any. An object that came to have one before the policies were
there can still be labelled, finalized and deleted.
"""

from pathlib import Path
from typing import Any, Final

from weft.kube.names import GROUP
from weft.kube.resources.crd import in_yaml, queues, schema_of, training_jobs
from weft.kube.resources.structural import Schema

FILE: Final = Path(__file__).parents[4] / "charts" / "weft" / "files" / "known-fields.yaml"
HEADER: Final = (
    "# Made by `python -m weft.kube.resources.admission`; change the models, not this file.\n"
)
API_VERSION: Final = "admissionregistration.k8s.io/v1"
TOP: Final = ("apiVersion", "kind", "metadata", "spec", "status")


def policies() -> list[dict[str, Any]]:
    """A policy and its binding for each kind."""
    found: list[dict[str, Any]] = []
    for definition in (training_jobs(), queues()):
        names = definition["spec"]["names"]
        found.append(_policy(names["plural"], names["singular"], schema_of(definition)))
        found.append(_binding(names["plural"]))
    return found


def manifest() -> str:
    """The file's text."""
    return HEADER + in_yaml(*policies())


def _policy(plural: str, singular: str, schema: Schema) -> dict[str, Any]:
    spec = schema["properties"]["spec"]
    unknown = " + ".join([_strangers("object", TOP, ""), *_below(spec, "object.spec", "spec")])
    return {
        "apiVersion": API_VERSION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": _name(plural)},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [GROUP],
                        "apiVersions": ["*"],
                        "operations": ["CREATE", "UPDATE"],
                        "resources": [plural],
                    }
                ]
            },
            "matchConditions": [
                {
                    "name": "written-anew",
                    "expression": "oldObject == null || object.spec != oldObject.spec"
                    " || object.exists(name, !(name in oldObject))",
                }
            ],
            "variables": [{"name": "unknown", "expression": unknown}],
            "validations": [
                {
                    "expression": "variables.unknown.size() == 0",
                    "reason": "Invalid",
                    "messageExpression": "'there is no field ' + variables.unknown.join(', ')"
                    f" + ': remove it; kubectl explain {singular}.spec lists those that exist'",
                    "message": "it has many fields that do not exist: remove them; "
                    f"kubectl explain {singular}.spec lists those that exist",
                }
            ],
        },
    }


def _below(schema: Schema, value: str, path: str) -> list[str]:
    """CEL lists of the unknown fields of an object and of every object inside it."""
    if "items" in schema:
        inner = " + ".join(_below(schema["items"], "entry", f"{path}[]"))
        return [f"{value}.map(entry, {inner}).flatten()"] if inner else []
    if "properties" not in schema:
        return []
    found = [_strangers(value, tuple(schema["properties"]), f"{path}.")]
    for name, part in schema["properties"].items():
        nothing = "[]" if part.get("type") == "array" else "{}"
        found += _below(part, f"{value}.?{name}.orValue({nothing})", f"{path}.{name}")
    return found


def _strangers(value: str, known: tuple[str, ...], prefix: str) -> str:
    names = ", ".join(f"'{name}'" for name in known)
    return f"{value}.filter(name, !(name in [{names}])).map(name, '{prefix}' + name)"


def _binding(plural: str) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": _name(plural)},
        "spec": {"policyName": _name(plural), "validationActions": ["Deny"]},
    }


def _name(plural: str) -> str:
    return f"weft-known-fields-{plural}"


def main() -> None:
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(manifest())


if __name__ == "__main__":
    main()
