"""The first hour of somebody new: what they type, what goes wrong, and what they are told."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

import pytest

from tests.guides.samples import ROOT

PATIENCE_SECONDS = 300

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


class Person:
    """Sits in a folder of their own and types."""

    def __init__(self, home: Path, source: Path = ROOT / "src") -> None:
        self.home, self.source = home, source

    def types(self, *words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
        return self.runs("-m", "weft.cli.main", *words, status=status)

    def runs(self, *words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
        """Python, with these words."""
        done = subprocess.run(
            [sys.executable, *words],
            cwd=self.home,
            env={
                **os.environ,
                "PYTHONPATH": str(self.source),
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
    def compared(*, status: int) -> subprocess.CompletedProcess[str]:
        recipes = ("--recipe", "fifo,mine.py:mine")
        return person.types("compare", "--jobs", "20", "--seeds", "0", *recipes, status=status)

    person.types("recipes", "new", "mine")
    assert "against fifo" in compared(status=0).stdout
    whole = (person.home / "mine.py").read_text()
    right = "return Ranking((gpus - waited / self.seconds_per_gpu,))"
    for wrong, told in {
        "return Ranking(gpus)": "in __call__: the keys of its Ranking are an array of int64",
        "return snapshot.nothing": "in __call__: AttributeError",
        "return Ranking((gpus * float('nan'),))": "is NaN for job 'job-",
        "return Ranking((gpus,": "SyntaxError",
    }.items():
        person.writes("mine.py", whole.replace(right, wrong))
        message = compared(status=2).stderr
        assert message.startswith("error: mine.py line ")
        assert told in message
        assert "hint: " in message
    person.writes("mine.py", whole.replace("def mine(", "def mime("))
    assert "did you mean 'mime'?" in compared(status=2).stderr
    person.writes("mine.py", whole)
    assert "mine.py:mine" in compared(status=0).stdout
    assert "3 passed" in person.runs("-m", "pytest", "-q", "test_mine.py").stdout


def test_from_a_history_to_a_report_and_a_frame(person: Person) -> None:
    shutil.copy(ROOT / "examples" / "history.csv", person.home)
    person.types("compare", "history.csv", "--cluster", "2x4", "--seeds", "0", "--out", "both")
    assert (person.home / "both" / "report.html").stat().st_size > 0
    person.writes(
        "look.py",
        "from weft import lab",
        "jobs = lab.workload('history.csv')",
        "run = lab.simulate(jobs, recipe='fifo', cluster='2x4')",
        "frame = run.jobs.frame()",
        "print(len(frame), round(frame.jct_seconds.mean() / run.summary.mean_jct_seconds, 9))",
        "run.report('run.html')",
    )
    rows = len((person.home / "history.csv").read_text().splitlines()) - 1
    assert person.runs("look.py").stdout == f"{rows} 1.0\n"
    assert (person.home / "run.html").stat().st_size > 0


def test_what_is_installed_is_whole(person: Person) -> None:
    """A wheel is unpacked where nothing else of Weft is, which is what an installer does."""
    built = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(person.home)]
    subprocess.run(built, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = person.home.glob("weft-*.whl")
    with ZipFile(wheel) as packed:
        packed.extractall(person.home / "site")
        names = packed.namelist()
        scripts = next(name for name in names if name.endswith("entry_points.txt"))
        assert "weft = weft.cli.main:main" in packed.read(scripts).decode()
    away = Person(person.home, source=person.home / "site")
    where = away.runs("-c", "import weft; print(weft.__file__)").stdout
    assert where.startswith(str(person.home))
    away.types("compare", "--jobs", "20", "--seeds", "0", "--out", "both")
    away.types("recipes", "new", "mine")
    assert (person.home / "both" / "report.html").stat().st_size > 0


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
