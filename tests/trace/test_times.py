"""Times as logs write them."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.model.errors import TraceFault
from weft.trace.readers import read
from weft.trace.times import read_moment, read_span

File = Callable[..., Path]


@pytest.mark.parametrize(
    ("cell", "seconds"),
    [
        ("5400", 5400),
        ("90 min", 5400),
        ("1h30m", 5400),
        ("1 hour 30 minutes", 5400),
        ("01:30:00", 5400),
        ("1-02:03:04", 93784),
        ("02:30", 150),
        ("1-02:03", 93780),
        ("250ms", 0.25),
        ("2.5 d", 216000),
    ],
)
def test_a_span(cell: str, seconds: float) -> None:
    assert read_span(cell) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "cell", ["7 bananas", "h", "1h30", "-5", "nan", "1:2:3:4", "", "1e999", "1e300"]
)
def test_what_is_no_span(cell: str) -> None:
    with pytest.raises(ValueError, match=r"^(is|has)"):
        read_span(cell)


@given(st.text(max_size=12))
def test_any_text_is_a_time_or_a_fault(cell: str) -> None:
    for read_one in (read_span, read_moment):
        try:
            assert read_one(cell) >= 0 or read_one is read_moment
        except ValueError as error:
            assert str(error)


def test_dates_are_counted_from_the_first_and_that_is_said(tmp_path: Path) -> None:
    file = tmp_path / "jobs.csv"
    file.write_text(
        "job_id;submit_seconds;gpus;duration_seconds\n"
        "a;2026-01-01T11:00:00+01:00;4;1h\n"
        "b;2026-01-01 10:30:00;2;01:00:00\n"
    )
    read_in = read(file)
    assert [job.submit_seconds for job in read_in.jobs] == [0, 1800]
    assert [job.work.amount for job in read_in.jobs] == [3600, 3600]
    assert "holds dates" in read_in.faults[0].text


HEAD = "job_id,submit_seconds,gpus,duration_seconds"


@pytest.mark.parametrize(
    ("rows", "remark"),
    [
        (
            ["a,2026-01-01T10:00:00+01:00,1,60", "b,2026-01-01 10:00,1,60"],
            "1 of 2 dates have no time zone, and count as UTC",
        ),
        (["a,20260101,1,60", "b,20260102,1,60"], "may be dates, and count as seconds"),
        (["a,0,1,02:30", "b,0,1,90"], "1 of two parts (02:30) are read as minutes and seconds"),
    ],
    ids=["zones", "compact dates", "short clocks"],
)
def test_times_that_may_mean_something_else_are_told(
    tmp_path: Path, rows: list[str], remark: str
) -> None:
    file = tmp_path / "jobs.csv"
    file.write_text("\n".join([HEAD, *rows]))
    assert remark in read(file).faults[-1].problem


@pytest.mark.parametrize(
    "rows", [["a,0,1,00:02:30", "b,20260102,1,60"], ["a,2026-01-01,1,60", "b,2026-01-02,1,60"]]
)
def test_clear_times_need_no_remark(tmp_path: Path, rows: list[str]) -> None:
    file = tmp_path / "jobs.csv"
    file.write_text("\n".join([HEAD, *rows]))
    assert all(fault.remedy == "none needed" for fault in read(file).faults)


def test_milliseconds_since_1970_are_no_seconds(tmp_path: Path) -> None:
    file = tmp_path / "jobs.csv"
    file.write_text(f"{HEAD}\na,1767261600000,1,60\n")
    with pytest.raises(TraceFault, match="it may count milliseconds"):
        read(file)
    columns = {"submit_seconds:ms": "submit_seconds"}
    assert read(file, columns=columns).jobs[0].submit_seconds == 1767261600.0


def test_a_number_among_dates_is_a_fault(tmp_path: Path) -> None:
    file = tmp_path / "jobs.csv"
    file.write_text("job_id,submit_seconds,gpus,duration_seconds\na,2026-01-01,4,1h\nb,60,2,60\n")
    with pytest.raises(TraceFault, match="row 3, submit_seconds '60': is no date"):
        read(file)


def test_a_range_without_asked_gpus_is_told(tmp_path: Path) -> None:
    file = tmp_path / "jobs.csv"
    head = "job_id,submit_seconds,gpus,asked_gpus,duration_seconds\n"
    file.write_text(head + "a,0,1..8,,60\nb,0,1..8,4,60\n")
    (told,) = read(file).faults
    assert "1 range without asked_gpus: its length counts at the larger end" in told.text
    file.write_text(head + "b,0,1..8,4,60\n")
    assert read(file).faults == ()
