"""Where a workload comes from: a file, rows, or the generator, which makes another for each seed.

A source is a small value that travels to worker processes; each of them loads the jobs itself.
"""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from weft.lab.workloads.job_files import are_job_files, read_job_files
from weft.trace.faults import OnFault
from weft.trace.generator import generate
from weft.trace.readers import read, read_rows
from weft.trace.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class FromFile:
    """Jobs of a trace, or of job files: the same for every seed.

    `columns` are pairs of our name and the file's, `durations` of a model and its seconds.
    """

    path: str
    format: str | None = None
    on_fault: OnFault = "raise"
    columns: tuple[tuple[str, str], ...] = ()
    durations: tuple[tuple[str, float], ...] = ()

    def load(self, *, seed: int, gpus: int) -> Workload:
        return _read(self)

    @property
    def label(self) -> str:
        return Path(self.path).name


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """So many jobs like Philly's, as dense as `load` says, or spread over `days`."""

    jobs: int = 1000
    load_factor: float | None = 0.9
    days: float | None = None

    def load(self, *, seed: int, gpus: int) -> Workload:
        load = None if self.days is not None else self.load_factor
        return generate(jobs=self.jobs, seed=seed, days=self.days, load=load, gpus=gpus)

    @property
    def label(self) -> str:
        dense = (
            f"over {self.days:g} days" if self.days is not None else f"load {self.load_factor:g}"
        )
        return f"{self.jobs:,} generated jobs, {dense}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FromRows:
    """Jobs of a table in memory, as the cells of a file would tell them."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    columns: tuple[tuple[str, str], ...] = ()
    durations: tuple[tuple[str, float], ...] = ()

    def load(self, *, seed: int, gpus: int) -> Workload:
        return read_rows(
            self.header,
            self.rows,
            columns=dict(self.columns) or None,
            durations=dict(self.durations) or None,
        )

    @property
    def label(self) -> str:
        return f"{len(self.rows):,} {'row' if len(self.rows) == 1 else 'rows'}"


Source = FromFile | Generated | FromRows


@lru_cache(maxsize=4)
def _read(source: FromFile) -> Workload:
    path = Path(source.path)
    if source.format is None and are_job_files(path):
        return read_job_files(path)
    return read(
        source.path,
        format=source.format,
        on_fault=source.on_fault,
        columns=dict(source.columns) or None,
        durations=dict(source.durations) or None,
    )
