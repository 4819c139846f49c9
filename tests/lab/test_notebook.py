"""The lab from Python: what a notebook gets, and how it looks there."""

import subprocess
import sys
from pathlib import Path
from typing import Protocol

import pandas as pd
import pytest

from weft import lab
from weft.lab.table import Table
from weft.model.errors import SpecError, TraceFault, UnknownName

ROWS = [
    {"job_id": "a", "submit_seconds": 0, "duration_seconds": 600, "gpus": 4},
    {"job_id": "<b>", "submit_seconds": 5, "duration_seconds": 60, "gpus": 1},
]


class Shown(Protocol):
    """Whatever a notebook can show."""

    def _repr_html_(self) -> str: ...


@pytest.fixture(scope="module")
def run() -> lab.Run:
    return lab.simulate(lab.workload(ROWS), recipe="fifo", cluster="1x4")


@pytest.fixture(scope="module")
def compared() -> lab.Compared:
    return lab.compare(lab.generated(20), recipes=["fifo", "las", "srtf"], cluster="1x8", seeds=2)


def test_a_run_as_tables(run: lab.Run) -> None:
    assert run.summary.finished == 2
    assert run.jobs.column("job") == ["a", "<b>"]
    assert [row["job"] for row in run.jobs] == ["a", "<b>"]
    assert run.waits.dicts()[1]["capacity_seconds"] > 500
    assert len(run.occupancy) and len(run.tenants) == 1
    with pytest.raises(SpecError, match="no column 'jobs'"):
        run.jobs.column("jobs")


def test_tables_as_frames(run: lab.Run, compared: lab.Compared) -> None:
    frame = run.jobs.frame()
    assert list(frame["gpus"]) == [4, 1]
    assert frame["jct_seconds"].dtype.kind == "f"
    trials = compared.trials.frame()
    assert len(trials) == 6
    by_recipe = trials.groupby("recipe")["mean_jct_seconds"].mean()
    means = compared.means.frame().query("metric == 'mean_jct_seconds'").set_index("recipe")
    assert by_recipe["las"] == pytest.approx(means["mean"]["las"])
    assert set(compared.differences.frame()["recipe"]) == {"las", "srtf"}


def test_a_frame_is_a_workload() -> None:
    frame = pd.DataFrame(ROWS).rename(columns={"gpus": "n"})
    frame["gpu_types"] = [None, float("nan")]
    again = lab.simulate(lab.workload(frame, columns={"gpus": "n"}), recipe="fifo", cluster="1x4")
    assert again.summary.finished == 2


def test_lengths_times_and_missing_values_of_a_frame() -> None:
    frame = pd.DataFrame(
        {
            "job_id": [1, 2],
            "submit_seconds": pd.to_datetime(["2026-01-01T10:00", "2026-01-01T10:01"]),
            "duration_seconds": pd.to_timedelta([93_600, 90], unit="s"),
            "gpus": [1, 2],
            "priority": pd.array([5, None], dtype="Int64"),
        }
    )
    jobs = lab.workload(frame).source.load(seed=0, gpus=1).jobs
    assert [job.work.amount for job in jobs] == [93_600.0, 90.0]
    assert [job.submit_seconds for job in jobs] == [0.0, 60.0]
    assert [job.request.priority for job in jobs] == [5, 0]


def test_whatever_is_wrong_with_rows_is_told_as_of_a_file() -> None:
    jobs = lab.workload([{**ROWS[0], "gpus": "many"}])
    with pytest.raises(TraceFault, match="row 1"):
        lab.simulate(jobs, recipe="fifo", cluster="1x4")
    for what in (3, [1, 2], "abc"):
        with pytest.raises(SpecError):
            lab.simulate(lab.workload(what), recipe="fifo", cluster="1x4")
    with pytest.raises(SpecError, match="recipes is one text"):
        lab.compare(lab.workload(ROWS), recipes="fifo")


def test_one_job_and_why_it_waited(run: lab.Run) -> None:
    job = run.job("<b>")
    assert job.waits_seconds["capacity"] > 500
    told = run.why("<b>")
    assert told.reasons[0].code == "Capacity.Busy"
    assert "Capacity.Busy" in told._repr_html_()
    with pytest.raises(UnknownName):
        run.job("c")


def test_what_is_odd_is_noted_and_what_is_pointless_refused() -> None:
    jobs = lab.workload(ROWS)
    assert "elasticity is not used" in lab.simulate(jobs, cluster="1x4").notes[0]
    with pytest.raises(SpecError, match="no job of this workload can ever run"):
        lab.simulate(lab.workload(ROWS[:1]), cluster="1x2")


def test_everything_can_be_looked_at_and_nothing_of_a_user_is_markup(
    run: lab.Run, compared: lab.Compared, tmp_path: Path
) -> None:
    shown: list[Shown] = [
        *(run, run.jobs, run.waits, run.occupancy, run.tenants, run.job("<b>"), run.why("<b>")),
        *(compared, compared.differences, compared.means, compared.trials),
        *(lab.workload(ROWS), lab.generated(5), Table("empty", ("a",), ())),
    ]
    for one in shown:
        text = one._repr_html_()
        assert text.startswith("<div class='weft'>")
        assert "<b></b>" not in text.replace("<b><b>", "<b></b>")
        assert "<script" not in text
    assert "&lt;b&gt;" in run.jobs._repr_html_()
    assert "more rows" in run.occupancy._repr_html_() or len(run.occupancy) <= 20
    assert run.report(tmp_path / "run.html").stat().st_size > 10_000
    assert compared.report(tmp_path / "both.html").stat().st_size > 10_000


def test_without_pandas_only_frames_are_missing(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['pandas'] = None\n"
        "from weft import lab\n"
        "run = lab.simulate(lab.generated(3), recipe='fifo', cluster='1x8')\n"
        "assert len(run.jobs.dicts()) == 3 and run._repr_html_()\n"
        "try:\n    run.jobs.frame()\nexcept Exception as error:\n    print(error, error.hint)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "needs pandas" in done.stdout
    assert "'.[notebook]'" in done.stdout
    assert "dicts()" in done.stdout


def test_the_lab_loads_nothing_until_it_is_used() -> None:
    code = "import sys, weft.lab.time_words; print('numpy' in sys.modules, dir(weft.lab))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("False")
    assert "simulate" in done.stdout
    with pytest.raises(AttributeError):
        lab.nothing  # noqa: B018


def test_no_file_or_folder_takes_the_place_of_a_public_name() -> None:
    """An imported module becomes an attribute of its package."""
    inside = {path.stem for path in Path(lab.__file__).parent.iterdir()}
    assert inside.isdisjoint(lab.__all__)
