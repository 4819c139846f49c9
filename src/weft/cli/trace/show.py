"""`weft trace show`: a workload at a glance, with everything that is wrong with it."""

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from weft.cli.jobs.job_words import several
from weft.cli.options import FORMAT, Naming, naming_options, output_option
from weft.cli.terminal.screen import new_table, print_json, say, stdout
from weft.lab.time_words import span

if TYPE_CHECKING:
    from weft.lab.workloads.facts import Facts, RecordedFacts

LISTED_FAULTS = 100
LISTED_NAMES = 5
UNUSABLE = 1


@click.command()
@click.argument("workload")
@FORMAT
@naming_options
@output_option()
def show(
    workload: str,
    *,
    format: str | None,
    naming: Naming,
    output: str,
) -> int:
    """Tell what WORKLOAD holds: sizes, durations, tenants, and rows that cannot be used.

    All faults are told at once, in JSON too. Exit status: 1 if a row cannot be used.
    """
    from weft.lab.workloads.facts import facts_of
    from weft.trace.faults import grouped
    from weft.trace.readers import read

    read_in = read(
        workload,
        format=format,
        on_fault="skip",
        **naming.words,
    )
    facts = facts_of(read_in)
    if output == "json":
        print_json({**facts.as_dict(), "remarks": [asdict(fault) for fault in read_in.faults]})
    else:
        _print(facts)
    groups = grouped(read_in.faults)
    for group in groups[:LISTED_FAULTS]:
        say(f"{group.first.severity}: {group.text}; {group.first.remedy}")
    if len(groups) > LISTED_FAULTS:
        more = sum(len(group.faults) for group in groups[LISTED_FAULTS:])
        say(f"and {more:,} more remarks; -o json has all")
    return UNUSABLE if facts.faults.get("error") else 0


def _print(facts: "Facts") -> None:
    console = stdout()
    table = new_table(
        f"{facts.name}: {several(facts.jobs, 'job')} of {several(facts.tenants, 'tenant')} in "
        f"{span(facts.span_seconds)} · {facts.gpu_hours:,.0f} GPU-hours",
        caption=" ".join([*facts.notes, *_recorded(facts.recorded)]),
    )
    table.add_column("GPUs")
    for title in ("jobs", "share", "GPU time", "median", "p90", "longest"):
        table.add_column(title, justify="right")
    for size in facts.sizes:
        table.add_row(
            size.gpus,
            f"{size.jobs:,}",
            f"{size.jobs_share:.1%}",
            f"{size.gpu_time_share:.1%}",
            *map(span, (size.median_seconds, size.p90_seconds, size.longest_seconds)),
        )
    console.print(table)


def _recorded(facts: "RecordedFacts") -> list[str]:
    """What the history holds of the real cluster, as one sentence, or none."""
    parts = [several(facts.users, "user")] if facts.users else []
    for word, names in (("partition", facts.partitions), ("GPU type", facts.gpu_types)):
        if names:
            listed = ", ".join(names[:LISTED_NAMES]) + ("…" if len(names) > LISTED_NAMES else "")
            parts.append(f"{several(len(names), word)} ({listed})")
    if facts.median_wait_seconds is not None and facts.p90_wait_seconds is not None:
        waits = several(facts.waits, "wait")
        median, p90 = span(facts.median_wait_seconds), span(facts.p90_wait_seconds)
        parts.append(f"{waits} of median {median} and p90 {p90}")
    return [f"Recorded: {', '.join(parts)}."] if parts else []
