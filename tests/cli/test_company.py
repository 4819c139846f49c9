"""Jobs that take turns, from a table of one's own to what is told of them."""

from pathlib import Path

import pytest

from tests.cli.called import Weft

JOBS = """\
job_id,submit_seconds,gpus,duration_seconds,shareable,saves_on_demand,stages
loads,0,1,1000,true,true,iteration:1|storage:0.8|gpu:0.2|memory:3
computes,1,1,1000,true,true,iteration:1|storage:0.1|gpu:0.8|memory:4
alone,2,1,1000,false,true,iteration:1|storage:0.1|gpu:0.8|memory:4
"""


@pytest.fixture
def run(weft: Weft, tmp_path: Path) -> Path:
    table, out = tmp_path / "jobs.csv", tmp_path / "run"
    table.write_text(JOBS)
    done = weft("simulate", table, "--recipe", "weave", "--cluster", "1x1", "--out", out)
    assert done.status == 0, done.err
    return out


def test_a_table_with_stages_is_simulated_in_company(weft: Weft, run: Path) -> None:
    asked = weft("why", "computes", "--run", run, "--at", "500")
    said = " ".join(asked.out.split())
    assert "takes turns with loads" in said
    assert "times the work of one" in said
    assert "7 GiB of a GPU" in said


def test_company_has_a_twin_in_json(weft: Weft, run: Path) -> None:
    told = weft("why", "loads", "--run", run, "--at", "500", "-o", "json").json
    assert told["company"]["others"] == ["computes"]
    assert told["company"]["aggregate"] > 1.5
    assert weft("why", "alone", "--run", run, "--at", "500", "-o", "json").json["company"] is None
