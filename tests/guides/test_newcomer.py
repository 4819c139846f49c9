"""The first hour of somebody new: what they type, what goes wrong, and what they are told."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.guides.samples import ROOT

PATIENCE_SECONDS = 300

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


class Person:
    """Sits in a folder of their own and types."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def types(self, *words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "weft.cli.main", *words],
            cwd=self.home,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT / "src"),
                "HOME": str(self.home),
                "XDG_CONFIG_HOME": str(self.home / "config"),
                "WEFT_LOCAL_FOLDER": str(self.home / "world"),
                "WEFT_LOCAL_SOCKET": str(self.home / "s"),
                "WEFT_CONTEXT": "local",
            },
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert done.returncode == status, f"{words}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        return done

    def writes(self, name: str, *lines: str) -> str:
        (self.home / name).write_text("\n".join(lines) + "\n")
        return name


@pytest.fixture
def person() -> Iterator[Person]:
    """At home, where names of sockets are short."""
    with TemporaryDirectory(prefix="wn-") as folder:
        yield Person(Path(folder))


def test_a_history_with_faults_is_mended_step_by_step(person: Person) -> None:
    mapped = [
        *("--column", "job_id=id", "--column", "submit_seconds=when"),
        *("--column", "duration_seconds=ran", "--column", "gpus=n"),
    ]
    head = "id;when;ran;n"
    bad = ["a;2026-01-01 10:00;1h;4", "b;soon;90 min;2", "c;2026-01-01 11:00;long;1", "a;;60;x"]
    person.writes("mine.csv", head, *bad)
    assert "--column" in person.types("trace", "show", "mine.csv", status=2).stderr
    told = person.types("trace", "show", "mine.csv", *mapped, "-o", "json", status=1)
    errors = [one for one in json.loads(told.stdout)["remarks"] if one["severity"] == "error"]
    assert {one["row"] for one in errors} == {3, 4, 5}
    assert all(one["remedy"] for one in errors)
    person.types("simulate", "mine.csv", *mapped, "--cluster", "1x4", status=2)
    person.writes("mine.csv", head, bad[0], "b;2026-01-01 10:10;90 min;2")
    person.types("trace", "show", "mine.csv", *mapped)
    ran = person.types("simulate", "mine.csv", *mapped, "--cluster", "1x4", "--out", "run")
    assert "2 of 2 jobs finished" in ran.stdout
    assert "elasticity is not used" in ran.stderr
    assert (person.home / "run" / "report.html").stat().st_size > 0
    assert "Capacity.Busy" in person.types("why", "b", "--run", "run").stdout


def test_a_cluster_without_the_queue_is_not_run_in_silence(person: Person) -> None:
    person.writes("q.yaml", "nodes: 1x4", "queues: [{name: research, guaranteed: 2}]")
    for words in (("simulate",), ("compare", "--seeds", "0")):
        refused = person.types(*words, "--jobs", "20", "--cluster", "q.yaml", status=2)
        assert "20 of 20 jobs are of queues that the cluster lacks" in refused.stderr
        assert "research" in refused.stderr


def test_a_recipe_of_ones_own_first_with_a_bug(person: Person) -> None:
    def compared(*lines: str, status: int) -> subprocess.CompletedProcess[str]:
        person.writes("mine.py", "from weft.policy.recipe import Recipe", *lines)
        recipes = "fifo,mine.py:my_recipe"
        small = ("--jobs", "20", "--seeds", "0")
        return person.types("compare", *small, "--recipe", recipes, status=status)

    made = "my_recipe = Recipe(name='mine', order=order)"
    assert "mine.py has no 'my_recipe'" in compared("my_recipes = 1", status=2).stderr
    assert "NameError" in compared(made, status=2).stderr
    told = compared("def order(snapshot, slots):", "    return snapshot.nothing", made, status=2)
    assert "mine.py line 3, in order: AttributeError" in told.stderr
    right = compared("from weft.policy.order.arrival import by_arrival as order", made, status=0)
    assert "mine.py:my_recipe" in right.stdout


def test_a_job_on_this_machine(person: Person) -> None:
    person.types("local", "up", "--slots", "1")
    try:
        person.writes("first.yaml", "run: echo hello from $RANK")
        person.types("submit", "-y", "first.yaml")
        assert "hello from 0" in person.types("logs", "-f", "first").stdout
        person.types("wait", "first")
        assert "Succeeded" in person.types("ls").stdout
        assert "no job 'frst'" in person.types("why", "frst", status=2).stderr
        assert "first" in person.types("why", "first").stdout
    finally:
        person.types("local", "down", "--now")
