"""Which commands can be forked, and what becomes of those that cannot."""

import asyncio
import os
from pathlib import Path

import pytest

from tests.waiting import HANG_SECONDS
from weft.agent.workers.spawn_pool import Request, SpawnPool, script_of


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "train.py"
    path.write_text("import torch\n")
    return str(path)


def nowhere() -> tuple[int, int]:
    """Handles that lead to where nobody reads."""
    handle = os.open(os.devnull, os.O_WRONLY)
    return handle, handle


def test_a_script_that_imports_torch_can(script: str) -> None:
    assert script_of(("python", script, "--lr", "3")) == (script, "--lr", "3")
    assert script_of(("/opt/bin/python3.12", "-u", script)) == (script,)


def test_others_cannot(script: str, tmp_path: Path) -> None:
    plain = tmp_path / "plain.py"
    plain.write_text("# import torch\nprint('torch')\n")
    for command in (
        (),
        ("python", str(plain)),
        ("python", "-m", "train"),
        ("python", "-O", script),
        ("bash", script),
        ("python", str(tmp_path / "nowhere.py")),
        ("sh", "-c", f"python {script}"),
    ):
        assert script_of(command) == ()


def test_what_it_forks_is_not_mistaken_for_an_agent(tmp_path: Path) -> None:
    """The local world tells them apart by what /proc shows of their environment."""
    shown = tmp_path / "shown"
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\necho "$WEFT_WORKER" > {shown}\n')
    program.chmod(0o755)

    async def scene() -> None:
        over: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        spawn_pool = SpawnPool(str(program), {}, tmp_path / "log")
        spawn_pool.ask(Request(("x.py",), {}, (), nowhere(), over.set_result))
        await asyncio.wait_for(over, HANG_SECONDS)

    asyncio.run(scene())
    assert shown.read_text() == "-1\n"


def test_it_can_be_switched_off(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEFT_ZYGOTE", raising=False)
    assert SpawnPool.suits(("python", script), threads=1)
    assert not SpawnPool.suits(("python", script), threads=2), "numpy's threads start at its import"
    monkeypatch.setenv("WEFT_ZYGOTE", "0")
    assert not SpawnPool.suits(("python", script), threads=1)


def test_what_waits_for_a_zygote_that_fails_is_given_back(tmp_path: Path) -> None:
    """As where torch is not installed: here `false` stands in for the interpreter."""

    async def scene() -> int | None:
        over: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        spawn_pool = SpawnPool("false", {}, tmp_path / "log")
        spawn_pool.ask(Request(("x.py",), {}, (), nowhere(), over.set_result))
        given_back = await asyncio.wait_for(over, HANG_SECONDS)
        later: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        spawn_pool.ask(Request(("x.py",), {}, (), (1, 2), later.set_result))
        assert later.done()
        return given_back

    assert asyncio.run(scene()) is None
