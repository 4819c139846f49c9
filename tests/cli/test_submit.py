"""From a file to a job: checked here, shown, asked about, and sent as it was shown."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.called import Weft, expect_snapshot, trimmed
from tests.cli.fake_cluster import FakeApi
from weft.kube.client.errors import Invalid

JOB = """\
run: torchrun train.py
image: registry.example.com/team/train:1.4
resources: {gpus: 4..16, gpu_type: H100}
queue: research
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "llama.yaml"
    path.write_text(JOB)
    return path


@pytest.fixture
def a_person(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Somebody at a terminal who gives this answer."""

    def make(answer: str) -> None:
        typed = io.TextIOWrapper(io.BytesIO(f"{answer}\n".encode()))
        monkeypatch.setattr(typed, "isatty", lambda: True)
        monkeypatch.setattr("sys.stdin", typed)
        monkeypatch.setattr("sys.stderr.isatty", lambda: True)

    return make


def test_a_job_is_sent_and_named(weft: Weft, cluster: FakeApi, file: Path) -> None:
    called = weft("submit", file)
    assert called.status == 0
    assert called.out == "research/llama\n"
    expect_snapshot("cluster-submit.txt", trimmed(called.err))
    method, path, body, params = cluster.written[0]
    assert (method, path) == ("POST", "/apis/weft.dev/v1alpha1/namespaces/research/trainingjobs")
    assert params["fieldValidation"] == "Strict"
    assert body["metadata"]["finalizers"] == ["weft.dev/workers"]
    assert body["spec"]["resources"] == {"gpus": "4..16", "gpu_type": ["H100"]}


def test_fields_are_set_on_the_way(weft: Weft, cluster: FakeApi, file: Path) -> None:
    words = ("--set", "resources.gpus=8", "--set", "env.A=b", "--set", "resources.gpu_type=[A100]")
    called = weft("submit", file, *words, "--name", "other", "-n", "prod", "-o", "json")
    assert called.json["schema"] == "weft-submitted/1"
    assert (called.json["namespace"], called.json["name"]) == ("prod", "other")
    assert called.json["spec"]["resources"] == {"gpus": 8, "gpu_type": ["A100"]}
    assert called.json["spec"]["env"] == {"A": "b"}
    assert "weft logs -f other -n prod" in called.err


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        (
            ("run=python train.py", "resources.gpus=16"),
            "1 process on each node, with the job's GPUs there; nproc_per_node: gpu starts",
        ),
        (("run=python train.py", "resources.gpus=8", "nodes=1"), "1 process with 8 GPUs; nproc"),
        (("run=python train.py",), "1 process for each GPU; nproc_per_node: 1 starts one"),
        ((), None),
    ],
)
def test_how_many_processes_start_is_shown(
    weft: Weft, cluster: FakeApi, file: Path, fields: tuple[str, ...], told: str | None
) -> None:
    words = [word for field in fields for word in ("--set", field)]
    called, tried = weft("submit", file, *words), weft("submit", file, "--dry-run", *words)
    assert called.status == tried.status == 0
    if told is None:
        assert "process" not in called.err + tried.err
        return
    assert f"note: {told}" in tried.err
    assert "processes   " in called.err and told in " ".join(called.err.split())


def test_a_dry_run_prints_the_object_and_asks_the_server(
    weft: Weft, cluster: FakeApi, file: Path
) -> None:
    called = weft("submit", file, "--dry-run")
    expect_snapshot("cluster-submit-dry-run.txt", called.out)
    assert "nothing was created" in called.err
    assert cluster.written[0][3]["dryRun"] == "All"
    assert weft("submit", file, "--dry-run", "-o", "json").json["kind"] == "TrainingJob"
    cluster.refuses = "spec.queue: no"
    refused = weft("submit", file, "--dry-run")
    assert refused.status == 5
    assert "error: spec.queue: no" in refused.err


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (("--set", "resources.gpu=8"), "there is no such field", "gpus"),
        (("--set", "gpus"), "sets nothing", "resources.gpus=8"),
        (("--set", "run.x=1"), "'run' has no fields", "--set run=VALUE"),
        (("--set", "resources.gpus=many"), "resources.gpus", "8"),
        (("--name", "No Name"), "'No Name' is no name", "--name"),
    ],
)
def test_what_cannot_be_used_is_refused_here(
    weft: Weft,
    cluster: FakeApi,
    file: Path,
    *,
    words: tuple[str, ...],
    message: str,
    hint: str,
) -> None:
    called = weft("submit", file, *words)
    assert called.status == 2
    first, _, rest = called.err.partition("\nhint: ")
    assert message in first
    assert hint in rest
    assert not cluster.written


def test_a_file_from_standard_input_needs_a_name(
    weft: Weft, cluster: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    def typed() -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(JOB.encode())))

    typed()
    assert "has no name" in weft("submit", "-").err
    typed()
    assert weft("submit", "-", "--name", "piped").out == "research/piped\n"


def test_a_missing_file(weft: Weft, cluster: FakeApi) -> None:
    called = weft("submit", "nowhere.yaml")
    assert called.status == 2
    assert "nowhere.yaml: cannot be read" in called.err


@pytest.mark.parametrize(("answer", "status", "sent"), [("y", 0, 1), ("", 0, 1), ("n", 1, 0)])
def test_a_person_is_asked(
    weft: Weft,
    cluster: FakeApi,
    file: Path,
    a_person: Callable[[str], None],
    *,
    answer: str,
    status: int,
    sent: int,
) -> None:
    a_person(answer)
    called = weft("submit", file)
    assert "submit it?" in called.err
    assert (called.status, len(cluster.written)) == (status, sent)


def test_yes_spares_the_question(
    weft: Weft, cluster: FakeApi, file: Path, a_person: Callable[[str], None]
) -> None:
    a_person("n")
    assert weft("submit", file, "-y").status == 0


@pytest.mark.parametrize(
    ("queue", "remark"),
    [
        ("vision", "there is no queue 'vision'; there are research, all, new"),
        ("prod", "queue 'prod' takes no jobs of namespace 'research'"),
    ],
)
def test_a_queue_that_cannot_serve_is_remarked_on(
    weft: Weft, cluster: FakeApi, file: Path, queue: str, remark: str
) -> None:
    assert f"warning: {remark}" in weft("submit", file, "--set", f"queue={queue}").err
    assert "too much promised" in weft("submit", file, "--set", "queue=prod", "-n", "prod").err


def test_queues_that_may_not_be_read_are_left_out(weft: Weft, cluster: FakeApi, file: Path) -> None:
    cluster.forbidden = ("queues",)
    called = weft("submit", file)
    assert called.status == 0
    assert "queue now" not in called.err


def test_a_refusal_has_the_clusters_status(
    weft: Weft, cluster: FakeApi, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.refuses = "the server says no"
    called = weft("submit", file)
    assert called.status == 5
    assert f"hint: {Invalid.default_hint}" in called.err


def test_cancel(weft: Weft, cluster: FakeApi) -> None:
    called = weft("cancel", "llama-sft", "prod/eval", "vit-l")
    assert called.out == "research/llama-sft\nprod/eval\n"
    assert "research/vit-l has ended already: Failed" in called.err
    wish = {"metadata": {"annotations": {"weft.dev/cancel": "true"}}}
    assert [(body, params) for _, _, body, params in cluster.written] == [(wish, {})] * 2


def test_cancel_can_be_tried(weft: Weft, cluster: FakeApi) -> None:
    called = weft("cancel", "llama-sft", "--dry-run", "-o", "json")
    assert called.json == {
        "schema": "weft-cancelled/1",
        "jobs": ["research/llama-sft"],
        "dry_run": True,
    }
    assert cluster.written[0][3] == {"dryRun": "All"}


@pytest.mark.parametrize(("answer", "status", "sent"), [("y", 0, 1), ("", 1, 0)])
def test_cancel_asks_and_takes_silence_for_a_no(
    weft: Weft,
    cluster: FakeApi,
    a_person: Callable[[str], None],
    *,
    answer: str,
    status: int,
    sent: int,
) -> None:
    a_person(answer)
    called = weft("cancel", "llama-sft")
    assert "cancel llama-sft (Running)?" in called.err
    assert (called.status, len(cluster.written)) == (status, sent)
