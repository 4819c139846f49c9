"""The public traces themselves: every job file is read, and every known fault is found."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from weft.model.errors import TraceFault
from weft.trace.clusters import read_cluster
from weft.trace.faults import Severity
from weft.trace.fit import fit
from weft.trace.mix import SizeClass
from weft.trace.node_list import read_nodes
from weft.trace.philly_mix import PHILLY
from weft.trace.readers import read
from weft.trace.readers.gavel import read_gavel
from weft.trace.readers.muri import UNMEASURED_START_SECONDS, read_muri
from weft.trace.readers.philly import read_attempts
from weft.trace.workload import Workload

BY_APPLICATION = dict.fromkeys(
    ("bert", "cifar10", "deepspeech2", "imagenet", "ncf", "yolov3"), 3600.0
)
# File, jobs read, rows in error, warnings.
COUNTS = [
    ("jobs/acme_kalos_completed.csv", 319, 0, 0),
    ("jobs/alibaba_dlrm2025.csv.gz", 12_390, 11_481, 9_188),
    ("jobs/alibaba_openb2023.csv", 4_682, 3_470, 4_833),
    ("jobs/elasticflow_philly_103959.csv", 876, 0, 0),
    ("jobs/gavel_msr_seed0.csv.gz", 14_928, 336, 0),
    ("jobs/muri_philly.csv.gz", 10_879, 0, 0),
    ("jobs/philly_attempts.csv", 3_034, 0, 10),
    ("jobs/philly_pollux.csv.gz", 82_247, 0, 0),
    ("jobs/sia_helios_saturn.csv", 0, 1_600, 0),
    ("muri/cluster_trace.csv", 400, 0, 228),
    ("muri/job_type_1.csv", 992, 0, 1),
    ("muri/job_type_2.csv", 992, 0, 1),
    ("muri/job_type_3.csv", 992, 0, 2),
    ("muri/job_type_4.csv", 992, 0, 2),
    ("muri/trace1.csv", 1_494, 0, 4),
    ("muri/trace2.csv", 5_755, 0, 46),
    ("muri/trace3.csv", 992, 0, 2),
    ("muri/trace3_pr.csv", 992, 0, 2),
    ("muri/trace4.csv", 2_638, 0, 6),
    ("tiresias/60_job.csv", 60, 0, 0),
    ("tiresias/tf_job.csv", 1, 1, 0),
    ("elasticflow/philly_103959.csv", 876, 0, 0),
    ("elasticflow/elasticVpollux_e.csv", 195, 0, 0),
    ("elasticflow/resnet_cifar_trace.csv", 5, 0, 0),
    ("gavel/msr_seed0/0e4a51.trace", 984, 197, 0),
    ("gavel/msr_seed0/ed69ec.trace", 951, 0, 0),
    ("pollux/workloads/workload-1.csv", 0, 160, 0),
    ("sia/workloads/scale/scale_32x/workload-1.csv", 0, 5_120, 0),
    ("rubick/workloads/workload-base.csv", 406, 0, 0),
    ("rubick/workloads/workload-mt.csv", 406, 0, 0),
]


def _rows(workload: Workload, severity: Severity) -> Counter[str]:
    return Counter(fault.problem for fault in workload.faults if fault.severity is severity)


@pytest.mark.parametrize(("name", "jobs", "errors", "warnings"), COUNTS)
def test_counts(traces: Path, name: str, jobs: int, errors: int, warnings: int) -> None:
    workload = read(traces / name, on_fault="skip")
    assert len(workload.jobs) == jobs
    bad = {fault.row for fault in workload.faults if fault.severity is Severity.ERROR}
    assert len(bad) == errors
    assert _rows(workload, Severity.WARNING).total() == warnings
    submits = [job.submit_seconds for job in workload.jobs]
    assert submits == sorted(submits)


FOLDERS = [
    "muri/trace*.csv",
    "elasticflow/*.csv",
    "gavel/msr_seed0/*.trace",
    "shockwave/*.trace",
    "pollux/workloads*/*.csv",
    "sia/workloads/**/*.csv",
    "rubick/workloads/*.csv",
]


@pytest.mark.parametrize("pattern", FOLDERS)
def test_every_job_file_of_a_folder_is_read(traces: Path, pattern: str) -> None:
    paths = sorted(traces.glob(pattern))
    assert paths
    for path in paths:
        workload = read(path, durations=BY_APPLICATION, on_fault="skip")
        assert workload.jobs, path


def test_philly_is_read_in_a_few_times_what_its_lines_take(traces: Path) -> None:
    """In a process of its own, so that neither a coverage tracer nor its heap is measured.

    A line of text becomes a request and a truth, two values with two dozen fields.
    """
    code = (
        "import csv, gzip, sys, time; from weft.trace.readers import read;"
        "marks = [time.process_time()]; lines = list(csv.DictReader(gzip.open(sys.argv[1], 'rt')));"
        "marks.append(time.process_time()); read(sys.argv[1]); marks.append(time.process_time());"
        "print((marks[2] - marks[1]) / (marks[1] - marks[0]))"
    )
    path = traces / "jobs/philly_pollux.csv.gz"
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], check=True, capture_output=True, text=True
    )
    assert float(done.stdout) <= 12.0


def test_philly(traces: Path) -> None:
    workload = read(traces / "jobs/philly_pollux.csv.gz")
    assert workload.gpu_seconds / 3600 == pytest.approx(978_078, abs=1)
    assert workload.span_seconds == 9_408_690
    assert {job.request.queue for job in workload.jobs} == {"default"}
    assert len({job.tenant for job in workload.jobs}) == 15
    assert len(workload.recorded) == 3_024


class TestMuri:
    def test_rows_that_disagree_with_themselves(self, traces: Path) -> None:
        for name, expected in (("cluster_trace", 223), ("trace3", 2)):
            faults = read_muri(traces / f"muri/{name}.csv").workload.faults
            assert sum(fault.column == "duration" for fault in faults) == expected

    def test_rows_whose_stages_do_not_add_up(self, traces: Path) -> None:
        trace = read_muri(traces / "muri/cluster_trace.csv")
        rows = {fault.row for fault in trace.workload.faults if fault.column == "iteration_time"}
        # Jobs are numbered from 0 below a header, and the file is in order of submission.
        assert {(row or 0) - 2 for row in rows} == {43, 152, 182, 286, 389}
        odd = [row for row in trace.rows if sum(row.stage_seconds) < 0.5 * row.iteration_seconds]
        assert {row.job for row in odd} == {"43", "152", "182", "286", "389"}
        assert {(row.model, row.gpus) for row in odd} == {("resnet18", 32)}

    def test_every_model_and_width_has_a_start_overhead(self, traces: Path) -> None:
        trace = read_muri(
            traces / "muri/trace3.csv", start_overheads=traces / "muri/start_overheads.csv"
        )
        a2c = {row.start_seconds for row in trace.rows if row.model == "a2c"}
        assert min(a2c, key=lambda seconds: seconds or 0) == 38
        assert all(row.start_seconds is not None for row in trace.rows)
        assert all(
            row.start_seconds != UNMEASURED_START_SECONDS
            for row in trace.rows
            if row.model == "resnet18"
        )

    @pytest.mark.parametrize(
        ("name", "by_iterations", "by_durations"),
        [("trace3", 116_689.4, 116_690.1), ("cluster_trace", 65_986.1, 61_343.6)],
    )
    def test_work_is_what_the_iterations_say(
        self, traces: Path, name: str, by_iterations: float, by_durations: float
    ) -> None:
        trace = read_muri(traces / f"muri/{name}.csv")
        assert trace.workload.gpu_seconds / 3600 == pytest.approx(by_iterations, abs=0.1)
        stated = sum(row.gpus * row.stated_seconds for row in trace.rows)
        assert stated / 3600 == pytest.approx(by_durations, abs=0.1)


def test_openb_asks_for_parts_of_gpus(traces: Path) -> None:
    path = traces / "jobs/alibaba_openb2023.csv"
    with pytest.raises(TraceFault, match="asks for part of a GPU"):
        read(path)
    workload = read(path, on_fault="skip")
    errors = _rows(workload, Severity.ERROR)
    assert errors == {"asks for part of a GPU": 3_078, "duration unknown": 897}
    unfinished = "had not ended when this was written: its length so far counts as its whole one"
    warnings = {"asks for CPUs only": 1_052, unfinished: 3_781}
    assert _rows(workload, Severity.WARNING) == warnings


def test_gavel_jobs_before_the_beginning(traces: Path) -> None:
    workload = read(traces / "jobs/gavel_msr_seed0.csv.gz", on_fault="skip")
    negative = [fault.row for fault in workload.faults if fault.problem == "is negative"]
    assert negative == [2, 3]


def test_gavel_speeds(traces: Path) -> None:
    path = traces / "gavel/msr_seed0/0e4a51.trace"
    first = read_gavel(path, gpu_speeds=True, on_fault="skip").jobs[0]
    assert first.work.amount == pytest.approx(17_465.9, abs=0.1)
    speeds = {str(accepted.type): accepted.speed for accepted in first.request.gpu_types}
    assert speeds["v100"] == 1.0
    assert speeds["k80"] == pytest.approx(17_465.9 / 96_905.7, rel=1e-3)


def test_arrivals_get_durations_by_application(traces: Path) -> None:
    path = traces / "pollux/workloads/workload-1.csv"
    assert len(read(path, durations=BY_APPLICATION).jobs) == 160


def test_rubick_guarantees(traces: Path) -> None:
    jobs = read(traces / "rubick/workloads/workload-mt.csv").jobs
    assert sum(job.tenant == "guaranteed" for job in jobs) == 194
    assert all(plan.fits_width(job.width.asked_gpus) for job in jobs for plan in job.request.plans)


def test_philly_attempts_one_by_one(traces: Path) -> None:
    jobs = read(traces / "jobs/philly_attempts.csv")
    tries = read_attempts(traces / "jobs/philly_attempts_detail.csv.gz").attempts
    counted = Counter(attempt.job for attempt in tries)
    assert len(tries) == 4_490
    assert {job: told.attempts for job, told in jobs.recorded.items()} == counted


@pytest.mark.parametrize(
    ("name", "nodes", "gpus", "racks"),
    [
        ("jobs/nodes_philly.csv", 552, 3_205, 1),
        ("jobs/nodes_openb2023.csv", 1_523, 6_212, 1),
        ("jobs/nodes_alibaba_spot2026.csv", 4_278, 10_412, 1),
        ("tiresias/n32g4.csv", 32, 128, 1),
        ("tiresias/n160g8.csv", 160, 1_280, 5),
        ("tiresias/n256g8.csv", 256, 2_048, 8),
    ],
)
def test_clusters(traces: Path, name: str, nodes: int, gpus: int, racks: int) -> None:
    cluster = read_cluster(traces / name).cluster
    assert (len(cluster.nodes), cluster.gpus) == (nodes, gpus)
    assert len({node.rack for node in cluster.nodes}) == racks


def test_lingjun_has_119_racks(traces: Path) -> None:
    cluster = read_nodes(traces / "jobs/topology_lingjun2023.csv", gpus_per_node=8)
    assert len(cluster.nodes) == 847
    assert len({node.rack for node in cluster.nodes}) == 119


def test_the_mix_of_philly_is_the_fit_of_philly(traces: Path) -> None:
    found = fit(read(traces / "jobs/philly_pollux.csv.gz"))
    assert found.jobs_per_hour == pytest.approx(PHILLY.jobs_per_hour, rel=0.01)
    assert found.surge_sigma == pytest.approx(PHILLY.surge_sigma, rel=0.05)
    assert found.daily_swing == pytest.approx(PHILLY.daily_swing, rel=0.01)
    assert [tenant.name for tenant in found.tenants] == [tenant.name for tenant in PHILLY.tenants]
    assert [tenant.sweep_jobs for tenant in found.tenants] == [
        tenant.sweep_jobs for tenant in PHILLY.tenants
    ]
    for fitted, kept in zip(found.classes, PHILLY.classes, strict=True):
        np.testing.assert_allclose(_humps(fitted), _humps(kept), rtol=0.01)


def _humps(size: SizeClass) -> list[float]:
    return [n for hump in size.durations for n in (hump.share, hump.median_seconds, hump.sigma)]
