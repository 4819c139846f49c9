"""`weft doctor`: is everything in place?"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from weft.cli.cluster import Cluster, Place, place_options
from weft.cli.exit_status import Exit
from weft.cli.options import output_option
from weft.cli.screen import cell, coloured, new_table, print_json, stdout

if TYPE_CHECKING:
    from rich.table import Table

    from weft.kube.reading.health import Finding

SCHEMA = "weft-doctor/1"


@click.command()
@click.option(
    "--operator-namespace", help="Where the operator runs.  [default: looked for everywhere]"
)
@place_options
@output_option()
def doctor(*, operator_namespace: str | None, place: Place, output: str) -> None:
    """Check what has to be in place before a job can run, and tell what to do where it is not.

    The server, the clock, Weft's resources, your rights, GPUs on nodes, an operator that leads,
    and queues. The exit status is 1 if something fails; a warning does not count.
    """

    async def work(cluster: Cluster) -> "tuple[Finding, ...]":
        from weft.kube.reading.clock import skew_seconds
        from weft.kube.reading.health import Patient, diagnose

        patient = Patient(
            api=cluster.api,
            namespace=cluster.namespace,
            operator_namespace=operator_namespace,
            skew_seconds=await skew_seconds(place.kubeconfig, place.context),
        )
        return await diagnose(patient)

    findings = place.run(work)
    if output == "json":
        print_json(as_dict(findings))
    else:
        stdout().print(table_of(findings))
    if _failed(findings):
        raise click.exceptions.Exit(Exit.FAILED)


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
