"""`weft run`, with a real daemon behind it."""

import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

import pytest
from _pytest.capture import CaptureIO

from tests.cli.called import Weft, expect_json_shape
from tests.cli.fake_cluster import FakeApi
from tests.cli.local_world import daemon, here
from tests.local.daemons import Lab
from tests.waiting import until

pytestmark = pytest.mark.slow  # a real daemon

__all__ = ["daemon", "here"]


@contextmanager
def once_written(stream: TextIO, pattern: str, deed: Callable[[], object]) -> Iterator[None]:
    """Do something as soon as a command has written that to a captured stream."""

    assert isinstance(stream, CaptureIO)

    def watch() -> None:
        until(lambda: re.search(pattern, stream.getvalue()), f"{pattern} to be written")
        deed()

    watching = threading.Thread(target=watch)
    watching.start()
    yield
    watching.join()


def test_a_command_runs_here_and_its_output_is_ours(here: Lab, weft: Weft) -> None:
    lasting = "import os, time\nwhile not os.path.exists('seen'): time.sleep(0.05)\n"
    (here.folder / "train.py").write_text(f"{lasting}print(os.getcwd(), os.environ['MARK'])\n")
    with once_written(sys.stderr, r"(Starting|Running) on", (here.folder / "seen").touch):
        called = weft("run", "--env", "MARK=woven", "--", "python", "train.py")
    assert called.status == 0, called.err
    assert called.out == f"{here.folder} woven\n"
    assert re.search(r"^train (Starting|Running) on 1 GPU$", called.err, re.MULTILINE), called.err
    assert "train Succeeded" in called.err


def test_its_status_is_the_job_s_and_it_is_not_tried_again(here: Lab, weft: Weft) -> None:
    called = weft("run", "--name", "fails", "echo tried; exit 3")
    assert (called.status, called.out) == (1, "tried\n"), called.err
    assert "fails Failed" in called.err
    again = weft("run", "--name", "again", "--retries", "1", "echo tried; exit 3")
    assert (again.status, again.out) == (1, "tried\ntried\n"), again.err


def test_options_after_the_command_are_the_command_s(here: Lab, weft: Weft) -> None:
    called = weft("run", "--name", "words", "echo", "--gpus", "a  b", "$HOME")
    assert called.out == "--gpus a  b $HOME\n", called.err


def test_detached_it_is_named_and_numbered(here: Lab, weft: Weft) -> None:
    first, second = (weft("run", "-d", "true-ish || true") for _ in range(2))
    assert first.out.endswith("/true-ish\n")
    assert second.out.endswith("/true-ish-2\n")
    assert "weft logs -f true-ish-2" in second.err
    assert "weft cancel true-ish-2" in second.err
    assert weft("wait", "true-ish-2").status == 0


def test_json_is_alone_on_standard_output(here: Lab, weft: Weft) -> None:
    called = weft("run", "-o", "json", "--name", "json", "echo hello")
    assert called.status == 0, called.err
    expect_json_shape("run.json", called.json)
    assert called.json["jobs"][0]["state"] == "Succeeded"
    assert "hello\n" in called.err


def test_a_dry_run_creates_nothing(here: Lab, weft: Weft) -> None:
    words = (
        "--name",
        "dry",
        "--gpus",
        "1..2",
        "--set",
        "checkpoint.every=10m",
        "--",
        "python",
        "x",
    )
    called = weft("run", "--dry-run", *words)
    assert called.status == 0, called.err
    assert "name: dry\nrun: python x\n" in called.out
    assert "every: 10m" in called.out
    assert weft("show", "dry").status == 2
    one, two = weft("run", "--dry-run", "-o", "json", "--sweep", "x=1,2", "echo {x}").json["jobs"]
    assert (one["run"], two["run"]) == ("echo 1", "echo 2")


ONCE = "note: 1 process with 2 GPUs; --nproc-per-node gpu starts one for each GPU\n"
EACH = "note: 1 process for each GPU; --nproc-per-node 1 starts one with all of them\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--gpus", "2", "true"), ONCE),
        (("--gpus", "2", "--nproc-per-node", "1", "true"), ONCE),
        (("--gpus", "2", "--nproc-per-node", "gpu", "true"), EACH),
        (("--gpus", "1..2", "true"), EACH),
        (("--gpus", "1..2", "--nproc-per-node", "1", "true"), ONCE.replace("2", "1 to 2")),
        (("--gpus", "1", "true"), ""),
        (("--gpus", "2", "torchrun", "train.py"), ""),
    ],
)
def test_how_many_processes_start_is_said_at_once(
    here: Lab, weft: Weft, words: tuple[str, ...], told: str
) -> None:
    called = weft("run", "--dry-run", *words)
    assert called.status == 0, called.err
    assert ("process" in called.err) == bool(told)
    assert told in called.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--gpus", "two", "true"), "resources.gpus"),
        (("--gpus", "2", "--nproc-per-node", "8", "true"), "nproc_per_node: 8 does not fit"),
        (("--gpus", "2", "--nproc-per-node", "gpu", "torchrun", "x"), "torchrun starts the"),
        (("--gpus", "99", "true"), "needs at least 99"),
        (("--env", "NOT_SET_ANYWHERE", "true"), "it is not set here"),
        (("--env", "RANK=1", "true"), "RANK"),
        (("--workdir", "here", "true"), "workdir"),
        (("--set", "nonsense", "true"), "sets nothing"),
        (("--name", "No!", "true"), "no name for a job"),
        (("--sweep", "lr=1,2", "true"), "nothing uses"),
        (("",), "run"),
        ((), "COMMAND"),
    ],
)
def test_what_cannot_be_run_is_refused(
    here: Lab, weft: Weft, words: tuple[str, ...], told: str
) -> None:
    before = here.states()
    called = weft("run", *words)
    assert called.status == 2, called.err
    assert told in called.err
    assert "hint:" in called.err
    assert here.states() == before


def test_a_sweep_has_a_job_for_each_point_and_the_worst_status(here: Lab, weft: Weft) -> None:
    words = ("--gpus", "0", "--set", "resources.cpus=0.5", "--sweep", "lr=1e-3,1e-4")
    called = weft("run", *words, "--sweep", "n=0,1", "--name", "s", "echo {lr}; exit {n}")
    assert called.status == 1, called.err
    titles, _, *rows = called.out.splitlines()
    assert titles.split() == ["lr", "n", "job", "state", "GPUs", "progress", "ran"]
    assert [row.split()[:4] for row in rows] == [
        ["1e-3", "0", "s-lr-1e-3-n-0", "Succeeded"],
        ["1e-3", "1", "s-lr-1e-3-n-1", "Failed"],
        ["1e-4", "0", "s-lr-1e-4-n-0", "Succeeded"],
        ["1e-4", "1", "s-lr-1e-4-n-1", "Failed"],
    ]
    assert "s-lr-1e-4-n-0 Succeeded" in called.err
    assert weft("logs", "s-lr-1e-4-n-0").out == "1e-4\n"
    twin = weft("run", "-o", "json", *words, "--name", "t", "test {lr}").json
    expect_json_shape("run-sweep.json", twin)
    assert [job["point"] for job in twin["jobs"]] == [{"lr": "1e-3"}, {"lr": "1e-4"}]


def test_a_sweep_of_which_one_name_is_taken_submits_nothing(here: Lab, weft: Weft) -> None:
    assert weft("run", "-d", "--name", "u-x-2", "sleep 60").status == 0
    called = weft("run", "-d", "--sweep", "x=1,2", "--name", "u", "echo {x}")
    assert called.status == 5, called.err
    assert "'u-x-2' that is not over" in called.err
    assert "u-x-1" not in here.states()
    assert weft("cancel", "u-x-2").status == 0


def test_ctrl_c_leaves_the_job_running_and_says_how_to_go_on(here: Lab, weft: Weft) -> None:
    def press() -> None:
        os.kill(os.getpid(), signal.SIGINT)

    with once_written(sys.stdout, "begun\n", press):
        called = weft("run", "--name", "stays", "echo begun; sleep 600")
    assert called.status == 130
    assert called.out == "begun\n"
    assert "detached: the job goes on; weft logs -f stays follows it" in called.err
    assert "weft cancel stays ends it" in called.err
    assert here.state("stays") == "Running"
    assert weft("cancel", "stays").status == 0


def test_on_a_cluster_the_object_is_a_training_job(weft: Weft, cluster: FakeApi) -> None:
    called = weft("run", "--dry-run", "--image", "img:1", "--queue", "research", "python", "a.py")
    assert called.status == 0, called.err
    assert "kind: TrainingJob" in called.out
    assert "image: img:1" in called.out


def test_the_first_file_runs_as_it_is(here: Lab, weft: Weft) -> None:
    assert weft("spec", "init", "hello.yaml").status == 0
    assert "image" not in (here.folder / "hello.yaml").read_text()
    assert weft("submit", "-y", "hello.yaml").status == 0
    followed = weft("logs", "-f", "hello")
    assert (followed.status, followed.out) == (0, "hello from rank 0 of 1\n"), followed.err


def test_all_that_cannot_be_had_is_told_at_once(here: Lab, weft: Weft) -> None:
    called = weft("run", "--gpus", "99", "--set", "resources.cpus_per_gpu=900", "true")
    assert called.status == 2
    assert "needs at least 99 slots" in called.err
    assert "needs at least 89100 CPUs" in called.err


def test_the_words_are_those_of_one_machine(here: Lab, weft: Weft) -> None:
    here.submit("worded", "sleep 300")
    here.wait_for("worded", "Running")
    for words in (("show", "worded"), ("ls", "-A"), ("top",), ("why", "worded"), ("nodes",)):
        called = weft(*words)
        assert called.status == 0, called.err
        for foreign in ("pod", "namespace", "cluster", "operator"):
            assert foreign not in called.out.lower(), words
    assert weft("cancel", "worded").status == 0
