"""Real processes: started with their variables, signalled with their children, reaped, adopted."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.waiting import HANG_SECONDS, until, until_async
from weft.agent.workers.cpus import slices
from weft.agent.workers.places import Standing
from weft.agent.workers.processes import Launch, Processes, environment, free_port, program_of


def launch(folder: Path, *command: str) -> Launch:
    return Launch(
        command=command,
        job="job",
        incarnation=4,
        socket=str(folder / "agent.sock"),
        key_file=folder / "key",
        slots=folder / "slots",
        logs=folder,
        master_port=12345,
        shard=2,
        threads=3,
    )


def play(folder: Path, script: str, act: Callable[[Processes], object] | None = None) -> int:
    """Start a shell script as worker 5, do something to it, and wait for its code."""

    async def scene() -> int:
        over: asyncio.Future[tuple[int, int]] = asyncio.get_running_loop().create_future()
        processes = Processes(
            launch(folder, "/bin/sh", "-c", script),
            lambda worker, code: over.set_result((worker, code)),
        )
        processes.start(5, Standing(1, 2, local_rank=1, local_width=2))
        assert 5 in processes.running
        if act is not None:
            await said(folder / "worker-5.log", "here")
            act(processes)
        worker, code = await asyncio.wait_for(over, HANG_SECONDS)
        assert worker == 5
        assert 5 not in processes.running
        return code

    return asyncio.run(scene())


async def said(path: Path, word: str) -> None:
    """The process has come so far as to write that; a file can only be looked at again."""
    await until_async(lambda: word in path.read_text(), f"{word!r} in {path.name}")


@pytest.mark.parametrize("code", [0, 3, 75, 143])
def test_the_exit_code_is_told(tmp_path: Path, code: int) -> None:
    assert play(tmp_path, f"exit {code}") == code


def test_a_command_that_is_not_there_ends_as_in_a_shell(tmp_path: Path) -> None:
    async def scene() -> tuple[int, int]:
        over: asyncio.Future[tuple[int, int]] = asyncio.get_running_loop().create_future()
        processes = Processes(
            launch(tmp_path, "no-such-command"),
            lambda worker, code: over.set_result((worker, code)),
        )
        processes.start(5, Standing(0, 1))
        return await asyncio.wait_for(over, HANG_SECONDS)

    assert asyncio.run(scene()) == (5, 127)
    assert "no-such-command" in (tmp_path / "worker-5.log").read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_death_by_signal_is_told_as_a_negative_code(tmp_path: Path, number: int) -> None:
    assert play(tmp_path, f"kill -{int(number)} $$") == -number


def test_what_it_writes_is_kept(tmp_path: Path) -> None:
    play(tmp_path, "echo out; echo err >&2")
    assert (tmp_path / "worker-5.log").read_text() == "out\nerr\n"


def test_a_signal_reaches_the_children_too(tmp_path: Path) -> None:
    script = "trap 'wait; exit 9' TERM; sh -c 'trap \"echo child; exit\" TERM; echo here; \
              while :; do sleep 0.01; done' & wait"
    code = play(tmp_path, script, lambda processes: processes.signal(5, signal.SIGTERM))
    assert code == 9
    assert "child" in (tmp_path / "worker-5.log").read_text()


def test_children_do_not_outlive_their_worker(tmp_path: Path) -> None:
    play(tmp_path, "sleep 1000 & echo $!; exit 0")
    wait_gone(int((tmp_path / "worker-5.log").read_text()))


def test_a_signal_to_one_that_has_ended_is_of_no_matter(tmp_path: Path) -> None:
    def act(processes: Processes) -> None:
        processes.signal(5, signal.SIGKILL)
        processes.signal(5, signal.SIGKILL)
        processes.signal(6, signal.SIGKILL)

    assert play(tmp_path, "echo here; sleep 1000", act) == -signal.SIGKILL


def test_the_variables_of_torchrun_kubeflow_and_weft(tmp_path: Path) -> None:
    found = environment(launch(tmp_path, "true"), 5, Standing(1, 2, local_rank=1, local_width=2))
    assert {name: found[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")} == {
        "RANK": "1",
        "WORLD_SIZE": "2",
        "LOCAL_RANK": "1",
    }
    assert found["LOCAL_WORLD_SIZE"] == "2"
    assert (found["MASTER_ADDR"], found["MASTER_PORT"]) == ("127.0.0.1", "12345")
    assert found["PET_NPROC_PER_NODE"] == "2"
    assert (found["PET_NNODES"], found["PET_NODE_RANK"]) == ("1", "0")
    assert (found["PET_MASTER_ADDR"], found["PET_MASTER_PORT"]) == ("127.0.0.1", "12345")
    assert found["OMP_NUM_THREADS"] == "3"
    assert (found["WEFT_JOB"], found["WEFT_INCARNATION"], found["WEFT_WORKER"]) == ("job", "4", "5")
    assert found["WEFT_SHARD"] == "2"
    assert not any("secret" in value for value in found.values())


def test_a_device_is_the_only_one_that_is_seen(tmp_path: Path) -> None:
    found = environment(launch(tmp_path, "true"), 5, Standing(1, 2), (3,))
    assert (found["CUDA_VISIBLE_DEVICES"], found["LOCAL_RANK"]) == ("3", "0")
    assert "CUDA_VISIBLE_DEVICES" not in environment(launch(tmp_path, "true"), 5, Standing(1, 2))


def test_a_launcher_is_told_how_many_processes_to_start(tmp_path: Path) -> None:
    once = replace(launch(tmp_path, "torchrun"), gpus=4, master_host="10.0.0.1")
    found = environment(once, 1, Standing(1, 2, 0, 1, node_rank=1, nodes=2), (4, 5, 6, 7))
    assert (found["PET_NPROC_PER_NODE"], found["PET_NNODES"]) == ("4", "2")
    assert (found["PET_NODE_RANK"], found["PET_MASTER_ADDR"]) == ("1", "10.0.0.1")
    assert found["CUDA_VISIBLE_DEVICES"] == "4,5,6,7"


LAUNCHED = frozenset({"LOCAL_RANK", "LOCAL_WORLD_SIZE", "ROLE_RANK", "TORCHELASTIC_RUN_ID"})
"""By these Lightning, Accelerate and their like take a process for one of several of a node."""


def test_a_process_with_all_gpus_of_its_node_may_start_others(tmp_path: Path) -> None:
    one = launch(tmp_path, "true")
    assert environment(one, 5, Standing(0, 1)).keys() >= LAUNCHED
    assert not environment(replace(one, gpus=1), 5, Standing(0, 1)).keys() & LAUNCHED
    found = environment(replace(one, gpus=2), 5, Standing(1, 2, node_rank=1, nodes=2), (0, 1))
    assert not found.keys() & {*LAUNCHED, "OMP_NUM_THREADS"}
    assert (found["RANK"], found["WORLD_SIZE"], found["NODE_RANK"]) == ("1", "2", "1")
    assert (found["WEFT_GPUS"], found["CUDA_VISIBLE_DEVICES"]) == ("2", "0,1")


def test_a_launcher_s_own_processes_have_one_gpu_each(tmp_path: Path) -> None:
    """`weft launch` in a job: its agent finds in its environment that it has all of them."""
    os.environ["WEFT_GPUS"] = "2"
    try:
        play(tmp_path, "echo gpus=$WEFT_GPUS rank=$LOCAL_RANK")
    finally:
        del os.environ["WEFT_GPUS"]
    assert (tmp_path / "worker-5.log").read_text() == "gpus= rank=1\n"


def test_processors_are_shared_anew_when_a_worker_comes_or_goes(tmp_path: Path) -> None:
    """Those that run are moved; the one that is left gets all."""
    mine = tuple(sorted(os.sched_getaffinity(0)))
    if len(mine) < 2:
        pytest.skip("one processor cannot be shared")

    async def scene() -> None:
        ended: asyncio.Queue[int] = asyncio.Queue()
        pids: dict[int, int] = {}
        processes = Processes(
            launch(tmp_path, "/bin/sh", "-c", "sleep 600"),
            lambda worker, _: ended.put_nowait(worker),
            lambda worker, pid: pids.update({worker: pid}),
        )
        processes.share_cpus(mine)
        for worker in (0, 1):
            processes.start(worker, Standing(worker, 2))
        for worker, part in zip((0, 1), slices(mine, 2), strict=True):
            assert processes.bound[worker] == part
            assert os.sched_getaffinity(pids[worker]) == set(part)
        processes.signal(0, signal.SIGKILL)
        assert await asyncio.wait_for(ended.get(), HANG_SECONDS) == 0
        assert os.sched_getaffinity(pids[1]) == set(mine)
        processes.close()
        assert await asyncio.wait_for(ended.get(), HANG_SECONDS) == 1

    asyncio.run(scene())


def test_a_worker_gets_them_on_top_of_its_agents_own(tmp_path: Path) -> None:
    os.environ["FROM_THE_AGENT"] = "yes"
    try:
        play(tmp_path, "echo $RANK $FROM_THE_AGENT; readlink /proc/self/fd/0")
    finally:
        del os.environ["FROM_THE_AGENT"]
    assert (tmp_path / "worker-5.log").read_text() == "1 yes\n/dev/null\n"


def test_orphans_come_to_the_agent_and_end_with_it(tmp_path: Path) -> None:
    """In a process of its own, because adopting is for life."""
    program = textwrap.dedent(
        """
        import subprocess, sys, time
        from pathlib import Path
        from weft.agent.workers.processes import adopt_orphans, children, end_orphans
        adopt_orphans()
        daemon = "import os, time; os.setsid(); print(os.getpid(), flush=True); time.sleep(1000)"
        parent = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {daemon!r}])"
        with open(sys.argv[1], "w") as out:
            subprocess.run([sys.executable, "-c", parent], stdout=out, check=True)
        while not Path(sys.argv[1]).read_text():
            time.sleep(0.005)
        orphan = int(Path(sys.argv[1]).read_text())
        assert orphan in children(), children()
        assert end_orphans() == 1
        assert not children()
        print(orphan)
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "orphan")],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=HANG_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    wait_gone(int(done.stdout))


def wait_gone(pid: int) -> None:
    """Until the process has ended; it was sent SIGKILL, so this is a matter of the kernel."""

    def is_gone() -> bool:
        try:
            os.kill(pid, 0)
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except (ProcessLookupError, FileNotFoundError):
            return True

    until(is_gone, f"process {pid} to end")


def test_a_bare_script_is_given_to_this_interpreter() -> None:
    assert program_of(("train.py", "--x"), {}) == (sys.executable, "train.py", "--x")
    assert program_of(("train.py",), {"PYTHON": "/opt/python"}) == ("/opt/python", "train.py")
    assert program_of(("bash", "-c", "x"), {}) == ("bash", "-c", "x")


@pytest.mark.enable_socket
def test_a_free_port_is_one_that_nobody_has() -> None:
    assert 1024 <= free_port() < 65536
