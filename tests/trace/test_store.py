"""A workload that is written reads back the same, and the same workload gives the same bytes."""

import gzip
import sys
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.model.curve import Curve
from weft.model.errors import SpecError, TraceFault
from weft.model.ids import GpuType, JobId, QueueId, TenantId
from weft.model.job import Job
from weft.model.plan import AS_WRITTEN, ExecutionPlan
from weft.model.request import GpuSpeed, Locality, Width, WorkUnit
from weft.model.truth import Work
from weft.trace.readers import read
from weft.trace.schema import COLUMNS, SCHEMA_VERSION, describe, tabulate
from weft.trace.store import write
from weft.trace.workload import Recorded, Workload

amounts = st.floats(min_value=0, max_value=1e12)
times = st.floats(min_value=0, max_value=1e10)
names = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufeff"),
    min_size=1,
    max_size=12,
)
CURVE = Curve(((1, 10.0), (4, 35.5)))


@st.composite
def widths(draw: st.DrawFn) -> Width:
    least, asked, most = sorted(draw(st.tuples(*[st.integers(1, 128)] * 3)))
    return Width(least, most, asked)


@st.composite
def jobs(draw: st.DrawFn, name: str) -> Job:
    curve = draw(st.sampled_from([None, CURVE]))
    units = (WorkUnit.SECONDS,) if curve is None else (WorkUnit.SECONDS, WorkUnit.SAMPLES)
    unit = draw(st.sampled_from(units))
    return Job.told(
        id=JobId(name),
        width=draw(widths()),
        work=Work(draw(times), unit),
        tell_work=draw(st.booleans()),
        tell_curve=curve is None or draw(st.booleans()),
        saves_on_demand=draw(st.booleans()),
        submit_seconds=draw(times),
        tenant=TenantId(draw(names)),
        queue=QueueId(draw(names)),
        priority=draw(st.integers(-100, 100)),
        cpus=draw(amounts),
        cpus_per_gpu=draw(amounts),
        memory_gib=draw(amounts),
        memory_gib_per_gpu=draw(amounts),
        gpu_types=draw(st.sampled_from([(), (GpuSpeed(GpuType("A100"), 1.5),)])),
        locality=Locality(draw(amounts), draw(amounts)),
        max_nodes=draw(st.none() | st.integers(1, 64)),
        curve=curve,
        plans=draw(st.sampled_from([(AS_WRITTEN,), (ExecutionPlan(data=2, tensor=4), AS_WRITTEN)])),
        checkpoint_interval_seconds=draw(times),
        preemptible=draw(st.booleans()),
        shareable=draw(st.booleans()),
        max_retries=draw(st.integers(0, 9)),
        model=draw(names),
    )


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    ids = draw(st.lists(names, unique=True, max_size=6))
    made = sorted((draw(jobs(name)) for name in ids), key=lambda job: job.submit_seconds)
    told = st.builds(
        Recorded,
        status=names,
        attempts=st.none() | st.integers(0, 5),
        queue_seconds=st.none() | times,
        user=names | st.just(""),
        partition=names | st.just(""),
        allocated_gpu_types=st.sampled_from(["", "a100", "a100|h100"]),
    )
    recorded = {job.id: draw(told) for job in made if draw(st.booleans())}
    return Workload(name="w", jobs=tuple(made), recorded=recorded)


ENDINGS = [".csv", ".csv.gz"]


def _round_trip(workload: Workload, ending: str) -> Workload:
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"w{ending}"
        write(workload, path)
        return read(path)


@pytest.mark.parametrize("ending", ENDINGS)
@given(workload=workloads())
@settings(max_examples=60)
def test_what_is_written_reads_back(ending: str, workload: Workload) -> None:
    again = _round_trip(workload, ending)
    assert again.jobs == workload.jobs
    assert again.recorded == workload.recorded


@given(workload=workloads())
@settings(max_examples=20)
def test_parquet_too(workload: Workload) -> None:
    pytest.importorskip("pyarrow")
    again = _round_trip(workload, ".parquet")
    assert again.jobs == workload.jobs
    assert again.recorded == workload.recorded


def _a_workload(*, jobs: int = 3) -> Workload:
    ids = [JobId(f"j{index}") for index in range(jobs)]
    return Workload(
        name="w",
        jobs=tuple(Job.told(id=name, width=Width.fixed(1), work=Work(60.0)) for name in ids),
    )


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_same_workload_gives_the_same_bytes(tmp_path: Path, ending: str) -> None:
    one, two = tmp_path / f"one{ending}", tmp_path / f"two{ending}"
    write(_a_workload(), one)
    write(_a_workload(), two)
    assert one.read_bytes() == two.read_bytes()


def test_a_plain_job_needs_few_columns(tmp_path: Path) -> None:
    path = tmp_path / "w.csv.gz"
    write(_a_workload(jobs=1), path)
    assert gzip.decompress(path.read_bytes()).decode() == (
        "job_id,tenant,queue,submit_seconds,duration_seconds,gpus,schema_version\n"
        "j0,default,default,0,60,1,1\n"
    )


def test_the_schema_is_frozen() -> None:
    """A column may be added here; one that changes its meaning needs a new version."""
    assert SCHEMA_VERSION == 1
    assert " ".join(column.name for column in COLUMNS) == (
        "job_id tenant queue submit_seconds duration_seconds samples work_known gpus asked_gpus "
        "cpus cpus_per_gpu memory_gib memory_gib_per_gpu gpu_types max_nodes "
        "node_doubling_slowdown rack_doubling_slowdown curve curve_known stages plans "
        "priority preemptible shareable checkpoint_interval_seconds saves_on_demand max_retries "
        "model status failure_reason attempts queue_seconds deadline_seconds user partition "
        "allocated_gpu_types schema_version"
    )


def test_the_schema_describes_itself() -> None:
    table = describe().splitlines()
    assert len(table) == len(COLUMNS) + 2
    assert "| `gpus` | notation | `request.width` | GPUs, or min..max |" in table
    assert all(line.count("|") - line.count("\\|") == 5 for line in table)


@pytest.mark.parametrize(
    ("name", "problem"), [("", "a name is empty"), ("a\nb", "does not fit on a line")]
)
def test_names_that_would_not_read_back_are_refused(name: str, problem: str) -> None:
    job = Job.told(id=JobId(name), width=Width.fixed(1), work=Work(1.0))
    with pytest.raises(SpecError, match=problem):
        tabulate(Workload(name="w", jobs=(job,)))


def test_an_ending_that_is_not_known(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"no job table is written as 'w.xlsx'"):
        write(_a_workload(), tmp_path / "w.xlsx")


def test_parquet_without_its_package_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(SpecError) as caught:
        write(_a_workload(), tmp_path / "w.parquet")
    assert caught.value.hint == "in Weft's checkout: pip install '.[parquet]'; or use .csv.gz"
    (tmp_path / "w.parquet").write_bytes(b"PAR1")
    with pytest.raises(SpecError, match="needs the package pyarrow"):
        read(tmp_path / "w.parquet")


def test_a_parquet_file_that_is_none(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "w.parquet").write_bytes(b"nothing of the kind")
    with pytest.raises(TraceFault, match="is not Parquet"):
        read(tmp_path / "w.parquet")


def test_lengths_of_parquet_are_seconds(tmp_path: Path) -> None:
    """A length of a day or more, or in ns, was refused; one under a day passed as a clock."""
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    lengths = [timedelta(seconds=90), timedelta(days=2, hours=3), timedelta(milliseconds=1500)]
    for unit in ("ms", "us"):
        columns = {
            "job_id": [b"a", b"b", b"c"],
            "submit_seconds": [0, 1, 2],
            "gpus": [1, 1, 1],
            "Runtime (min)": arrow.array(lengths, arrow.duration(unit)),
        }
        path = tmp_path / f"{unit}.parquet"
        parquet.write_table(arrow.table(columns), path)
        jobs = read(path, columns={"duration_seconds": "Runtime (min)"}).jobs
        assert [job.work.amount for job in jobs] == [90.0, 183_600.0, 1.5]
        assert [job.id for job in jobs] == ["a", "b", "c"]
