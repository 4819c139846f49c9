"""`weft doctor`: is everything in place?"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from weft.cli.exit_status import Exit
from weft.cli.options import output_option
from weft.cli.terminal.screen import cell, coloured, new_table, print_json, stdout
from weft.cli.worlds.place import Place, place_options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.table import Table

    from weft.view.health import Finding

SCHEMA = "weft-doctor/1"


@click.command()
@click.option(
    "--operator-namespace", help="Where the operator runs.  [default: looked for everywhere]"
)
@click.option("--probes", is_flag=True, help="Try this machine's disk, memory, CPUs and network.")
@place_options
@output_option()
def doctor(*, operator_namespace: str | None, probes: bool, place: Place, output: str) -> None:
    """Check what has to be in place before a job can run, and tell what to do where it is not.

    In a cluster: the server, the clock, Weft's resources, your rights, GPUs on nodes, an operator
    that leads, and queues. On one machine: what its daemon finds. The exit status is 1 if something
    fails; a warning does not count.
    """
    findings = place.run(lambda world: world.health(operator_namespace))
    if probes:
        findings = (*findings, *_probed())
    if output == "json":
        print_json(as_dict(findings))
    else:
        stdout().print(table_of(findings))
    if _failed(findings):
        raise click.exceptions.Exit(Exit.FAILED)


def _probed() -> "Iterator[Finding]":
    """What probes of this machine find, within a minute."""
    from weft.agent.probes.suite import QUICK, run_apart
    from weft.view.health import Finding, Verdict

    for found in run_apart((*QUICK, "dcgm")):
        verdict = Verdict.OK if found.passed else Verdict.FAIL
        remedy = "" if found.passed else "look at that part of the machine, and at its kernel's log"
        yield Finding(f"probe: {found.probe}", verdict, found.words, remedy)


def table_of(findings: "Sequence[Finding]") -> "Table":
    table = new_table("", caption=_verdict(findings))
    table.add_column("")
    table.add_column("check")
    table.add_column("finding", overflow="fold")
    for finding in findings:
        remedy = f"\n[dim]remedy:[/dim] {cell(finding.remedy)}" if finding.remedy else ""
        table.add_row(coloured(finding.verdict), finding.check, cell(finding.text) + remedy)
    return table


def as_dict(findings: "Sequence[Finding]") -> dict[str, Any]:
    return {"schema": SCHEMA, "ok": not _failed(findings), "findings": findings}


def _failed(findings: "Sequence[Finding]") -> bool:
    return any(finding.verdict == "fail" for finding in findings)


def _verdict(findings: "Sequence[Finding]") -> str:
    counts = {word: sum(f.verdict == word for f in findings) for word in ("ok", "warn", "fail")}
    return f"{counts['ok']} well, {counts['warn']} to look at, {counts['fail']} to mend"
