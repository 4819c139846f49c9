"""A job that is described on the command line alone, as `weft run` takes it."""

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from weft.cli.completion.candidates import queues
from weft.cli.jobs.sweep import Point, filled
from weft.cli.options import bundled
from weft.model.errors import SpecError

if TYPE_CHECKING:
    from weft.spec.job_file import JobFile


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line says of the job; `fields` are those of a job file."""

    command: tuple[str, ...]
    gpus: str
    nproc_per_node: str | None
    gpu_type: tuple[str, ...]
    queue: str | None
    priority: int | None
    image: str | None
    workdir: str | None
    retries: int
    env: tuple[str, ...]
    fields: tuple[str, ...]

    def job(self, point: Point) -> "JobFile":
        """The job file that would ask for the same, at one point of a sweep."""
        from weft.cli.jobs.job_source import set_field
        from weft.spec.job_file import JobFile
        from weft.spec.reading import validated

        written: dict[str, Any] = {
            "run": line_of([filled(word, point) for word in self.command]),
            "retry": {"limit": self.retries},
            "resources": {"gpus": self.gpus, **_given(gpu_type=list(self.gpu_type))},
            **_given(
                nproc_per_node=self._processes,
                queue=self.queue,
                priority=self.priority,
                image=self.image,
                workdir=self.workdir,
                env={name: filled(value, point) for name, value in self.variables.items()},
            ),
        }
        for field in self.fields:
            set_field(written, filled(field, point))
        return validated(JobFile, written)

    @property
    def _processes(self) -> int | str | None:
        """As the job file has it: a number, or a word."""
        given = self.nproc_per_node
        return int(given) if given and given.isdecimal() else given

    @property
    def variables(self) -> dict[str, str]:
        """`NAME=VALUE`, or `NAME` as it is set here."""
        pairs = {}
        for given in self.env:
            name, equals, value = given.partition("=")
            if not equals and name not in os.environ:
                raise SpecError(f"--env {name}: it is not set here", hint=f"write {name}=VALUE")
            pairs[name] = value if equals else os.environ[name]
        return pairs

    @property
    def texts(self) -> tuple[str, ...]:
        """Where values of a sweep may stand."""
        return (*self.command, *self.env, *self.fields)


asked_options = bundled(
    "asked",
    Asked,
    click.argument("command", nargs=-1, required=True, metavar="COMMAND..."),
    click.option("--gpus", default="1", show_default=True, help="A number, or a range: 1..8."),
    click.option(
        "--nproc-per-node",
        metavar="1|gpu",
        help="1 process with all GPUs, or one for each.  [default: 1; gpu for a range]",
    ),
    click.option("--gpu-type", multiple=True, metavar="TYPE", help="Accept this; may be repeated."),
    click.option("--queue", shell_complete=queues, help="Queue to wait in.  [default: default]"),
    click.option("--priority", type=int, help="Higher goes first within a queue.  [default: 0]"),
    click.option("--image", help="Container image, on a cluster.  [default: the operator's]"),
    click.option("--workdir", help="Absolute path to start in.  [default: here; the image's]"),
    click.option(
        "--retries",
        type=click.IntRange(0),
        default=0,
        show_default=True,
        help="How often it is tried again after a failure.",
    ),
    click.option(
        "--env", multiple=True, metavar="NAME[=VALUE]", help="Variable, as here without a VALUE."
    ),
    click.option(
        "--set",
        "fields",
        multiple=True,
        metavar="FIELD=VALUE",
        help="Any other field of a job file, such as checkpoint.every=10m; may be repeated.",
    ),
)


def line_of(words: Sequence[str]) -> str:
    """As a shell reads it back; a single word is a line of its own."""
    return words[0] if len(words) == 1 else shlex.join(words)


def _given(**fields: object) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value not in (None, [], {})}
