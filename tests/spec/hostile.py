"""Job specs of people who do not mean well, or type badly: valid ones, bent in random places.

`KNOWN` lists the fields once more, by hand, so that a test does not ask the code under test what
it should know.
"""

import json
from collections.abc import Iterator
from copy import deepcopy
from random import Random
from typing import Any, Final

Spec = dict[str, Any]

KNOWN: Final[dict[str, frozenset[str]]] = {
    "": frozenset(
        (
            "run",
            "image",
            "workdir",
            "resources",
            "nodes",
            "queue",
            "priority",
            "preemptible",
            "shareable",
            "stages",
            "model",
            "plans",
            "duration",
            "retry",
            "checkpoint",
            "grace",
            "env",
            "volumes",
            "env_from",
            "service_account",
            "priority_class",
            "tolerations",
            "annotations",
            "keep_on_failure",
            "ttl",
        )
    ),
    "resources": frozenset(
        ("gpus", "gpu_type", "cpus_per_gpu", "memory_per_gpu", "devices_per_gpu", "cpus", "memory")
    ),
    "stages": frozenset(
        (
            "storage_seconds",
            "cpu_seconds",
            "gpu_seconds",
            "network_seconds",
            "step_seconds",
            "gpu_memory",
        )
    ),
    "model": frozenset(
        (
            *("parameters", "layers", "hidden", "sequence", "batch"),
            *("vocabulary", "heads", "offers"),
        )
    ),
    "plans": frozenset(("data", "zero1", "zero2", "fsdp2", "tensor", "pipeline")),
    "retry": frozenset(("limit",)),
    "checkpoint": frozenset(("path", "every")),
    "volumes": frozenset(("claim", "secret", "config_map", "path", "read_only")),
    "env_from": frozenset(("name", "secret", "config_map", "key")),
}

# What a pod has and a job has not: each would be a way out, were it to reach a pod.
ESCAPES: Final[tuple[tuple[str, Any], ...]] = (
    ("nodeName", "control-plane-0"),
    ("nodeSelector", {"node-role.kubernetes.io/control-plane": ""}),
    ("hostNetwork", True),
    ("hostPID", True),
    ("hostIPC", True),
    ("privileged", True),
    ("securityContext", {"privileged": True, "runAsUser": 0}),
    ("serviceAccountName", "cluster-admin"),
    ("serviceAccount", "cluster-admin"),
    ("automountServiceAccountToken", True),
    ("tolerations", [{"operator": "Exists"}]),
    ("hostPath", {"path": "/"}),
    ("containers", [{"name": "x", "image": "x"}]),
    ("initContainers", [{"name": "x", "image": "x"}]),
    ("capabilities", {"add": ["SYS_ADMIN"]}),
    ("runtimeClassName", "gvisor"),
    ("priorityClassName", "system-node-critical"),
    ("schedulerName", "mine"),
    ("affinity", {}),
    ("hostAliases", []),
    ("annotations", {"container.apparmor.security.beta.kubernetes.io/worker": "unconfined"}),
    ("service_account", "../default"),
    ("plans", {"data": "awk '{print}'"}),
    ("priority_class", "System"),
    ("labels", {"weft.dev/job": "another"}),
    ("ownerReferences", []),
    ("envFrom", [{"secretRef": {"name": "s"}}]),
    ("secretName", "s"),
    ("name", "other"),
    ("__class__", "x"),
    ("__proto__", {}),
    ("model_config", {"extra": "allow"}),
    ("$ref", "#/x"),
    ("", 1),
    ("run ", "x"),
    ("RUN", "x"),
    ("\u0440un", "x"),
    ("\x00", 1),
    ("\ud800", 1),
    ("a" * 10_000, 1),
)

VALUES: Final[tuple[Any, ...]] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**63,
    2**64,
    10**400,
    -(10**30),
    0.5,
    1e308,
    float("nan"),
    float("inf"),
    float("-inf"),
    "",
    " ",
    "\n",
    "\x00",
    "x\x00y",
    "\ud800",
    "\u202e",
    "\U0001f600" * 50,
    "a" * 100_000,
    "..",
    "../../etc/passwd",
    "/",
    "/proc/1/root",
    "/var/run/docker.sock",
    "/dev/mem",
    "/a/../../b",
    "//",
    "$(WEFT_TOKEN_FILE)",
    "$$(X)",
    "`id`",
    "'; rm -rf / #",
    "{{ .Values }}",
    "%s%n",
    "<script>alert(1)</script>",
    "4..",
    "..4",
    "16..4",
    "0..8",
    "1..99999",
    "100000",
    "1e9",
    "0x10",
    "010",
    "NaN",
    "64GB",
    "0GB",
    "999999999TB",
    "-1GB",
    "64G",
    "0s",
    "00s",
    "10m",
    "999d9999h99999m9999999s",
    "1s1m",
    "-5m",
    "11m",
    "2026-01-01",
    "default",
    "H100",
    "A" * 64,
    "-a",
    "a-",
    "a.b",
    "A_B",
    b"bytes",
    (),
    [],
    {},
    [None],
    [[]],
    [[[[[[[[[["deep"]]]]]]]]]],
    {"a": {"a": {"a": {"a": {"a": {}}}}}},
    ["x"] * 5_000,
    {"x": "y"},
    {"$(X)": "y"},
    {str(number): "x" for number in range(3_000)},
    [{"claim": "a", "path": "/a"}] * 40,
    [{"claim": "a", "path": "/a"}, {"claim": "b", "path": "/a"}],
    {1: 2},
)

NAMES: Final = (
    "A",
    "_x",
    "WANDB_PROJECT",
    "RANK",
    "WEFT_JOB",
    "PET_NNODES",
    "MASTER_ADDR",
    "NVIDIA_VISIBLE_DEVICES",
    "LD_PRELOAD",
    "a-b",
    "1A",
    "A=B",
    "",
    "A" * 200,
    "\u00c4",
    "A\n",
)


PATHS: Final = (
    "/a",
    "/a",
    "/b/c",
    "/.cache",
    "/proc",
    "/sys/fs/cgroup",
    "/dev/shm",
    "/var/run/weft",
    "/run/secrets/x",
    "/a/",
    "/a/../b",
    "/",
    "relative",
    "/a:b",
)


def specs(random: Random, count: int) -> Iterator[Spec]:
    """About a third of them as they should be, the others bent in one to three places."""
    for _ in range(count):
        spec = a_spec(random)
        for _ in range(random.choice((0, 1, 1, 1, 2, 3))):
            spec = bent(random, spec)
        yield spec


MODEL: Final = {"parameters": 10**9, "layers": 24, "hidden": 2048, "sequence": 2048, "batch": 64}
COMMANDS: Final = (
    "python train.py --tp {tensor}",
    "torchrun t.py {tensor} {pipeline} {micro_batches} ${HOME} {{print}}",
    "awk '{{print}}' {tensor}",
)


def texts(random: Random, count: int) -> Iterator[bytes]:
    """The same as files, some of them broken on the way."""
    for spec in specs(random, count):
        text = json.dumps(spec, default=repr).encode("utf-8", "surrogatepass")
        yield random.choice((_as_is, _as_is, _flow, _torn, _flipped, _aliased))(random, text)


def a_spec(random: Random) -> Spec:
    """A valid spec with some of its fields."""
    spec: Spec = {"run": random.choice(("python train.py", "echo $HOME $$ $(date)\nexit 3", "x"))}
    if random.random() < 0.8:
        spec["resources"] = _resources(random)
    options: dict[str, Any] = {
        "image": random.choice(("busybox", "registry.example.com:5000/a/b@sha256:00ff")),
        "workdir": "/work",
        "nodes": random.randint(1, 64),
        "queue": random.choice(("default", "research.vision")),
        "priority": random.randint(-1000, 1000),
        "preemptible": random.random() < 0.5,
        "stages": {"storage_seconds": 0.1, "gpu_seconds": 1, "gpu_memory": "9GB"},
        "model": {**MODEL, **random.choice(({}, {"vocabulary": 32_000}, {"heads": 16}))},
        "duration": random.choice(("90s", "2h", "1d12h")),
        "retry": {"limit": random.randint(0, 100)},
        "checkpoint": {"path": "/ckpt/a", "every": "10m"},
        "grace": random.choice(("1s", "30s", "10m", "9m59s")),
        "env": {random.choice(("A", "WANDB_PROJECT", "_x1")): random.choice(("", "$(A)", "ä"))},
        "volumes": [
            {"claim": "data.set-1", "path": "/data", "read_only": True},
            {"claim": "data.set-1", "path": "/.cache/hub"},
            {random.choice(("secret", "config_map")): "data.set-1", "path": "/etc/set"},
        ],
        "env_from": [
            {"name": "HF_TOKEN", "secret": "hub", "key": "token"},
            {"name": "EPOCHS", "config_map": "hub", "key": "epochs.txt"},
        ],
        "service_account": "trainer",
        "priority_class": "training.low",
        "tolerations": ["example.com/spot", "spot"],
        "annotations": {"k8s.v1.cni.cncf.io/networks": "rdma"},
        "keep_on_failure": random.choice(("0s", "30m")),
        "ttl": random.choice(("0s", "7d")),
    }
    spec |= {name: value for name, value in options.items() if random.random() < 0.4}
    if str(spec.get("resources", {}).get("gpus")) == "0":
        spec.pop("model", None)  # it has none to split a model over
    if "model" in spec and random.random() < 0.5:
        spec["plans"] = {random.choice(("data", "tensor")): random.choice(COMMANDS)}
    return spec


def bent(random: Random, spec: Spec) -> Spec:
    """The spec with one thing about it changed."""
    spec = deepcopy(spec)
    place = random.choice(list(_objects(spec)))
    way = random.random()
    if way < 0.3:
        name, value = random.choice(ESCAPES)
        place[name] = value
    elif way < 0.4 and place:
        del place[random.choice(list(place))]
    elif way < 0.5:
        spec["env"] = {random.choice(NAMES): random.choice(VALUES) for _ in range(3)}
    elif way < 0.55:
        spec["volumes"] = [{"claim": "a", "path": random.choice(PATHS)} for _ in range(2)]
    elif way < 0.65:
        place[random.choice(sorted(KNOWN[""] | KNOWN["resources"]))] = random.choice(VALUES)
    elif place:
        place[random.choice(list(place))] = random.choice(VALUES)
    return spec


def unknown_fields(spec: object) -> list[str]:
    """Fields of a spec that no job has."""
    if not isinstance(spec, dict):
        return ["."]
    found = [str(name) for name in spec if name not in KNOWN[""]]
    for part in ("resources", "stages", "model", "plans", "retry", "checkpoint"):
        inner = spec.get(part)
        found += [f"{part}.{name}" for name in inner or () if name not in KNOWN[part]]
    for part in ("volumes", "env_from"):
        for entry in spec.get(part) or ():
            found += [f"{part}.{name}" for name in entry if name not in KNOWN[part]]
    return found


def _resources(random: Random) -> Spec:
    if random.random() < 0.2:
        return {"gpus": random.choice((0, "0")), "cpus": random.choice((1, 0.5)), "memory": "1GiB"}
    options: Spec = {
        "gpus": random.choice((1, 8, "4", "4..16", 99_999)),
        "gpu_type": random.choice((["H100"], ["A100", "NVIDIA-H100-80GB-HBM3"])),
        "cpus_per_gpu": random.choice((1, 7.5, 4096)),
        "memory_per_gpu": random.choice(("64GB", "1.5TiB", "500Mi")),
        "devices_per_gpu": {"rdma/hca": 1, "vpc.amazonaws.com/efa": random.choice((4, 2.5))},
    }
    return {name: value for name, value in options.items() if random.random() < 0.7}


def _objects(value: object) -> Iterator[Spec]:
    if isinstance(value, dict):
        yield value
        for inner in list(value.values()):
            yield from _objects(inner)
    elif isinstance(value, list):
        for inner in value[:3]:
            yield from _objects(inner)


def _as_is(random: Random, text: bytes) -> bytes:
    return text


def _flow(random: Random, text: bytes) -> bytes:
    """No longer JSON, still YAML."""
    return b"# a job\n" + text


def _torn(random: Random, text: bytes) -> bytes:
    return text[: random.randrange(len(text) + 1)]


def _flipped(random: Random, text: bytes) -> bytes:
    found = bytearray(text)
    for _ in range(random.randint(1, 4)):
        found[random.randrange(len(found))] = random.randrange(256)
    return bytes(found)


def _aliased(random: Random, text: bytes) -> bytes:
    ways = (
        b"a: &a [x]\nb: [*a, *a]\n",
        b"run: &r x\nworkdir: *r\n",
        b"<<: {run: x}\nrun: !!python/name:os.system\n",
        b"---\n" + text + b"\n---\n" + text,
        b"run: x\nresources: " + b"{gpus: " * 500,
        b"run: x\nenv:\n" + b"".join(b"  V%d: x\n" % number for number in range(3_000)),
        b"run: |\n" + b"  echo x\n" * 20_000,
    )
    return random.choice(ways)
