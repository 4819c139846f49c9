"""The folder of a comparison: manifest, the table with its trials, and the page."""

from collections.abc import Sequence
from pathlib import Path

from weft.lab.comparison import METRICS, Comparison
from weft.lab.run_dir import REPORT, write_csv, write_json, write_manifest


def leave_in(folder: Path, comparison: Comparison, *, command: Sequence[str]) -> None:
    """Write everything; the manifest comes last."""
    from weft.lab.report.report import comparison_page

    write_json(folder / "compare.json", comparison.as_dict())
    fields = [metric.field for metric in METRICS]
    write_csv(
        folder / "trials.csv",
        ("recipe", "seed", "jobs", "failed", "unfinished", *fields),
        (
            (
                *(trial.recipe, trial.seed, trial.summary.jobs),
                *(trial.summary.failed, trial.summary.unfinished),
                *(getattr(trial.summary, field) for field in fields),
            )
            for trial in comparison.trials
        ),
    )
    (folder / REPORT).write_text(comparison_page(comparison), encoding="utf-8")
    hashes = {f"{t.recipe} seed {t.seed}": t.summary.journal_hash for t in comparison.trials}
    write_manifest(
        folder,
        comparison.experiment,
        recipes=[row.recipe for row in comparison.rows],
        command=command,
        more={
            "seeds": list(comparison.seeds),
            "journal_hashes": hashes,
        },
    )
