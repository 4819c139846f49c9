"""The folder of a run: everything needed to look at it, and to run it again.

manifest.json      what was run with what, and the hashes of inputs and journal; written last,
                   so a folder that has one is complete
summary.json       the numbers
jobs.csv           a line per job
waits.csv          seconds waited by cause, a line per job
occupancy.csv      GPUs in use, jobs and GPUs waiting, over time
journal.jsonl.gz   every event and the instructions it led to
report.html        all of it as pictures
"""

import csv
import hashlib
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

import orjson

import weft
from weft.lab.experiment import Experiment, Outcome, Progress, run
from weft.lab.journals.journal_file import Header, writing
from weft.lab.summary import slowdown
from weft.lab.workloads.source import FromFile
from weft.model.errors import SpecError
from weft.model.reason import CAUSES
from weft.sim.record import JobRecord, Record
from weft.spec.recipe import findable, recipe_file
from weft.trace.clusters import read_cluster

SCHEMA = "weft-run/1"
MANIFEST = "manifest.json"
JOURNAL = "journal.jsonl.gz"
REPORT = "report.html"
CHUNK_BYTES = 1 << 20

JOB_COLUMNS = (
    *("job", "tenant", "gpus", "outcome", "submitted", "first_start", "ended"),
    *("service_seconds", "jct_seconds", "start_delay_seconds", "slowdown", "first_nodes"),
    *("starts", "preemptions", "failures", "attained_gpu_seconds"),
    *("lost_gpu_seconds", "cause", "evidence"),
)


def run_into(
    folder: Path,
    experiment: Experiment,
    *,
    command: Sequence[str],
    progress: Progress | None = None,
) -> Outcome:
    """Run the experiment and leave all of it in the folder."""
    from weft.lab.report.report import run_page

    header = Header(
        weft=weft.__version__,
        recipe=findable(experiment.recipe),
        seed=experiment.seed,
        queues=read_cluster(experiment.cluster).queues.queues,
    )
    with writing(folder / JOURNAL, header) as journal:
        outcome = run(experiment, journal=journal, keep_sittings=True, progress=progress)
    write_json(folder / "summary.json", outcome.summary.as_dict())
    _write_tables(folder, outcome.record)
    (folder / REPORT).write_text(run_page(outcome), encoding="utf-8")
    write_manifest(
        folder,
        experiment,
        recipes=[experiment.recipe],
        command=command,
        more={"journal_hash": outcome.record.journal_hash, "seed": experiment.seed},
    )
    return outcome


def prepared(folder: Path, *, force: bool = False) -> Path:
    """The folder, made if need be; one that holds something is not written over unasked."""
    if folder.exists() and not folder.is_dir():
        raise SpecError(f"{folder} is a file", hint="name a folder")
    if folder.exists() and any(folder.iterdir()) and not force:
        raise SpecError(f"{folder} is not empty", hint="name a new folder, or add --force")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MANIFEST).unlink(missing_ok=True)
    return folder


def write_manifest(
    folder: Path,
    experiment: Experiment,
    *,
    recipes: Sequence[str],
    command: Sequence[str],
    more: dict[str, object],
) -> None:
    """What was run, so that somebody else can run it too."""
    manifest = {
        "schema": SCHEMA,
        "weft": weft.__version__,
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "platform": platform.platform(),
        "command": list(command),
        "recipes": list(recipes),
        "cluster": experiment.cluster,
        "workload": asdict(experiment.source),
        "costs": experiment.costs,
        "cost_scale": experiment.cost_scale,
        "failures": experiment.failures,
        "inputs_sha256": {str(path): _sha256(path) for path in _inputs(experiment, recipes)},
    }
    write_json(folder / MANIFEST, manifest | more)


def read_manifest(folder: Path) -> dict[str, object]:
    """The manifest of a run folder; a folder without one is no complete run."""
    path = folder / MANIFEST
    if not path.is_file():
        raise SpecError(
            f"{folder} holds no complete run: it has no {MANIFEST}",
            hint="make one with weft simulate --out DIR",
        )
    manifest: dict[str, object] = orjson.loads(path.read_bytes())
    return manifest


def journal_in(folder: Path) -> Path:
    """The journal of a run folder."""
    path = folder / JOURNAL
    if not path.is_file():
        raise SpecError(
            f"{folder} holds no {JOURNAL}", hint="name a folder made by weft simulate --out DIR"
        )
    return path


def write_json(path: Path, what: object) -> None:
    path.write_bytes(orjson.dumps(what, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def _write_tables(folder: Path, record: Record) -> None:
    lines = list(record.jobs.values())
    write_csv(folder / "jobs.csv", JOB_COLUMNS, map(job_row, lines))
    causes = [f"{cause.label}_seconds" for cause in CAUSES]
    nothing = (0.0,) * len(CAUSES)
    write_csv(
        folder / "waits.csv",
        ("job", "tenant", "gpus", *causes),
        ((line.id, line.tenant, line.gpus, *(line.waits_seconds or nothing)) for line in lines),
    )
    write_csv(
        folder / "occupancy.csv",
        ("seconds", "used_gpus", "waiting_jobs", "waiting_gpus"),
        zip(record.times, record.used_gpus, record.waiting_jobs, record.waiting_gpus, strict=True),
    )


def job_row(line: JobRecord) -> tuple[object, ...]:
    return (
        *(line.id, line.tenant, line.gpus, line.outcome),
        *(line.submitted, line.first_start, line.ended),
        *(line.service_seconds, line.jct_seconds, line.start_delay_seconds),
        slowdown(line) if line.ended is not None else None,
        *(line.first_nodes, line.starts, line.preemptions, line.failures),
        *(line.attained_gpu_seconds, line.lost_gpu_seconds, line.cause, line.evidence),
    )


def _inputs(experiment: Experiment, recipes: Sequence[str]) -> list[Path]:
    """Every file that the outcome depends on."""
    named = [Path(experiment.cluster), *map(recipe_file, recipes)]
    if isinstance(experiment.source, FromFile):
        named.append(Path(experiment.source.path))
    return [path for path in named if path is not None and path.is_file()]


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
