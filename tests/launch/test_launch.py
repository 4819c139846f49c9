"""`weft launch` with scripts of all kinds: their output, their ends, their signals."""

import json
import os
import signal
import subprocess
import textwrap
from pathlib import Path

import pytest

from tests.launch.launching import COMMAND, Begin, Launch, begun, environment, launched
from tests.waiting import HANG_SECONDS

WORDS = """
    import os, sys, time
    rank = os.environ["RANK"]
    print("out", rank, *sys.argv[1:])
    print("err", rank, file=sys.stderr)
"""
FAILS = """
    import os, pathlib, signal, sys, time
    rank = int(os.environ["RANK"])
    print("here", rank)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    (pathlib.Path(f"begun-{rank}")).symlink_to(str(os.getpid()))
    while not all(pathlib.Path(f"begun-{n}").is_symlink() for n in range(3)):
        time.sleep(0.01)
    if rank == 1:
        raise ValueError("the first to fail")
    while pathlib.Path("/proc", os.readlink("begun-1")).exists():
        time.sleep(0.01)
    try:
        {}["peer"]
    except KeyError:
        raise RuntimeError("fails because another has") from None
"""


def script(folder: Path, text: str, name: str = "script.py") -> Path:
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path


def test_output_and_errors_of_all_workers_stay_apart(tmp_path: Path) -> None:
    ended = launched(tmp_path, "-n", "3", script(tmp_path, WORDS), "--lr", "3")
    assert ended.status == 0
    assert sorted(ended.out.splitlines()) == [f"out {n} --lr 3" for n in range(3)]
    assert sorted(ended.err.splitlines()) == [f"err {n}" for n in range(3)]
    assert [path.name for path in tmp_path.iterdir()] == ["script.py"], "something is left"


def test_lines_can_be_marked_and_chosen(tmp_path: Path) -> None:
    ended = launched(tmp_path, "-n", "2", "--prefix", "--show", "first", script(tmp_path, WORDS))
    assert (ended.out, ended.err) == ("[0] out 0\n", "[0] err 0\n")


def test_who_failed_is_shown_once_with_its_rank_and_nobody_else(tmp_path: Path) -> None:
    ended = launched(tmp_path, "-n", "3", script(tmp_path, FAILS))
    assert ended.status == 1
    assert sorted(ended.out.splitlines()) == ["here 0", "here 1", "here 2"]
    *traceback, last = ended.err.splitlines()
    assert all(line.startswith("[1] ") for line in traceback), ended.err
    assert traceback[0] == "[1] Traceback (most recent call last):"
    assert traceback[-1] == "[1] ValueError: the first to fail"
    assert last.startswith("weft: the worker of rank 1 ")
    assert "ended with exit code 1; all output is kept in" in last
    kept = Path(last.rpartition(" ")[2])
    assert "the first to fail" in (kept / "worker-1.log").read_text()


def test_a_traceback_that_is_survived_comes_out_too(tmp_path: Path) -> None:
    text = """
        import time, traceback
        try:
            1 / 0
        except ZeroDivisionError:
            traceback.print_exc()
        time.sleep(4)
        print("goes on")
    """
    ended = launched(tmp_path, "-n", "2", script(tmp_path, text))
    assert ended.status == 0
    assert ended.err.count("ZeroDivisionError: division by zero") == 2
    assert ended.out == "goes on\n" * 2


@pytest.mark.parametrize(
    ("end", "status", "words"),
    [
        ("sys.exit(3)", 3, "ended with exit code 3"),
        ("sys.exit(143)", 143, "ended with exit code 143"),
        ("sys.exit(75)", 75, "ended with exit code 75"),
        ("os.kill(os.getpid(), 11)", 139, "was ended by SIGSEGV"),
    ],
)
def test_the_status_is_the_scripts(tmp_path: Path, end: str, status: int, words: str) -> None:
    ended = launched(tmp_path, "-n", "1", script(tmp_path, f"import os, sys\n{end}\n"))
    assert (ended.status, words in ended.err) == (status, True), ended.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_reaches_a_plain_script_as_it_is(tmp_path: Path, number: signal.Signals) -> None:
    text = f"""
        import os, pathlib, signal, sys, time
        def stop(number, frame):
            print("got", signal.Signals(number).name)
            sys.exit(0)
        signal.signal(signal.{number.name}, stop)
        pathlib.Path("begun-" + os.environ["RANK"]).touch()
        time.sleep(600)
    """
    job = Launch(tmp_path, "-n", "2", script(tmp_path, text))
    for rank in (0, 1):
        job.until(tmp_path / f"begun-{rank}")
    job.signal(number)
    ended = job.end()
    assert ended.out == f"got {number.name}\n" * 2
    assert ended.status == 128 + number
    assert ended.err == "weft: stopping; once more ends it at once\n"


def test_ctrl_c_is_not_told_as_an_error(tmp_path: Path) -> None:
    text = "import pathlib, time\npathlib.Path('begun').touch()\ntime.sleep(600)\n"
    job = Launch(tmp_path, "-n", "2", script(tmp_path, text))
    job.until(tmp_path / "begun")
    job.signal(signal.SIGINT)
    ended = job.end()
    assert (ended.status, ended.err.count("KeyboardInterrupt")) == (130, 0), ended.err


def test_a_second_signal_does_not_wait(tmp_path: Path) -> None:
    text = """
        import pathlib, signal, time
        signal.signal(signal.SIGINT, lambda *_: pathlib.Path("deaf").touch())
        pathlib.Path("begun").touch()
        while True:
            time.sleep(1)
    """
    job = Launch(tmp_path, script(tmp_path, text))
    job.until(tmp_path / "begun")
    job.signal(signal.SIGINT)
    job.until(tmp_path / "deaf")
    job.signal(signal.SIGINT)
    assert job.end().status == 130


def test_a_module_a_folder_and_an_interpreter(tmp_path: Path) -> None:
    inner = tmp_path / "pack"
    inner.mkdir()
    script(inner, WORDS, "__main__.py")
    for words in (("-m", "pack"), ("pack",), ("python", "-u", "pack/__main__.py")):
        assert launched(tmp_path, *words).out == "out 0\n"


def test_what_torchrun_would_take_is_taken_where_it_means_the_same(tmp_path: Path) -> None:
    words = ("--standalone", "--nnodes=1", "--nproc_per_node", "2", "--max-restarts=0")
    assert sorted(launched(tmp_path, *words, script(tmp_path, WORDS)).out) == sorted(
        "out 0\nout 1\n"
    )


def test_one_worker_has_the_machine_for_itself_and_several_a_thread_each(tmp_path: Path) -> None:
    text = "import os\nprint(os.environ.get('OMP_NUM_THREADS'))\n"
    path = script(tmp_path, text)
    assert launched(tmp_path, path).out == "None\n"
    assert launched(tmp_path, "-n", "2", path).out == "1\n" * 2
    assert launched(tmp_path, "-n", "2", path, OMP_NUM_THREADS="3").out == "3\n" * 2


def test_a_line_that_is_left_open_comes_out_and_output_is_seen_at_once(tmp_path: Path) -> None:
    text = """
        import pathlib, sys, time
        sys.stdout.write("50 %")
        while not pathlib.Path("seen").exists():
            time.sleep(0.01)
        print("\\r100 %")
    """
    path = script(tmp_path, text)
    job = begun(["launch", str(path)], tmp_path, environment(TMPDIR=str(tmp_path)))
    assert job.stdout is not None
    assert job.stdout.read(4) == "50 %"
    (tmp_path / "seen").touch()
    assert job.communicate(timeout=HANG_SECONDS)[0].endswith("100 %\n")


def test_output_is_the_scripts_to_the_last_byte(tmp_path: Path) -> None:
    """Also if it has no end of line, is no text, or comes from what outlives the script."""
    text = """
        import os, subprocess, sys
        subprocess.Popen(["sleep", "200"])
        os.write(1, b"\\xff\\n" + b"x" * 100_000)
        os.close(2)
    """
    job = subprocess.run(
        [*COMMAND, str(script(tmp_path, text))],
        env=environment(TMPDIR=str(tmp_path)),
        stdout=subprocess.PIPE,
        check=True,
        timeout=HANG_SECONDS,
    )
    assert job.stdout == b"\xff\n" + b"x" * 100_000


def test_a_script_that_python_cannot_read_is_told_of_once(tmp_path: Path) -> None:
    ended = launched(tmp_path, "-n", "3", script(tmp_path, "def broken(:"))
    assert (ended.status, ended.err.count("SyntaxError")) == (1, 1), ended.err
    assert "def broken(:" in ended.err
    assert "rank" not in ended.err, "no worker was started for it"


def test_options_behind_the_script_are_the_scripts(tmp_path: Path) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    path = script(folder, "import sys\nprint(sys.argv[1:])\n", "my train.py")
    ended = launched(tmp_path, "--", path, "-n", "3", "--help", "-q", "a b", "")
    assert ended.out == "['-n', '3', '--help', '-q', 'a b', '']\n"


def test_variables_go_with_the_script(tmp_path: Path) -> None:
    text = "import json, os\nprint(json.dumps(dict(os.environ)))\n"
    found = json.loads(launched(tmp_path, script(tmp_path, text), MINE="yes").out)
    assert (found["MINE"], found["LOCAL_RANK"], found["WEFT_JOB"]) == ("yes", "0", "script")


TELLS = """
    import json, os
    never = lambda: __import__("weft")
    names = ("RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
    print(json.dumps([os.environ.get(name) for name in names]))
"""


@pytest.fixture
def four_gpus(tmp_path: Path) -> str:
    """A machine with GPUs, as far as `nvidia-smi` tells; gives the PATH where it is found."""
    tools = tmp_path / "tools"
    tools.mkdir()
    program = tools / "nvidia-smi"
    rows = "".join(f"{number}, GPU-{number:04}\n" for number in range(4))
    program.write_text(f"#!/bin/sh\ncat <<END\n{rows}END\n")
    program.chmod(0o755)
    return f"{tools}:{os.environ['PATH']}"


def told(
    folder: Path, *words: str | Path, begin: Begin = begun, **more: str
) -> list[list[str | None]]:
    ended = launched(folder, "--show", "all", *words, begin=begin, WEFT_ZYGOTE="0", **more)
    assert ended.status == 0, ended
    return sorted(json.loads(line) for line in ended.out.splitlines())


def test_each_worker_of_a_weft_script_sees_one_gpu_by_its_name(
    tmp_path: Path, four_gpus: str
) -> None:
    """It calls that one 0, and LOCAL_RANK is the number of the one to take."""
    path = script(tmp_path, f"import weft\n{textwrap.dedent(TELLS)}")
    order = "PCI_BUS_ID"
    assert told(tmp_path, "-n", "2", path, PATH=four_gpus) == [
        ["0", "0", "1", "GPU-0000", order],
        ["1", "0", "1", "GPU-0001", order],
    ]
    found = told(tmp_path, "-n", "gpu", path, PATH=four_gpus, CUDA_VISIBLE_DEVICES="3,1")
    assert {row[3] for row in found} == {"GPU-0003", "GPU-0001"}
    found = told(tmp_path, "-n", "auto", "--devices", "1-2", path, PATH=four_gpus)
    assert {row[3] for row in found} == {"GPU-0001", "GPU-0002"}
    found = told(tmp_path, "-n", "2", "--devices", "none", path, PATH=four_gpus)
    assert [row[1:4] for row in found] == [["0", "2", None], ["1", "2", None]]


def test_a_plain_script_sees_all_gpus_and_takes_that_of_its_local_rank(
    tmp_path: Path, four_gpus: str
) -> None:
    found = told(tmp_path, "-n", "gpu", script(tmp_path, TELLS), PATH=four_gpus)
    assert [row[1:4] for row in found] == [[str(n), "4", None] for n in range(4)]


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("-n", "5"), "--devices none"),
        (("-n", "1", "--devices", "7"), "there are: 0, 1, 2, 3"),
        (("-n", "1", "--devices", "first"), "0-3,8"),
    ],
)
def test_gpus_that_are_not_there_are_refused(
    tmp_path: Path, four_gpus: str, words: tuple[str, ...], hint: str
) -> None:
    ended = launched(tmp_path, *words, script(tmp_path, "import weft\n"), PATH=four_gpus)
    assert (ended.status, hint in ended.err) == (2, True), ended.err


def test_without_gpus_auto_is_one_worker_for_each_cpu(tmp_path: Path) -> None:
    path = script(tmp_path, TELLS)
    assert len(told(tmp_path, "-n", "auto", path)) == len(os.sched_getaffinity(0))
    ended = launched(tmp_path, "-n", "gpu", path)
    assert (ended.status, "-n 2" in ended.err) == (2, True)


def test_a_run_goes_on_under_one_id(tmp_path: Path) -> None:
    text = """
        import os
        print(os.environ["WEFT_RUN_ID"], os.environ.get("WANDB_RUN_ID"), os.environ["RANK"])
    """
    words = ("-n", "2", "--checkpoints", tmp_path / "kept", script(tmp_path, text))
    first, again = (sorted(launched(tmp_path, *words).out.splitlines()) for _ in range(2))
    run = first[0].split()[0]
    assert first == again == sorted([f"{run} {run} 0", f"{run} None 1"])
    mine = launched(tmp_path, *words, WANDB_RUN_ID="mine").out
    assert mine.count(" mine ") == 2
