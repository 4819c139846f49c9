"""`weft operator`: the process that decides for a cluster. People meet it in the chart."""

import ipaddress
import socket
from contextlib import closing
from typing import Any

import click

from weft.cli.numbers import Finite
from weft.cli.worlds.cluster import kube_extra

PORT = click.IntRange(0, 65_535)
REPORTS = "Where workers' reports are heard; 0: nowhere."
METRICS = "Where metrics and probes are answered; 0: nowhere."


def _address(_context: click.Context, _option: click.Parameter, value: str) -> str:
    try:
        return value and str(ipaddress.ip_address(value))
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def _labels(
    _context: click.Context, _option: click.Parameter, value: tuple[str, ...]
) -> tuple[str, ...]:
    for text in value:
        if not text.partition("=")[0] or "=" not in text:
            raise click.BadParameter(f"'{text}' is not KEY=VALUE")
    return value


@click.command()
@click.option("--kubeconfig", help="Path of the kubeconfig.  [default: the pod's own account]")
@click.option(
    "--namespace",
    envvar="POD_NAMESPACE",
    default="weft-system",
    show_default=True,
    help="Namespace of the lease.",
)
@click.option("--identity", help="Name of this replica in the lease.  [default: the host's name]")
@click.option("--lease", default="weft-operator", show_default=True, help="Name of the lease.")
@click.option(
    "--recipe", default="weave", show_default=True, help="See weft recipes; NAME(KNOB=VALUE)."
)
@click.option("--default-image", default="", help="Image of jobs that name none.")
@click.option(
    "--scheduler-name",
    default="default-scheduler",
    show_default=True,
    help="Who binds the pinned worker pods.",
)
@click.option(
    "--run-as-user", type=click.IntRange(1), help="User id of workers.  [default: image's]"
)
@click.option("--report-url", default="", help="Where workers are told to report.")
@click.option(
    "--report-ca",
    default="",
    metavar="PATH",
    help="Certificates that workers check it against, as a file of their image.",
)
@click.option(
    "--reports-service",
    default="",
    help="Service without selector that the leader points to itself.",
)
@click.option(
    "--pod-ip",
    envvar="POD_IP",
    default="",
    callback=_address,
    help="Where that Service leads while this replica leads.",
)
@click.option("--reports-port", type=PORT, default=8080, show_default=True, help=REPORTS)
@click.option("--metrics-port", type=PORT, default=9090, show_default=True, help=METRICS)
@click.option("--tls-cert", default="", help="Certificate for reports, as a file.")
@click.option("--tls-key", default="", help="Its key, as a file.")
@click.option("--tls-ca", default="", help="Its authority, as a file: workers are given it.")
@click.option(
    "--journal", default="", metavar="PATH", help="Record events and instructions for weft replay."
)
@click.option(
    "--workers",
    type=click.Choice(["pods", "none"]),
    default="pods",
    show_default=True,
    help="Create worker pods, or leave execution to somebody else.",
)
@click.option(
    "--backoff-seconds",
    type=Finite(0),
    default=60.0,
    show_default=True,
    help="First pause before a failed job is tried again.",
)
@click.option(
    "--fence-seconds",
    type=Finite(0),
    default=60.0,
    show_default=True,
    help="How long a node is out of reach before its pods are given up, where they can do no harm.",
)
@click.option(
    "--keep-days",
    type=Finite(0),
    default=30.0,
    show_default=True,
    help="How long jobs that are over and name no ttl are kept; 0 for ever.",
)
@click.option(
    "--node-selector",
    multiple=True,
    callback=_labels,
    metavar="KEY=VALUE",
    help="Label of the nodes that may be used, each must fit.  [default: all nodes]",
)
@click.option(
    "--gpu-resource",
    multiple=True,
    metavar="NAME",
    help="What GPUs are called, first found first.  [default: nvidia.com/gpu, amd.com/gpu]",
)
@click.option(
    "--gpu-class",
    default="",
    metavar="NAME",
    help="Claim GPUs by this DeviceClass, of the driver of that name; jobs can share them then.",
)
@click.option(
    "--rack-label",
    multiple=True,
    metavar="KEY",
    help="Label of a node's rack, first found first.  [default: topology.kubernetes.io/rack]",
)
@click.option("--isolated", is_flag=True, help="Let only its own workers reach a job of several.")
@click.option(
    "--reached-from",
    multiple=True,
    callback=_labels,
    metavar="KEY=VALUE",
    help="Label of namespaces from which isolated workers are reached too.",
)
@click.option("--toleration", multiple=True, metavar="KEY", help="Taint that all workers bear.")
@click.option("--job-toleration", multiple=True, metavar="KEY", help="Taint that a job may bear.")
@click.option("--priority-class", multiple=True, metavar="NAME", help="One that a job may name.")
@click.option(
    "--lending/--no-lending",
    help="Whether a policy checks who may use the secrets that a job names.",
)
@click.option(
    "--scale-up-pods",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Most pods that stand for missing nodes; 0: none.",
)
@click.option("--scale-up-class", default="", metavar="NAME", help="Their PriorityClass.")
@click.option("--notify", default="", metavar="PATH", help="File that says who is told of what.")
@click.option("--taint-nodes", is_flag=True, help="Taint nodes that are set aside, for others.")
@click.option(
    "--trial-minutes",
    type=Finite(0),
    default=0.0,
    show_default=True,
    help="How long a gang that waits is tried on one GPU; 0: not at all.",
)
@click.option(
    "--gang-probe-gpus",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="From how many GPUs on the nodes of a gang are asked first how they are; 0: never.",
)
@click.option(
    "--failure-rules",
    default="",
    metavar="PATH",
    help="File with rules for failures that go before Weft's own.",
)
@click.option(
    "--log-level",
    type=click.Choice(["DEBUG", "INFO", "WARNING", "ERROR"], case_sensitive=False),
    default="INFO",
    show_default=True,
    help="What to log, as JSON lines on standard error.",
)
def operator(*, identity: str | None, journal: str, **given: Any) -> None:
    """Run one replica of the operator until SIGTERM: it stands for election, and leads if elected.

    The chart in charts/weft starts it with the rights that it needs.
    """
    if bool(given["tls_cert"]) != bool(given["tls_key"]):
        raise click.UsageError("--tls-cert and --tls-key belong together")
    with kube_extra():
        from weft.kube.operator.main import run
    from weft.cli.operator.term_journals import TermJournals
    from weft.kube.operator.options import OperatorOptions

    options = OperatorOptions(identity=identity or socket.gethostname(), journal=journal, **given)
    with closing(TermJournals(journal)) as journals:
        run(options, journals)
