"""Profiles to choose groups among: the published table, and variations of it."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from weft.model.stages import StageProfile
from weft.policy.share.candidates import Candidates

MS = 1000.0


@dataclass(frozen=True, slots=True)
class Measured:
    """A row of the table."""

    gpus: int
    profile: StageProfile


def measured(traces: Path) -> list[Measured]:
    """Eight models at six widths."""
    with (traces / "muri" / "stage_profiles.csv").open() as lines:
        return [_read(row) for row in csv.DictReader(lines)]


def _read(row: dict[str, str]) -> Measured:
    return Measured(
        int(row["num_gpu"]),
        StageProfile(
            iteration_seconds=float(row["iteration_ms"]) / MS,
            loading_seconds=float(row["data_ms"]) / MS,
            gpu_seconds=float(row["gpu_ms"]) / MS,
            network_seconds=float(row["net_ms"]) / MS,
        ),
    )


def drawn(rows: Sequence[Measured], jobs: int, chance: np.random.Generator) -> Candidates:
    """Jobs of these types, each as likely."""
    of = chance.integers(0, len(rows), jobs)
    gpus = [rows[row].gpus for row in of.tolist()]
    return Candidates.of(gpus, of.tolist(), [row.profile for row in rows])


def no_two_alike(rows: Sequence[Measured], jobs: int, chance: np.random.Generator) -> Candidates:
    """Jobs whose stages differ by a tenth from the table, each in its own way."""
    of = [rows[row] for row in chance.integers(0, len(rows), jobs).tolist()]
    off = chance.uniform(0.9, 1.1, (jobs, 4)).tolist()
    profiles = [_off(row.profile, *by) for row, by in zip(of, off, strict=True)]
    return Candidates.of([row.gpus for row in of], range(jobs), profiles)


def _off(
    profile: StageProfile, whole: float, data: float, gpu: float, network: float
) -> StageProfile:
    return StageProfile(
        iteration_seconds=profile.iteration_seconds * whole,
        loading_seconds=profile.loading_seconds * data,
        gpu_seconds=profile.gpu_seconds * gpu,
        network_seconds=profile.network_seconds * network,
    )
