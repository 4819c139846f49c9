"""How many processes a job's command is started as: one on each node, or one for each GPU."""

from typing import Annotated, Final

from pydantic import PlainValidator, WithJsonSchema

from weft.agent.workers.program import launcher_in
from weft.spec.strict import wrong

PER_GPU: Final = "gpu"
PER_NODE: Final = 1
FIELD: Final = "nproc_per_node"
ALLOWED: Final = "1 or gpu"
SHELL: Final = ("/bin/sh", "-c")


def _read(written: object) -> int | str:
    if written == PER_GPU or (type(written) is int and written == PER_NODE):
        assert isinstance(written, int | str)
        return written
    raise wrong(
        f"{written!r} does not fit",
        hint="write gpu for a process on each GPU, 1 for one process with all GPUs of a node; a "
        "launcher such as torchrun starts any other number",
    )


ProcessesPerNode = Annotated[
    int | str,
    PlainValidator(_read),
    WithJsonSchema(
        {
            "x-kubernetes-int-or-string": True,
            "minimum": 1,
            "maximum": 1,
            "pattern": f"^{PER_GPU}$",
            "maxLength": len(PER_GPU),
        }
    ),
]


def refuse_odd_processes(declared: int | str | None, run: str, *, gpus: int) -> None:
    """Where a process for each GPU would have no effect, or another one than meant."""
    if declared != PER_GPU:
        return
    if not gpus:
        raise wrong(
            "a job without GPUs runs one process",
            hint=f"remove {FIELD}, or ask for gpus",
            field=FIELD,
        )
    launcher = launcher_in((*SHELL, run))
    if launcher:
        raise wrong(
            f"{launcher} starts the processes of a node itself",
            hint=f"remove {FIELD}: the command runs once on each node",
            field=FIELD,
        )
