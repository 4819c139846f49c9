"""Each format by a few rows of its own: what is recognised, and what the columns become."""

import json
from pathlib import Path

import pytest

from weft.model.errors import SpecError, TraceFault, UnknownName
from weft.model.ids import GpuType
from weft.model.plan import AS_WRITTEN, ExecutionPlan, Sharding
from weft.model.request import GpuSpeed, Width
from weft.trace.readers import FORMATS, read, recognise
from weft.trace.readers.gavel import read_gavel
from weft.trace.readers.philly import Attempt, read_attempts
from weft.trace.sheet import load

from .conftest import Write

SAMPLES: dict[str, tuple[str, ...]] = {
    "weft": ("job_id,submit_seconds,duration_seconds,gpus", "j,3,60,4"),
    "listing": ("job_id,tenant,submit_time_s,duration_s,num_gpus,extra", "j,vc,3,60,4,x"),
    "muri": (
        "job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,"
        "iteration_time,resource_time_0,resource_time_1,resource_time_2,priority",
        "j,4,3000,120,bert,4,60000,0,500,200,200,100,1",
    ),
    "tiresias": (
        "job_id,num_gpu,submit_time,iterations,model_name,duration,interval",
        "j,4,3,606,vgg19,60,30",
    ),
    "elasticflow": (
        "job_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu,duration,best_effort",
        "j,3,100,bert,90,4,4,60,0",
    ),
    "rubick": (
        "name,submission_time,duration,application,num_gpus,num_cpus,bandwidth,exec_plan,steps,is_sla",
        "j,3,60,vit,4,32,0,zero-dp,37,1",
    ),
    "shockwave": (
        "\t".join(["LM", "run 'x", "dir", "--steps", "1", "9", "4", "gns", "1", "-1", "60", "3"]),
    ),
}


def _file(file: Write, name: str) -> Path:
    ending = "trace" if "\t" in SAMPLES[name][0] else "csv"
    return file(*SAMPLES[name], name=f"sample.{ending}")


@pytest.mark.parametrize("name", SAMPLES)
def test_a_format_is_recognised_and_means_the_same_job(file: Write, name: str) -> None:
    path = _file(file, name)
    assert recognise(load(path)).name == name
    (job,) = read(path).jobs
    assert job.submit_seconds == 3.0
    assert job.width == Width.fixed(4)
    assert job.work.amount == pytest.approx(60.0)
    assert read(path, format=name).jobs == (job,)


def test_an_unknown_header_names_the_formats_and_what_is_lacking(file: Write) -> None:
    path = file("job_id,submit_seconds,cards", "j,0,1")
    with pytest.raises(TraceFault, match="for 'weft' it lacks gpus") as caught:
        read(path)
    assert all(known.name in caught.value.hint for known in FORMATS)


def test_a_trace_of_another_number_of_columns(file: Write) -> None:
    with pytest.raises(TraceFault, match="a trace of 3 columns"):
        read(file("a\tb\tc", name="x.trace"))


def test_an_unknown_format_lists_the_known(file: Write) -> None:
    with pytest.raises(UnknownName, match="no trace format 'phily'") as caught:
        read(_file(file, "weft"), format="phily")
    assert "listing" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "shape"),
    [("muri", "iteration_time, iterations, job_id"), ("gavel", "7 tab-separated columns")],
)
def test_a_format_that_does_not_fit_the_file(file: Write, name: str, shape: str) -> None:
    with pytest.raises(TraceFault, match=f"is not in format '{name}', which has {shape}"):
        read(_file(file, "weft"), format=name)


def test_a_header_that_is_like_no_other(file: Write) -> None:
    with pytest.raises(TraceFault, match=r"(?m)the header \(a, b\) is of no known format$"):
        read(file("a,b", "1,2"))


@pytest.mark.parametrize("seconds", [-1.0, float("inf"), float("nan")])
def test_a_duration_model_gives_seconds(file: Write, seconds: float) -> None:
    with pytest.raises(SpecError, match="for 'bert'"):
        read(_file(file, "weft"), durations={"bert": seconds})


class TestListing:
    HEADER = (
        "job_id,tenant,submit_time_s,duration_s,num_gpus,gpu_type,num_cpus,status,"
        "failure_reason,attempts,memory_mib,queue_delay_s"
    )

    def test_totals_are_shared_out_over_gpus(self, file: Write) -> None:
        workload = read(file(self.HEADER, "j,vc,0,60,8,A100,96,completed,,2,65536,7"))
        (job,) = workload.jobs
        assert (job.request.cpus, job.request.cpus_per_gpu) == (0.0, 12.0)
        assert (job.request.memory_gib, job.request.memory_gib_per_gpu) == (0.0, 8.0)
        assert job.request.gpu_types == (GpuSpeed(GpuType("A100")),)
        assert (job.tenant, job.request.queue) == ("vc", "default")
        recorded = workload.recorded[job.id]
        assert (recorded.status, recorded.attempts) == ("completed", 2)
        assert recorded.queue_seconds == 7.0

    def test_without_gpus_they_stay_totals(self, file: Write) -> None:
        (job,) = read(file(self.HEADER, "j,vc,0,60,0,,12,,,,2048,")).jobs
        assert (job.request.cpus, job.request.cpus_per_gpu) == (12.0, 0.0)
        assert (job.request.memory_gib, job.request.memory_gib_per_gpu) == (2.0, 0.0)


class TestElasticFlow:
    HEADER = "job_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu,duration"

    def test_a_deadline_is_recorded(self, file: Write) -> None:
        workload = read(file(self.HEADER, "j,3,100,bert,90,4,4,60"))
        assert workload.recorded[workload.jobs[0].id].deadline_seconds == 90.0

    def test_best_effort_has_none(self, file: Write) -> None:
        workload = read(file(f"{self.HEADER},best_effort", "j,3,100,bert,90,4,4,60,1"))
        assert workload.recorded == {}


class TestPollux:
    LINES = ("name,time,application,num_replicas,batch_size", "ncf-2,135,ncf,1,32768")

    def test_without_durations_no_row_is_a_job(self, file: Write) -> None:
        with pytest.raises(TraceFault, match="duration unknown for model 'ncf'") as caught:
            read(file(*self.LINES))
        assert "--duration MODEL=SECONDS" in caught.value.hint

    def test_durations_by_application(self, file: Write) -> None:
        (job,) = read(file(*self.LINES), durations={"ncf": 900.0}).jobs
        assert (job.id, job.work.amount, job.request.model) == ("ncf-2", 900.0, "ncf")


class TestRubick:
    HEADER = SAMPLES["rubick"][0]

    @pytest.mark.parametrize(
        ("cell", "plan"),
        [
            ("344", ExecutionPlan(pipeline=3, tensor=4, data=4)),
            ("zero-dp", ExecutionPlan(sharding=Sharding.GRADIENTS)),
            ("zero-offload", ExecutionPlan(sharding=Sharding.GRADIENTS, offload=True)),
            ("gc", ExecutionPlan(recompute=True)),
            ("ga", AS_WRITTEN),
        ],
    )
    def test_plans(self, file: Write, cell: str, plan: ExecutionPlan) -> None:
        (job,) = read(file(self.HEADER, f"j,0,60,vit,48,384,0,{cell},9,0")).jobs
        assert job.request.plans == (plan,)
        assert (job.tenant, job.request.cpus_per_gpu) == ("best-effort", 8.0)

    @pytest.mark.parametrize("cell", ["34", "30x", "304", "zero"])
    def test_a_plan_that_is_none(self, file: Write, cell: str) -> None:
        with pytest.raises(TraceFault, match="is no execution plan"):
            read(file(self.HEADER, f"j,0,60,vit,48,384,0,{cell},9,0"))


THROUGHPUTS = {
    "v100": {"('LM', 4)": {"null": 10.0, "('LM', 4)": [1, 1]}, "('A3C', 1)": {"null": 0}},
    "k80": {"('LM', 4)": {"null": 2.5}},
}


class TestGavel:
    ROW = "\t".join(["LM", "cd %s && run", "--steps", "1", "600", "3.0", "4"])

    @pytest.fixture
    def table(self, tmp_path: Path) -> Path:
        folder = tmp_path / "tables"
        folder.mkdir()
        path = folder / "simulation_throughputs.json"
        path.write_text(json.dumps(THROUGHPUTS))
        return path

    def test_steps_become_seconds(self, file: Write, table: Path) -> None:
        workload = read(file(self.ROW, name="0e4a51.trace"), throughputs=table)
        (job,) = workload.jobs
        assert (job.id, job.tenant, job.request.model) == ("0e4a51-0", "0e4a51", "LM")
        assert (job.work.amount, job.submit_seconds) == (60.0, 3.0)
        assert job.request.gpu_types == ()
        assert str(table) in workload.notes[0]

    def test_a_table_beside_the_traces_is_found(self, file: Write, table: Path) -> None:
        table.rename(table.parent.parent / table.name)
        assert len(read(file(self.ROW, name="0e4a51.trace")).jobs) == 1

    def test_without_a_table_the_duration_is_unknown(self, file: Write) -> None:
        with pytest.raises(TraceFault, match="no v100 throughput of LM on 4 GPUs") as caught:
            read(file(self.ROW, name="0e4a51.trace"))
        assert "give throughputs=simulation_throughputs.json" in caught.value.hint

    def test_a_pair_that_nobody_measured(self, file: Write, table: Path) -> None:
        row = self.ROW.replace("LM", "A3C").replace("\t4", "\t1")
        with pytest.raises(TraceFault, match="no v100 throughput of A3C on 1 GPUs"):
            read(file(row, name="0e4a51.trace"), throughputs=table)

    def test_speeds_of_other_types(self, file: Write, table: Path) -> None:
        path = file(self.ROW, name="0e4a51.trace")
        (job,) = read_gavel(path, throughputs=table, gpu_speeds=True).jobs
        assert job.request.gpu_types == (
            GpuSpeed(GpuType("v100"), 1.0),
            GpuSpeed(GpuType("k80"), 0.25),
        )

    @pytest.mark.parametrize("content", ["", "[]", '{"v100": {"(": {"null": 1}}}'])
    def test_a_table_that_is_none(self, file: Write, table: Path, content: str) -> None:
        table.write_text(content)
        with pytest.raises(TraceFault, match="is no table of throughputs"):
            read(file(self.ROW, name="0e4a51.trace"), throughputs=table)


def test_shockwave_numbers_jobs_by_row_and_notes_their_modes(file: Write) -> None:
    (row,) = SAMPLES["shockwave"]
    workload = read(file(row, row.replace("gns", "static"), name="x.trace"))
    assert [job.id for job in workload.jobs] == ["0", "1"]
    assert workload.notes[0] == "1 jobs adapt their batch by 'gns'"


@pytest.mark.parametrize(
    ("name", "expected"), [("a.csv", "a"), ("120_0.2_5.trace", "120_0.2_5"), ("b.c.csv", "b.c")]
)
def test_a_workload_is_called_as_its_file(file: Write, name: str, expected: str) -> None:
    lines = SAMPLES["shockwave" if name.endswith("trace") else "weft"]
    assert read(file(*lines, name=name)).name == expected


class TestAttempts:
    HEADER = "job_id,attempt,start_s,end_s"

    def test_tries_one_by_one(self, file: Write) -> None:
        tries = read_attempts(file(self.HEADER, "j,0,5,9", "j,1,20,90"))
        assert tries.attempts[1] == Attempt("j", 1, 20.0, 90.0)  # type: ignore[arg-type]

    def test_a_try_that_ends_before_it_begins(self, file: Write) -> None:
        path = file(self.HEADER, "j,0,9,5", "j,1,20,90", "j,1.5,20,90")
        with pytest.raises(TraceFault, match="ends before it begins at 9"):
            read_attempts(path)
        skipped = read_attempts(path, on_fault="skip")
        assert [attempt.number for attempt in skipped.attempts] == [1]
        assert [fault.row for fault in skipped.faults] == [2, 4]
        assert skipped.faults[1].problem == "is not a whole number"
