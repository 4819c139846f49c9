"""Processes of an incarnation are found by their mark and their owner, and ended as a whole."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from tests.waiting import HANG_SECONDS, until
from weft.local.agents.job_processes import (
    MARK,
    Sign,
    birth_of,
    end_incarnation,
    find_agent,
    is_alive,
    of_incarnation,
)

SIGN = Sign(f"test:{os.getpid()}:1", os.getuid())


def test_a_process_is_itself_until_it_ends() -> None:
    with running("sleep", "60") as process:
        birth = birth_of(process.pid)
        assert birth is not None
        assert is_alive(birth)
        assert not is_alive(replace(birth, ticks=birth.ticks + 1))
        assert not is_alive(replace(birth, boot="another"))
        process.kill()
        until(lambda: not is_alive(birth), "its end")  # a zombie has ended, reaped or not
    assert birth_of(birth.pid) is None


def test_the_agent_is_the_marked_one_that_is_no_worker() -> None:
    with (
        running("sleep", "60", WEFT_WORKER="0", **{MARK: SIGN.text}),
        running("sleep", "60", **{MARK: SIGN.text}) as agent,
        running("sleep", "60", **{MARK: f"{SIGN.text}0"}),
    ):
        until(lambda: find_agent(SIGN) == birth_of(agent.pid), "the agent to be found")
        assert find_agent(replace(SIGN, uid=SIGN.uid + 1)) is None


def test_all_of_an_incarnation_is_ended_and_nothing_else() -> None:
    """A worker that leads a session has a child without the mark; both go, a stranger stays."""
    forget = "import os; os.execve('/bin/sleep', ['sleep', '60'], {})"
    family = (
        f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {forget!r}]); "
        "time.sleep(60)"
    )
    with (
        running(sys.executable, "-c", family, WEFT_WORKER="0", **{MARK: SIGN.text}) as worker,
        running("sleep", "60", **{MARK: "another"}) as stranger,
    ):
        until(lambda: len(of_incarnation(SIGN)) == 2, "both processes to be found")
        assert worker.pid in of_incarnation(SIGN)
        until(lambda: not end_incarnation(SIGN), "the incarnation to end")
        assert worker.wait(HANG_SECONDS) == -signal.SIGKILL
        assert stranger.poll() is None
        assert of_incarnation(SIGN) == ()


@contextmanager
def running(*command: str, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        command, env={"PATH": os.environ["PATH"], **variables}, start_new_session=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
