"""How many processes a job's command is started as, said when the job is submitted."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from weft.cli.terminal.screen import say
from weft.cli.worlds.world import World

if TYPE_CHECKING:
    from weft.spec.job_file import JobSpec

FIELD = "nproc_per_node: "
OPTION = "--nproc-per-node "


def processes_of(world: World, spec: Mapping[str, Any], *, written: str = FIELD) -> str:
    """`1 process with 2 GPUs; nproc_per_node: gpu starts one for each GPU`.

    Empty where there is nothing to choose: one GPU at most, or a launcher such as torchrun.
    """
    from weft.agent.workers.program import starts_its_own
    from weft.spec.job_file import JobSpec
    from weft.spec.process_rules import PER_GPU, PER_NODE, SHELL

    job = JobSpec.model_validate(spec)
    if job.resources.width.most <= 1 or starts_its_own((*SHELL, job.run)):
        return ""
    if job.starts_per_gpu:
        return f"1 process for each GPU; {written}{PER_NODE} starts one with all of them"
    return f"1 process {_with_gpus(world, job)}; {written}{PER_GPU} starts one for each GPU"


def say_processes(
    world: World, specs: Iterable[Mapping[str, Any]], *, written: str = FIELD
) -> None:
    """Once for each of the answers."""
    told = dict.fromkeys(processes_of(world, spec, written=written) for spec in specs)
    for words in filter(None, told):
        say(f"note: {words}")


def _with_gpus(world: World, job: "JobSpec") -> str:
    width = job.resources.width
    if world.whose != "user" and job.nodes != 1:
        return "on each node, with the job's GPUs there"
    several = str(width.most) if width.least == width.most else f"{width.least} to {width.most}"
    return f"with {several} GPUs"
