"""The custom resource definitions, made from the models.

    python -m weft.kube.resources.crd        writes them below charts/weft/crds

What a model cannot say in a schema is a rule in CEL, with the remedy in its message. Rules are few
and cheap on purpose: the API server runs them on every write, those of a status included, and
counts their cost against the largest object that the schema allows.

Fields that no model knows are neither pruned nor accepted. The definitions let them pass, and what
`admission` makes refuses them, for every client; where that is not installed, the operator does.
"""

from pathlib import Path
from typing import Any, Final

import yaml

from weft.kube.names import (
    GROUP,
    JOB_KIND,
    JOBS,
    QUEUE_KIND,
    QUEUES,
    VERSION,
    WAIT_REPORT_KIND,
    WAIT_REPORTS,
)
from weft.kube.resources.queue import QueueSpec, QueueStatus
from weft.kube.resources.structural import PRESERVE, Schema, at, keep_unknown, structural
from weft.kube.resources.training_job import TrainingJobSpec, TrainingJobStatus
from weft.kube.resources.wait_report import WaitReportStatus
from weft.model.trial import SUFFIX
from weft.spec.job_file import MAX_NAME, NAME_PATTERN
from weft.spec.plan_commands import WORDS, PlanCommands
from weft.spec.plan_rules import BY_LIBRARY
from weft.spec.pod_fields import (
    ENV_PATTERN,
    GPU_RESOURCE_PATTERN,
    QUALIFIED_PATTERN,
    RESERVED_ANNOTATION_PATTERN,
    RESERVED_ENV_PATTERN,
    RESERVED_PATH_PATTERN,
    RESOURCE_PATTERN,
)
from weft.spec.stage_claims import STAGES

FOLDER: Final = Path(__file__).parents[4] / "charts" / "weft" / "crds"
HEADER: Final = "# Made by `python -m weft.kube.resources.crd`; change the models, not this file.\n"

# The operator names a trial after its gang; a policy lets nobody else do so.
OBJECT_NAME_PATTERN: Final = f"{NAME_PATTERN.removesuffix('$')}([.]{SUFFIX.removeprefix('.')})?$"

Rules = dict[str, tuple[tuple[str, str], ...]]

JOB_RULES: Final[Rules] = {
    "": (
        (
            f"self.metadata.name.matches('{OBJECT_NAME_PATTERN}')",
            f"a job's name has at most {MAX_NAME} characters, a-z, 0-9 and -, because its pods "
            "are named after it: choose another",
        ),
    ),
    "spec": (
        (
            "self == oldSelf",
            "a job cannot be changed once it is submitted: cancel it and submit another",
        ),
        (
            "!has(self.env) || !has(self.env_from)"
            " || !self.env_from.exists(entry, entry.name in self.env)",
            "a variable is set in env and in env_from: set it once",
        ),
        (
            "!has(self.shareable) || !self.shareable || !has(self.resources)"
            " || string(self.resources.gpus) != '0'",
            "a job without GPUs has none to share: remove shareable, or ask for gpus",
        ),
        (
            "!has(self.plans) || has(self.model)",
            "commands by plan are of no use without the model's shape: add model",
        ),
        (
            "!has(self.model) || !has(self.resources) || string(self.resources.gpus) != '0'",
            "a job without GPUs has none to split a model over: remove model, or ask for gpus",
        ),
        (
            "!has(self.plans) || !has(self.model) || !has(self.model.offers)",
            "what the program offers follows from its commands: remove model.offers, or plans",
        ),
        (
            "!has(self.model) || !has(self.model.offers)"
            f" || self.model.offers.all(one, one in {sorted(map(str, BY_LIBRARY))})",
            "Weft's library does not run a model so: offer less, or give commands under plans",
        ),
    ),
    "spec.model": (
        (
            "self.parameters >= self.layers"
            " + (has(self.vocabulary) ? 2 * self.vocabulary * self.hidden : 0)",
            "these parameters are fewer than the embedding has: count all of the model",
        ),
    ),
    "spec.plans": (
        (
            " || ".join(f"has(self.{name})" for name in PlanCommands.model_fields),
            "no family of plans has a command: give one, or remove plans",
        ),
        *(
            (
                f"!has(self.{name}) || self.{name}.contains('{{{name}}}')",
                f"the command of {name} is not told how many: put {{{name}}} where the degree goes",
            )
            for name in ("tensor", "pipeline")
        ),
        *(
            (
                f"!has(self.{name}) || !self.{name}.contains('{{pipeline}}')"
                f" || self.{name}.contains('{{micro_batch')",
                f"the command of {name} has stages and is not told the micro-batches: put "
                "{micro_batches}, or {micro_batch} for the samples of one",
            )
            for name in PlanCommands.model_fields
        ),
    ),
    **{
        f"spec.plans.{name}": (
            (
                r"self.findAll('\\$?[{]+[A-Za-z0-9_]+[}]').all(found, found.startsWith('$')"
                f" || found.startsWith('{{{{') || found in {[f'{{{word}}}' for word in WORDS]})",
                "what stands in braces is no placeholder: double the braces if they are meant",
            ),
        )
        for name in PlanCommands.model_fields
    },
    "spec.stages": (
        (
            " || ".join(f"(has(self.{name}) && self.{name} > 0.0)" for name in STAGES),
            "stages that take no time tell nothing: give the seconds of one step",
        ),
        (
            "!has(self.step_seconds) || ("
            + " && ".join(f"(!has(self.{n}) || self.{n} <= self.step_seconds)" for n in STAGES)
            + ")",
            "a stage is longer than the step: raise step_seconds",
        ),
    ),
    "spec.resources": (
        (
            "string(self.gpus) != '0' || has(self.cpus)",
            "a job without GPUs needs cpus: add resources.cpus",
        ),
        (
            "string(self.gpus) != '0' || !(has(self.cpus_per_gpu) || has(self.memory_per_gpu)"
            " || has(self.gpu_type) || has(self.devices_per_gpu))",
            "a job without GPUs has cpus and memory, and no cpus_per_gpu, memory_per_gpu, "
            "gpu_type or devices_per_gpu: remove them, or ask for gpus",
        ),
        (
            "string(self.gpus) == '0' || !(has(self.cpus) || has(self.memory))",
            "a job with GPUs has cpus_per_gpu and memory_per_gpu: write these instead of cpus and "
            "memory",
        ),
    ),
    "spec.resources.gpus": (
        (
            "type(self) == int || !string(self).contains('..') ||"
            " int(string(self).split('..')[0]) <= int(string(self).split('..')[1])",
            "the range begins above its end: write the smaller number first, such as 4..16",
        ),
    ),
    "spec.resources.devices_per_gpu": (
        (
            f"self.all(name, name.size() <= 200 && name.matches(r'{RESOURCE_PATTERN}'))",
            "a device is named as its resource is, such as rdma/hca: name it so",
        ),
        (
            f"!self.exists(name, name.matches(r'{GPU_RESOURCE_PATTERN}'))",
            "GPUs are no devices beside a GPU: ask for them by gpus and gpu_type",
        ),
    ),
    "spec.annotations": (
        (
            f"self.all(name, name.size() <= 316 && name.matches(r'{QUALIFIED_PATTERN}'))",
            "an annotation has a name such as example.com/network: rename it",
        ),
        (
            f"!self.exists(name, name.matches(r'{RESERVED_ANNOTATION_PATTERN}'))",
            "annotations of kubernetes.io, k8s.io, weft.dev and karpenter.sh are for the cluster "
            "or for Weft to set: remove them",
        ),
    ),
    "spec.env_from.[]": (
        (
            "has(self.secret) != has(self.config_map)",
            "a variable comes from one place: name a secret or a config_map",
        ),
    ),
    "spec.env_from.[].name": (
        (
            f"!self.matches('{RESERVED_ENV_PATTERN}')",
            "a variable that Weft or the device plugin sets cannot be set by a job: rename it",
        ),
    ),
    "spec.volumes.[]": (
        (
            "[has(self.claim), has(self.secret), has(self.config_map)].filter(it, it).size() == 1",
            "what is mounted is one thing: name a claim, a secret or a config_map",
        ),
    ),
    "spec.grace": (
        (
            "duration(self) <= duration('10m')",
            "grace is at most 10m: save within 10 minutes",
        ),
    ),
    "spec.env": (
        (
            f"self.all(name, name.size() <= 128 && name.matches('{ENV_PATTERN}'))",
            "a variable's name has letters, digits and _, at most 128, and begins with no digit: "
            "rename it",
        ),
        (
            f"!self.exists(name, name.matches('{RESERVED_ENV_PATTERN}'))",
            "a variable that Weft or the device plugin sets (WEFT_*, PET_*, MASTER_ADDR, RANK, "
            "NVIDIA_VISIBLE_DEVICES and the like) cannot be set by a job: remove it, or rename it",
        ),
    ),
    "spec.volumes.[].path": (
        (
            f"!self.matches('{RESERVED_PATH_PATTERN}')",
            "/proc, /sys, /dev, /run/weft and /run/secrets belong to the system or to Weft: mount "
            "the volume elsewhere",
        ),
    ),
}

QUEUE_RULES: Final[Rules] = {
    "": (
        (
            "self.metadata.name.size() <= 63",
            "a queue's name has at most 63 characters, because pods carry it as a label: choose a "
            "shorter one",
        ),
        (
            "!has(self.spec.parent) || self.spec.parent != self.metadata.name",
            "a queue is not its own parent: name another, or remove parent",
        ),
    ),
    "spec": (
        (
            "!has(self.guaranteed) || !has(self.limit) || self.guaranteed <= self.limit",
            "guaranteed is above limit: raise the limit, or promise less",
        ),
        (
            "!has(self.recipe) || !has(self.parent)",
            "only a queue without a parent has a recipe: set it at the root",
        ),
    ),
}

Column = tuple[str, str, str, int]

JOB_COLUMNS: Final[tuple[Column, ...]] = (
    ("State", "string", ".status.state", 0),
    ("GPUs", "integer", ".status.gpus", 0),
    ("Progress", "string", ".status.progress", 0),
    ("Reason", "string", ".status.reason", 0),
    ("Age", "date", ".metadata.creationTimestamp", 0),
    ("Queue", "string", ".spec.queue", 1),
    ("Message", "string", ".status.message", 1),
)
QUEUE_COLUMNS: Final[tuple[Column, ...]] = (
    ("Parent", "string", ".spec.parent", 0),
    ("Guaranteed", "integer", ".status.guaranteed", 0),
    ("Limit", "integer", ".spec.limit", 0),
    ("Used", "integer", ".status.used", 0),
    ("Waiting", "integer", ".status.waiting", 0),
    ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', 0),
    ("Age", "date", ".metadata.creationTimestamp", 0),
)
WAIT_REPORT_COLUMNS: Final[tuple[Column, ...]] = (
    ("Part", "integer", ".status.part", 0),
    ("Parts", "integer", ".status.parts", 0),
    ("Waiting", "integer", ".status.waiting", 0),
    ("Told", "date", ".status.at", 0),
)


FIRST_DEFAULTS: Final = frozenset(
    {
        *("borrowing", "grace", "preemptible", "priority", "queue"),
        *("resources", "resources.gpus", "retry", "retry.limit", "weight"),
    }
)
"""What the API server writes into jobs and queues: the fields of the first version. It must not
write one that came later, for an older admission policy does not know that field."""


def _with_first_defaults(schema: Schema, path: str = "") -> Schema:
    """The schema without the defaults of fields that came later: the operator knows them."""
    if path and path not in FIRST_DEFAULTS:
        schema.pop("default", None)
    for name, inner in schema.get("properties", {}).items():
        _with_first_defaults(inner, f"{path}.{name}".removeprefix("."))
    return schema


def training_jobs() -> dict[str, Any]:
    """The definition of TrainingJob."""
    schema = _schema(
        "A training job: what its owner asks for, and what has become of it.",
        _with_first_defaults(structural(TrainingJobSpec, defaults=True)),
        structural(TrainingJobStatus, defaults=False),
    )
    schema["required"] = ["spec"]
    at(schema, "spec.resources.gpu_type")["x-kubernetes-list-type"] = "set"
    at(schema, "spec.tolerations")["x-kubernetes-list-type"] = "set"
    _keyed(at(schema, "spec.volumes"), "path")
    _keyed(at(schema, "spec.env_from"), "name")
    _keyed(at(schema, "status.conditions"), "type")
    _add_rules(schema, JOB_RULES)
    version = _version(schema, JOB_COLUMNS)
    version["selectableFields"] = [{"jsonPath": ".spec.queue"}, {"jsonPath": ".status.state"}]
    return _definition(JOBS, JOB_KIND, scope="Namespaced", short="tj", version=version)


def queues() -> dict[str, Any]:
    """The definition of Queue."""
    schema = _schema(
        "A queue: a share of the cluster's GPUs, and what it uses of it.",
        _with_first_defaults(structural(QueueSpec, defaults=True)),
        structural(QueueStatus, defaults=False),
    )
    at(schema, "spec")["default"] = {}
    at(schema, "spec.namespaces")["x-kubernetes-list-type"] = "set"
    _keyed(at(schema, "status.conditions"), "type")
    _add_rules(schema, QUEUE_RULES)
    version = _version(schema, QUEUE_COLUMNS)
    return _definition(QUEUES, QUEUE_KIND, scope="Cluster", short="wq", version=version)


def wait_reports() -> dict[str, Any]:
    """The definition of WaitReport. Its maps are atomic: the server keeps no owner per job."""
    status = structural(WaitReportStatus, defaults=False)
    schema = _schema("Why the jobs of this namespace wait, as of a moment ago.", {}, status)
    del schema["properties"]["spec"]
    for name in ("queued", "admitted"):
        at(schema, f"status.{name}")["x-kubernetes-map-type"] = "atomic"
    version = _version(schema, WAIT_REPORT_COLUMNS)
    del version["subresources"]
    return _definition(
        WAIT_REPORTS, WAIT_REPORT_KIND, scope="Namespaced", short="waits", version=version
    )


def manifests() -> dict[str, str]:
    """File names and their text."""
    found = {JOBS: training_jobs(), QUEUES: queues(), WAIT_REPORTS: wait_reports()}
    return {f"{name}.yaml": HEADER + in_yaml(definition) for name, definition in found.items()}


def schema_of(definition: dict[str, Any]) -> Schema:
    """The schema inside a definition."""
    found: Schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return found


def in_yaml(*documents: dict[str, Any]) -> str:
    """Documents as a person would write them."""
    return yaml.dump_all(documents, Dumper=_Text, sort_keys=False, width=100, allow_unicode=True)


def _schema(description: str, spec: Schema, status: Schema) -> Schema:
    words = {"type": "string"}
    keep_unknown(spec)
    return {
        "type": "object",
        "description": description,
        PRESERVE: True,
        "properties": {
            "apiVersion": words,
            "kind": words,
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        },
    }


def _keyed(schema: Schema, key: str) -> None:
    """A list whose entries are told apart by one of their fields."""
    schema["x-kubernetes-list-type"] = "map"
    schema["x-kubernetes-list-map-keys"] = [key]


def _add_rules(schema: Schema, rules: Rules) -> None:
    for path, ruled in rules.items():
        at(schema, path)["x-kubernetes-validations"] = [
            {"rule": rule, "message": message} for rule, message in ruled
        ]


def _version(schema: Schema, columns: tuple[Column, ...]) -> dict[str, Any]:
    return {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            {"name": name, "type": kind, "jsonPath": path}
            | ({"priority": priority} if priority else {})
            for name, kind, path, priority in columns
        ],
        "schema": {"openAPIV3Schema": schema},
    }


def _definition(
    plural: str, kind: str, *, scope: str, short: str, version: dict[str, Any]
) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": scope,
            "names": {
                "plural": plural,
                "singular": kind.lower(),
                "kind": kind,
                "listKind": f"{kind}List",
                "shortNames": [short],
                "categories": ["weft"],
            },
            "versions": [version],
        },
    }


class _Text(yaml.SafeDumper):
    """Lists indented below their key, and no aliases."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: object) -> bool:
        return True


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in manifests().items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
