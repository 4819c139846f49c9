"""Generated workloads: one seed is one workload, and its numbers are those of the mix."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.model.errors import SpecError
from weft.trace.fit import dispersion, fit, fit_lognormals
from weft.trace.generator import draw_seconds, generate
from weft.trace.mix import Lognormal, Mix, SizeClass, TenantMix
from weft.trace.philly_mix import PHILLY
from weft.trace.readers import read
from weft.trace.store import write
from weft.trace.workload import Workload

MINUTE, DAY = 60.0, 86_400.0
# Philly by class of size: share of jobs, of GPU time; p50, p90; share under a minute, over a day.
TABLE = [
    (0.932, 0.181, 1_117, 8_512, 0.081, 0.016),
    (0.045, 0.199, 367, 166_199, 0.384, 0.184),
    (0.020, 0.484, 23_683, 352_409, 0.018, 0.379),
    (0.0035, 0.136, 21_137, 252_560, 0.093, 0.284),
]
EDGES = [2, 5, 9]


def _columns(workload: Workload) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return (
        np.array([job.submit_seconds for job in workload.jobs]),
        np.array([job.width.asked_gpus for job in workload.jobs]),
        np.array([job.work.amount for job in workload.jobs]),
    )


@pytest.fixture(scope="module")
def philly() -> Workload:
    return generate(jobs=82_247, seed=1)


class TestPhilly:
    @pytest.mark.parametrize("index", range(4))
    def test_durations_of_each_class(self, index: int) -> None:
        """Quantiles within 12 % of the table, shares within 1.5 percentage points."""
        _, _, p50, p90, short, long = TABLE[index]
        rng = np.random.default_rng(7)
        seconds = draw_seconds(PHILLY.classes[index], 200_000, PHILLY.longest_seconds, rng)
        assert np.median(seconds) == pytest.approx(p50, rel=0.12)
        assert np.quantile(seconds, 0.9) == pytest.approx(p90, rel=0.12)
        assert (seconds < MINUTE).mean() == pytest.approx(short, abs=0.015)
        assert (seconds > DAY).mean() == pytest.approx(long, abs=0.015)
        assert 1 <= seconds.min() <= seconds.max() <= PHILLY.longest_seconds

    def test_sizes(self, philly: Workload) -> None:
        """Shares of jobs within a tenth of themselves, of GPU time within 6 percentage points."""
        _, gpus, seconds = _columns(philly)
        kind = np.digitize(gpus, EDGES)
        work = gpus * seconds
        for index, (jobs, time, *_) in enumerate(TABLE):
            assert (kind == index).mean() == pytest.approx(jobs, rel=0.1)
            assert work[kind == index].sum() / work.sum() == pytest.approx(time, abs=0.06)

    def test_arrivals_come_in_bursts(self, philly: Workload) -> None:
        """Mean rate within 2 %, variance over mean of 161 and peak of 778 within a quarter."""
        submits, _, _ = _columns(philly)
        hours = np.bincount((submits // 3600).astype(int))
        assert hours.mean() == pytest.approx(31.5, rel=0.02)
        assert dispersion(submits) == pytest.approx(161, rel=0.25)
        assert hours.max() == pytest.approx(778, rel=0.25)

    def test_tenants_differ_by_nature(self, philly: Workload) -> None:
        wide = {
            name: np.mean([job.width.asked_gpus > 1 for job in philly.jobs if job.tenant == name])
            for name in ("6214e9", "ee9e8c")
        }
        assert wide["6214e9"] == pytest.approx(0.009, abs=0.005)
        assert wide["ee9e8c"] == pytest.approx(0.605, abs=0.05)
        share = np.mean([job.tenant == "6214e9" for job in philly.jobs])
        assert share == pytest.approx(0.50, abs=0.01)


class TestSeed:
    def test_same_seed_same_bytes(self, tmp_path: Path) -> None:
        write(generate(jobs=500, seed=3), tmp_path / "one.csv.gz")
        write(generate(jobs=500, seed=3), tmp_path / "two.csv.gz")
        assert (tmp_path / "one.csv.gz").read_bytes() == (tmp_path / "two.csv.gz").read_bytes()

    def test_another_seed_is_another_workload(self) -> None:
        assert generate(jobs=50, seed=3).jobs != generate(jobs=50, seed=4).jobs

    def test_a_generator_is_as_good_as_its_seed(self) -> None:
        drawn = generate(jobs=50, seed=np.random.default_rng(3))
        assert drawn.jobs == generate(jobs=50, seed=3).jobs

    def test_what_is_generated_can_be_kept_in_a_file(self, tmp_path: Path) -> None:
        workload = generate(jobs=200, seed=5)
        write(workload, tmp_path / "w.csv")
        again = read(tmp_path / "w.csv")
        assert again.jobs == workload.jobs
        assert again.faults == ()


class TestSpan:
    @given(
        jobs=st.integers(1, 400),
        seed=st.integers(0, 2**32),
        load=st.floats(0.1, 2.0),
        gpus=st.integers(1, 256),
    )
    @settings(max_examples=30)
    def test_a_load_sets_the_span(self, jobs: int, seed: int, load: float, gpus: int) -> None:
        workload = generate(jobs=jobs, seed=seed, load=load, gpus=gpus)
        assert len(workload.jobs) == jobs
        assert all(job.width.max_gpus <= gpus for job in workload.jobs)
        submits, _, _ = _columns(workload)
        assert (np.diff(submits) >= 0).all()
        assert submits[0] >= 0
        days = workload.gpu_seconds / (load * gpus) / DAY
        assert workload.notes[0].endswith(f"over {days:.2f} days")

    def test_days_set_the_span(self) -> None:
        submits, _, _ = _columns(generate(jobs=3000, seed=1, days=2))
        assert np.quantile(submits, 0.98) < 2 * DAY
        assert submits[-1] > 1 * DAY

    @pytest.mark.parametrize(
        ("jobs", "days", "load", "gpus", "problem"),
        [
            (0, None, None, None, "0 jobs are no workload"),
            (5, 1.0, 0.5, 8, "days and load say two things"),
            (5, None, 0.5, None, "a load needs GPUs"),
            (5, 0.0, None, None, "days is 0.0"),
            (5, None, float("inf"), 8, "load is inf"),
            (5, None, 0.5, 0, "gpus is 0"),
        ],
    )
    def test_what_makes_no_sense(
        self, jobs: int, days: float | None, load: float | None, gpus: int | None, problem: str
    ) -> None:
        with pytest.raises(SpecError, match=problem):
            generate(jobs=jobs, seed=1, days=days, load=load, gpus=gpus)

    def test_a_mix_that_does_not_fit_the_cluster(self) -> None:
        wide = Mix(
            name="wide",
            classes=(SizeClass(((8, 1.0),), (Lognormal(1.0, 60.0, 0.1),)),),
            tenants=(TenantMix("a", 1.0, (1.0,)),),
            jobs_per_hour=1.0,
        )
        with pytest.raises(SpecError, match="no job of 'wide' fits 4 GPUs"):
            generate(jobs=5, seed=1, mix=wide, gpus=4)
        assert {job.width.max_gpus for job in generate(jobs=5, seed=1, mix=wide, gpus=8).jobs} == {
            8
        }


@pytest.mark.parametrize(
    ("shares", "longest", "problem"),
    [((1.0, 0.0), 90.0, "shares in 2 classes"), ((1.0,), 30.0, "last 60 s at the median")],
)
def test_a_mix_that_could_not_be_drawn(
    shares: tuple[float, ...], longest: float, problem: str
) -> None:
    with pytest.raises(SpecError, match=problem):
        Mix(
            name="odd",
            classes=(SizeClass(((1, 1.0),), (Lognormal(1.0, 60.0, 0.1),)),),
            tenants=(TenantMix("a", 1.0, shares),),
            jobs_per_hour=1.0,
            longest_seconds=longest,
        )


class TestFit:
    def test_one_hump_is_found(self) -> None:
        rng = np.random.default_rng(1)
        (hump,) = fit_lognormals(np.exp(rng.normal(np.log(300), 0.8, 5000)), humps=1)
        assert hump.median_seconds == pytest.approx(300, rel=0.05)
        assert hump.sigma == pytest.approx(0.8, rel=0.05)

    def test_two_humps_are_told_apart(self) -> None:
        rng = np.random.default_rng(1)
        seconds = np.exp(
            np.concatenate([rng.normal(np.log(30), 0.5, 3000), rng.normal(np.log(9e4), 1, 1000)])
        )
        short, long = sorted(fit_lognormals(seconds, humps=2), key=lambda hump: hump.median_seconds)
        assert short.share == pytest.approx(0.75, abs=0.02)
        assert short.median_seconds == pytest.approx(30, rel=0.1)
        assert long.median_seconds == pytest.approx(9e4, rel=0.1)

    def test_a_mix_generates_what_fits_to_it(self) -> None:
        mix = replace(PHILLY, surge_sigma=0.5)
        found = fit(generate(jobs=20_000, seed=2, mix=mix))
        assert found.jobs_per_hour == pytest.approx(mix.jobs_per_hour, rel=0.05)
        assert [size.least_gpus for size in found.classes] == [1, 2, 8, 12]
        largest = found.tenants[0]
        assert largest.name == "6214e9"
        assert largest.share == pytest.approx(0.50, abs=0.02)
        assert max(largest.sweep_jobs) > 400

    def test_a_history_of_equal_jobs(self) -> None:
        mix = Mix(
            name="equal",
            classes=(SizeClass(((2, 1.0),), (Lognormal(1.0, 60.0, 0.0),)),),
            tenants=(TenantMix("a", 1.0, (1.0,)),),
            jobs_per_hour=10.0,
        )
        found = fit(generate(jobs=40, seed=1, mix=mix))
        assert found.classes[0].widths == ((2, 1.0),)
        assert found.classes[0].durations[0].median_seconds == pytest.approx(60.0)

    def test_small_tenants_count_where_all_are_small(self) -> None:
        mix = Mix(
            name="small",
            classes=(SizeClass(((1, 1.0),), (Lognormal(1.0, 60.0, 1.0),)),),
            tenants=tuple(TenantMix(name, 0.5, (1.0,)) for name in "ab"),
            jobs_per_hour=10.0,
        )
        found = fit(generate(jobs=40, seed=1, mix=mix))
        assert {tenant.name for tenant in found.tenants} == {"a", "b"}
        assert sum(tenant.share for tenant in found.tenants) == pytest.approx(1.0)

    def test_too_few_jobs(self) -> None:
        with pytest.raises(SpecError, match="too few to fit"):
            fit(generate(jobs=10, seed=1))
