"""A workload is held against its cluster before it is run."""

import pytest

from weft.lab.workloads.preflight import preflight, remarks
from weft.model.errors import SpecError
from weft.model.ids import GpuType, JobId, QueueId
from weft.model.job import Job
from weft.model.queue import Queue, QueueTree
from weft.model.request import GpuSpeed, Width
from weft.model.truth import Work
from weft.policy.recipes import RECIPES
from weft.trace.clusters import ClusterSetup, read_cluster
from weft.trace.readers import read_rows

SETUP = read_cluster("2x4")
FIXED, ELASTIC = [RECIPES["fifo"]()], [RECIPES["weave"]()]


def job(name: str, width: Width, **more: object) -> Job:
    return Job.told(id=JobId(name), width=width, work=Work(60.0), **more)  # type: ignore[arg-type]


def test_what_fits_is_not_spoken_of() -> None:
    assert preflight([job("a", Width.fixed(8))], SETUP, FIXED) == ()


def test_jobs_of_a_queue_that_is_not_there_are_refused() -> None:
    tree = QueueTree((Queue(id=QueueId("research")),))
    with pytest.raises(SpecError, match=r"2 of 2 jobs are of queues .* 2 of 'default'") as caught:
        preflight(
            [job(name, Width.fixed(1)) for name in "ab"], ClusterSetup(SETUP.cluster, tree), []
        )
    assert "its queues: research" in caught.value.hint


@pytest.mark.parametrize(
    "stranded",
    [
        job("wide", Width.fixed(9)),
        job("near", Width.fixed(8), max_nodes=1),
        job("typed", Width.fixed(1), gpu_types=(GpuSpeed(GpuType("H100"), 1.0),)),
    ],
    ids=lambda one: str(one.id),
)
def test_jobs_that_nothing_can_hold_are_told_and_all_of_them_refused(stranded: Job) -> None:
    (note,) = preflight([job("a", Width.fixed(1)), stranded], SETUP, FIXED)
    assert "1 job can never run on this cluster" in note and str(stranded.id) in note
    with pytest.raises(SpecError, match="no job of this workload can ever run there"):
        preflight([stranded], SETUP, FIXED)


def test_requested_gpu_types_that_no_node_has_are_named_with_the_remedy() -> None:
    typed = job("typed", Width.fixed(1), gpu_types=(GpuSpeed(GpuType("a100")),))
    (note,) = preflight([job("a", Width.fixed(1)), typed], SETUP, FIXED)
    assert "no node has the requested GPU type a100" in note
    with pytest.raises(SpecError) as caught:
        preflight([typed], SETUP, FIXED)
    assert "--column gpu_types=" in caught.value.hint
    (wide,) = preflight([job("a", Width.fixed(1)), job("b", Width.fixed(9))], SETUP, FIXED)
    assert "GPU type " not in wide.partition("it has")[2]


def test_elasticity_that_is_not_used_is_told() -> None:
    fixed, ranged = job("a", Width.fixed(2)), job("b", Width(1, 4, 2))
    (note,) = preflight([fixed], SETUP, ELASTIC)
    assert "elasticity is not used: the job asks" in note and "weave" in note
    assert preflight([fixed, ranged], SETUP, ELASTIC) == ()
    assert preflight([fixed], SETUP, FIXED) == ()


def test_what_the_reader_has_to_say_is_passed_on() -> None:
    header = ("job_id", "submit_seconds", "duration_seconds", "gpus")
    (note,) = remarks(read_rows(header, [("a", "0", "60", "1..8"), ("b", "0", "60", "4")]))
    assert "1 range without asked_gpus: its length counts at the larger end" in note
    assert "add a column asked_gpus" in note
    assert remarks(read_rows(header, [("b", "0", "60", "4")])) == ()
