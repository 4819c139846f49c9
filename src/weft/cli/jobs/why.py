"""`weft why`: a waiting job, explained; of a world, or of a recorded run."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from weft.cli.completion.candidates import jobs_in
from weft.cli.jobs.job_words import several
from weft.cli.jobs.plan_words import plan_lines
from weft.cli.numbers import Finite
from weft.cli.options import output_option
from weft.cli.terminal.screen import new_table, print_json, stdout
from weft.cli.worlds.place import Place, place_options
from weft.lab.time_words import span
from weft.view.company import company_line, no_company_line

if TYPE_CHECKING:
    from rich.table import Table

    from weft.brain.beside import Beside
    from weft.lab.journals.why import Answer, Failed

SHOWN_EPISODES = 20


@click.command()
@click.argument("job", shell_complete=jobs_in())
@click.option(
    "--run",
    "folder",
    type=click.Path(path_type=Path),
    help="Ask a recorded run instead: its folder, as simulate --out leaves it.",
)
@click.option("--at", type=Finite(0), help="Second of the run to ask at.  [default: its last wait]")
@place_options
@output_option()
def why(*, job: str, folder: Path | None, at: float | None, place: Place, output: str) -> None:
    """Tell why JOB waits: all reasons that apply, with numbers and remedies.

    It is a job of the present world; with --run one of a recorded run, and its history is told as
    well.
    """
    if folder is not None:
        _why_in_run(folder, job, at, output)
        return
    if at is not None:
        raise click.UsageError("--at is for a recorded run: give --run too")
    from weft.cli.jobs.why_world import why_in_world

    why_in_world(place, job, output)


def show(answer: "Answer") -> None:
    console = stdout()
    console.print(_first_line(answer), markup=False, style="bold")
    for place, reason in enumerate(answer.reasons, start=1):
        console.print(f"{place} {reason.text}  [{reason.code}]", markup=False)
        console.print(f"  remedy: {reason.remedy}", markup=False)
    if answer.failed is not None:
        for line in failed_lines(answer.failed):
            console.print(line, markup=False)
    elif not answer.reasons:
        console.print("It does not wait at this moment.")
    if answer.company is not None:
        console.print(f"It {company_line(answer.company)}.", markup=False)
    if answer.no_company is not None:
        console.print(no_company_line(answer.no_company), markup=False)
    for line in _more_lines(answer):
        console.print(line, markup=False)
    waits = {cause: s for cause, s in answer.waits_seconds.items() if s > 0}
    if waits:
        parts = sorted(waits.items(), key=lambda pair: -pair[1])
        console.print("waited for: " + ", ".join(f"{cause} {span(s)}" for cause, s in parts))
    console.print(_history(answer))


def _why_in_run(folder: Path, job: str, at: float | None, output: str) -> None:
    from weft.lab.journals.why import why as ask
    from weft.lab.run_dir import journal_in

    answer = ask(journal_in(folder), job, at=at)
    if output == "json":
        print_json(asdict(answer))
    else:
        show(answer)


def _more_lines(answer: "Answer") -> Iterator[str]:
    """Who slows it, what it runs as and what else it could."""
    yield from neighbour_lines(answer.neighbours)
    if answer.plan is not None:
        yield from plan_lines(answer.plan)


def neighbour_lines(neighbours: "Iterable[Beside]") -> Iterator[str]:
    """Who slows it, and by how much."""
    for one in neighbours:
        where = f"{one.job} on {', '.join(one.nodes)}"
        yield f"Beside {where} it is about {100 * one.slower:.0f} % slower."


def failed_lines(failed: "Failed") -> Iterator[str]:
    """The class, the line that shows it, what was done, what to do."""
    yield f"It failed: {failed.says}  [{failed.kind}]"
    if failed.evidence:
        rank = "" if failed.rank is None else f"rank {failed.rank}"
        where = " on ".join(one for one in (rank, failed.node) if one)
        yield f"  {failed.evidence}" + (f"  ({where})" if where else "")
    yield f"  done: {several(failed.failures, 'run')} failed; {failed.did}"
    yield f"  to do: {failed.advice}"


def _first_line(answer: "Answer") -> str:
    ended = f", up to {answer.wait_ended:,.0f} s" if answer.wait_ended is not None else ""
    parts = [f"{answer.state} at {answer.at:,.0f} s{ended}"]
    parts.append(f"waited {span(answer.waited_seconds)}")
    if answer.gpus:
        parts.append(several(answer.gpus, "GPU"))
    if answer.queue:
        parts.append(f"queue {answer.queue}")
    if answer.position is not None:
        parts.append(f"position {answer.position} of {answer.waiting_jobs}")
    if answer.nodes:
        parts.append(f"on {', '.join(answer.nodes)}")
    return f"{answer.job}: " + " · ".join(parts)


def _history(answer: "Answer") -> "Table":
    episodes = answer.history[-SHOWN_EPISODES:]
    left = len(answer.history) - len(episodes)
    table = new_table("History", caption=f"{left} earlier lines left out" if left else "")
    for title in ("from (s)", "for", "state", "reason"):
        table.add_column(title, justify="right" if title == "from (s)" else "left")
    ends = [*(episode.begin for episode in episodes[1:]), answer.at]
    for episode, end in zip(episodes, ends, strict=True):
        lasted = span(end - episode.begin) if end > episode.begin else ""
        table.add_row(f"{episode.begin:,.0f}", lasted, episode.state, episode.reason)
    return table
