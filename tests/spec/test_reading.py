"""A job file read: the whole of one, and everything that can be wrong with one.

Each refusal names the field, shows the value, says what is allowed and offers a way out.
"""

import json
from pathlib import Path

import pytest

from weft.model.errors import SpecError, UnknownName
from weft.spec.fault import POD_HINT
from weft.spec.job_file import JobFile, JobSpec
from weft.spec.reading import parse_job_file, read_job_file, validated

FULL = """
name: llama-sft
run: torchrun train.py
image: registry/x:tag
workdir: /workspace
resources:
  gpus: 4..16
  gpu_type: [H100, A100]
  cpus_per_gpu: 8
  memory_per_gpu: 64GB
  devices_per_gpu: {rdma/hca: 1}
nodes: 2
nproc_per_node: 1
queue: research
priority: -5
preemptible: false
shareable: true
stages: {gpu_seconds: 0.2}
model: {parameters: 1000000, layers: 2, hidden: 64, sequence: 128, batch: 8}
plans: {data: "python train.py --dp {data}"}
duration: 2h
retry: {limit: 0}
notify: {to: [team], on: [failed]}
checkpoint: {path: /ckpt/llama, every: 10m}
grace: 10m
env: {WANDB_PROJECT: sft}
volumes: [{claim: ckpt-pvc, path: /ckpt, read_only: true}, {secret: key, path: /etc/key}]
env_from: [{name: HF_TOKEN, secret: hub, key: token}, {name: LR, config_map: sft, key: lr}]
service_account: trainer
priority_class: training
tolerations: [example.com/spot]
annotations: {k8s.v1.cni.cncf.io/networks: rdma}
keep_on_failure: 0s
ttl: 7d
"""


def refusal(text: str) -> SpecError:
    with pytest.raises(SpecError) as caught:
        parse_job_file(text, name="job.yaml")
    return caught.value


def test_every_field_is_read() -> None:
    job = parse_job_file(FULL)
    assert set(job.model_fields_set) == set(JobFile.model_fields)
    assert job.name == "llama-sft"
    assert job.resources.width.most == 16
    assert job.memory_gib_per_gpu == pytest.approx(64e9 / 2**30)
    assert (job.grace_seconds, job.checkpoint_seconds) == (600, 600)
    assert (job.keep_on_failure_seconds, job.ttl_seconds) == (0, 604_800)
    assert (job.secrets, job.config_maps) == (["hub", "key"], ["sft"])


def test_a_command_is_enough() -> None:
    job = parse_job_file("run: python train.py")
    assert job.resources.gpus == 1
    assert (job.queue, job.priority, job.preemptible, job.retry.limit) == ("default", 0, True, 3)
    assert (job.grace_seconds, job.checkpoint_seconds, job.ttl_seconds) == (30, 1800, None)
    assert job.spec == {"run": "python train.py"}


def test_what_goes_to_a_cluster_is_what_was_written() -> None:
    job = parse_job_file(FULL)
    assert "name" not in job.spec
    assert validated(JobSpec, job.spec).model_dump() == JobSpec(**job.spec).model_dump()
    assert job.spec["resources"]["gpus"] == "4..16"


def test_one_gpu_type_needs_no_brackets() -> None:
    job = parse_job_file("run: x\nresources: {gpu_type: H100}")
    assert job.spec["resources"]["gpu_type"] == ["H100"]


def test_a_job_without_gpus() -> None:
    job = parse_job_file("run: x\nresources: {gpus: 0, cpus: 16, memory: 100GB}")
    assert job.resources.width.most == 0
    assert job.memory_gib == pytest.approx(1e11 / 2**30)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("rnu: x", "job.yaml line 1, rnu: there is no such field (and 1 more)", "'run'?"),
        ("run: x\ncheckpoints: {}", "line 2, checkpoints: there is no such field", "'checkpoint'?"),
        ("run: x\nresources: {gpu: 4}", "line 2, resources.gpu: there is no", "'gpus'?"),
        ("run: x\ngpus: 4", "line 2, gpus: there is no such field", "'resources.gpus'?"),
        ("run: x\npartition: a", "partition: there is no such field", "'queue'?"),
        ("run: x\nretry: {a: 1}", "retry.a: there is no such field", "fields here: limit"),
        ("run: x\nnodeName: a", "nodeName: there is no such field", POD_HINT),
        ("run: x\naffinity: {}", "affinity: there is no such field", POD_HINT),
        ("run: x\nvolumes: [{hostPath: /}]", "volumes[0].hostPath: there is no", POD_HINT),
        ('{"run":"x","\\u001b[31m":1}', r"'\x1b[31m': there is no such field", "fields here"),
        ("run: x\nenv: {<<: 1}", "env.'<<': '<<' does not fit", "env: {WANDB_PROJECT: sft}"),
    ],
)
def test_a_field_that_does_not_exist(text: str, message: str, hint: str) -> None:
    error = refusal(text)
    assert message in str(error)
    assert hint in error.hint
    assert isinstance(error, UnknownName) == ("no such field" in message or "there is" in message)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("", "job.yaml: holds no fields", "weft spec init"),
        ("[]", "job.yaml: holds no fields", "weft spec init"),
        ("name: x", "run: is missing; allowed: text of 1", "run: torchrun"),
        ("run:", "line 1, run: nothing is not text", "run: torchrun"),
        ("run: '   '", "run: '   ' does not fit", "run: torchrun"),
        ("run: x\nresources: 3", "resources: 3 is not a set of fields", "resources: {gpus"),
        ("run: x\nresources: {gpus: 16..4}", "'16..4' begins above its end", "write 4..16"),
        ("run: x\nresources: {gpus: 4..}", "gpus: '4..' is no number of GPUs", "4..16"),
        ("run: x\nresources: {gpus: -1}", "gpus: -1 is no number of GPUs; allowed", "4..16"),
        ("run: x\nresources: {gpus: 0}", "resources.cpus: a job without GPUs needs", "add cpus"),
        ("run: x\nresources: {cpus: 4}", "a job with GPUs cannot have cpus", "cpus_per_gpu"),
        ("run: x\nresources: {memory: 4GB}", "cannot have memory", "write memory_per_gpu"),
        (
            "run: x\nresources: {gpus: 0, cpus: 1, gpu_type: A}",
            "a job without GPUs cannot have gpu_type",
            "remove it",
        ),
        (
            "run: x\nresources: {gpus: 0, cpus_per_gpu: 1}",
            "a job without GPUs cannot have cpus_per_gpu",
            "write cpus",
        ),
        ("run: x\nresources: {gpu_type: [A, A]}", "a name is listed twice", "once"),
        ("run: x\nresources: {gpu_type: []}", "[] has too few entries", "[H100, A100]"),
        ("run: x\nresources: {cpus_per_gpu: 0}", "cpus_per_gpu: 0 is too small", ": 8"),
        ("run: x\nresources: {cpus_per_gpu: 1e999}", "cpus_per_gpu: inf is", ": 8"),
        ("run: x\nresources: {memory_per_gpu: 64G}", "'64G' does not fit; allowed", ": 64GB"),
        ("run: x\nenv: {A: 3}", "env.A: 3 is not text", 'in quotes: "3"'),
        ("run: x\nenv: {A: true}", "env.A: True is not text", 'in quotes: "true"'),
        ("run: x\nenv: {RANK: '3'}", "env.RANK: 'RANK' is set by Weft", "rename"),
        ("run: x\nenv: {NVIDIA_VISIBLE_DEVICES: all}", "is set by Weft", "remove"),
        ("run: x\nenv: [A]", "env: ['A'] is not a set of fields", "env: {WANDB"),
        ("run: x\npriority: high", "priority: 'high' is not a whole number", "priority: 10"),
        ("run: x\npriority: 5000", "5000 is too large; allowed: a whole", "priority: 10"),
        ("run: x\npriority: true", "True is not a whole number", "priority: 10"),
        ("run: x\npreemptible: yes", "'yes' is neither true nor false", "preemptible: false"),
        ("run: x\ngrace: 11m", "'11m' is longer than 10m", "10 minutes"),
        ("run: x\ngrace: 1h", "'1h' does not fit", "grace: 2m"),
        ("run: x\nttl: 7", "ttl: 7 is not text", "ttl: 7d"),
        ("run: x\ncheckpoint: {every: 0s}", "checkpoint.every: '0s' does", "every: 10m"),
        ("run: x\nvolumes: [{claim: a}]", "volumes[0].path: is missing", "path: /ckpt"),
        ("run: x\nvolumes: [{path: /a}]", "mounted at /a is one thing", "a claim, a secret"),
        ("run: x\nvolumes: [{claim: a, secret: b, path: /a}]", "is one thing", "or a config_map"),
        ("run: x\nenv_from: [{name: A, key: k}]", "A comes from one place", "name a secret"),
        ("run: x\nenv_from: [{name: RANK, secret: a, key: k}]", "set by Weft", "rename it"),
        (
            "run: x\nenv: {A: b}\nenv_from: [{name: A, secret: a, key: k}]",
            "'A' is set twice",
            "set it once",
        ),
        (
            "run: x\nenv_from: ["
            + ", ".join(f"{{name: A{n}, secret: s{n}, key: k}}" for n in range(9))
            + "]",
            "9 Secrets are more than 8",
            "fewer",
        ),
        ("run: x\nresources: {devices_per_gpu: {nvidia.com/gpu: 1}}", "no device", "by gpus"),
        ("run: x\nresources: {devices_per_gpu: {rdma: 1}}", "'rdma' does not fit", "rdma/hca"),
        ("run: x\nresources: {devices_per_gpu: {a/b: 0.5}}", "have none of it", "more gpus"),
        (
            "run: x\nresources: {gpus: 0, cpus: 1, devices_per_gpu: {a/b: 1}}",
            "a job without GPUs cannot have devices_per_gpu",
            "ask for gpus",
        ),
        ("run: x\nannotations: {weft.dev/leader: a}", "for Weft to set", "remove it"),
        ("run: x\nannotations: {x.k8s.io/y: a}", "for the cluster", "remove it"),
        ("run: x\ntolerations: [a, a]", "listed twice", "once"),
        ("run: x\nvolumes: [{claim: a, path: /a/../b}]", "'/a/../b' does not fit", "/ckpt"),
        ("run: x\nvolumes: [{claim: a, path: /dev/shm}]", "belongs to the system", "elsewhere"),
        (
            "run: x\nvolumes: [{claim: a, path: /x}, {claim: b, path: /x}]",
            "volumes: '/x' is mounted twice",
            "its own path",
        ),
        ("run: x\nname: Foo_bar", "name: 'Foo_bar' does not fit", "name: llama-sft"),
        (f"run: x\nname: {'a' * 51}", "is too long; allowed: a-z", "name: llama-sft"),
        ("run: x\nworkdir: relative", "workdir: 'relative' does not fit", "/workspace"),
        (f"run: {'x' * 32_001}", "is too long; allowed: text of 1 to 32000", "run: torchrun"),
    ],
)
def test_what_does_not_fit(text: str, message: str, hint: str) -> None:
    error = refusal(text)
    assert message in str(error)
    assert hint in error.hint
    assert len(str(error)) < 400


@pytest.mark.parametrize(
    "path",
    ["/a", "/a/b", "/a.b/c-d", "/.cache/x", "/data_1/@x+y", "/a..b"],
)
def test_paths_that_may_be_mounted(path: str) -> None:
    assert parse_job_file(f"run: x\nvolumes: [{{claim: a, path: {path}}}]").volumes[0].path == path


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "//",
        "/a/",
        "/a//b",
        "/..",
        "/a/..",
        "/../a",
        "/.",
        "/a/./b",
        "a",
        "~/a",
        "/a:b",
        "/a b",
        "/ä",
        "/a\\b",
        "/proc",
        "/proc/1",
        "/sys",
        "/dev",
        "/run/weft",
        "/var/run/weft/x",
        "/var/run/secrets",
        "/run/secrets/kubernetes.io",
    ],
)
def test_paths_that_may_not_be_mounted(path: str) -> None:
    with pytest.raises(SpecError):
        validated(JobSpec, {"run": "x", "volumes": [{"claim": "a", "path": path}]})


@pytest.mark.parametrize(
    "path", ["/", "/home/al/my project", "/data/Schüler (2)/", "/a/.cache", "/a..b", "/it's & co"]
)
def test_a_folder_to_work_in_may_be_any_that_one_can_stand_in(path: str) -> None:
    job = parse_job_file(json.dumps({"run": "x", "workdir": path, "checkpoint": {"path": path}}))
    assert job.workdir == path
    assert job.checkpoint is not None and job.checkpoint.path == path


@pytest.mark.parametrize("path", ["", "a", "/a/../b", "/..", "/a/./b", "/a//b", "/a\nb", "/a\0b"])
def test_a_folder_to_work_in_is_absolute_and_plain(path: str) -> None:
    with pytest.raises(SpecError, match="workdir"):
        parse_job_file(json.dumps({"run": "x", "workdir": path}))


def test_a_file_is_read_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(FULL)
    assert read_job_file(path) == parse_job_file(FULL)
    path.write_text("run: 3")
    with pytest.raises(SpecError, match=r"^job.yaml line 1, run: 3 is not text"):
        read_job_file(path)
    path.write_bytes(b"#" * 1_000_000)
    with pytest.raises(SpecError, match="bytes long"):
        read_job_file(path)
    with pytest.raises(SpecError, match="cannot be read: No such file"):
        read_job_file(tmp_path / "none.yaml")
