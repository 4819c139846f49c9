"""`weft why` of a job that failed in a recorded run: class, line, what was done, what to do."""

from pathlib import Path

from tests.cli.called import Weft

SIMULATE = ("simulate", "--jobs", "120", "--failures", "philly*2", "-r", "backfill", "--out")


def a_failed_job(folder: Path) -> str:
    lines = (folder / "jobs.csv").read_text().splitlines()
    return next(line.split(",")[0] for line in lines if ",failed," in line and ",user," in line)


def test_a_failed_job_is_told_in_four_lines_and_in_json(weft: Weft, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    assert weft(*SIMULATE, str(folder)).status == 0
    why = ("why", a_failed_job(folder), "--run", str(folder))
    told = weft(*why).out
    assert "It failed: " in told and "[user]" in told
    assert "done: 1 run failed; another try would end the same way" in told
    assert "to do: mend the program at the line shown and submit it again" in told
    assert "It does not wait" not in told
    failed = weft(*why, "-o", "json").json["failed"]
    assert failed["kind"] == "user" and failed["evidence"] and failed["failures"] == 1
    assert weft(*why, "--at", "0", "-o", "json").json["failed"] is None
    assert weft("replay", str(folder)).status == 0, "what was found is in the journal"


def test_what_goes_wrong_has_to_have_a_name(weft: Weft) -> None:
    refused = weft("simulate", "--jobs", "5", "--failures", "filly")
    assert refused.status != 0 and "write philly" in refused.err
