"""Job files as a workload: what a person would submit, tried in the simulated world first.

A file is one job, a folder of files as many; all are submitted at the beginning, in the order of
their names. A simulation must know how long a job would run, so `duration` is needed here, which a
real world can do without.
"""

from pathlib import Path
from typing import Final

from weft.model.errors import SpecError
from weft.model.ids import DEFAULT_TENANT, JobId
from weft.model.job import Job
from weft.model.truth import JobTruth
from weft.spec.reading import read_job_file
from weft.spec.request import to_request
from weft.trace.workload import Workload

ENDINGS: Final = (".yaml", ".yml")


def are_job_files(path: Path) -> bool:
    """Whether the path names a job file, or a folder that may hold some."""
    return path.is_dir() or path.name.endswith(ENDINGS)


def read_job_files(path: Path) -> Workload:
    """One job for each file."""
    files = [path] if path.is_file() else sorted(_inside(path))
    if not files:
        raise SpecError(f"no job files in {path}", hint="a job file ends with .yaml")
    return Workload(name=path.name, jobs=tuple(map(_job, files)), source=str(path))


def _inside(folder: Path) -> list[Path]:
    return [file for file in folder.iterdir() if file.name.endswith(ENDINGS)]


def _job(file: Path) -> Job:
    found = read_job_file(file)
    name = JobId(found.name or file.name.partition(".")[0])
    request = to_request(found, id=name, tenant=DEFAULT_TENANT, submit_seconds=0.0)
    if request.work is None:
        raise SpecError(
            f"{file}: a simulation must know how long the job would run",
            hint="add duration: 2h, the time at the larger end of its GPUs",
        )
    return Job(request, JobTruth.as_claimed(request, request.work.amount))
