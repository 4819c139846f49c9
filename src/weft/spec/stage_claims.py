"""Where the time of one step goes, as the owner of a job claims it.

It is what a choice of company stands on: jobs that need different things at different moments can
take turns on the same GPUs. Nobody has to claim it, since the runtime measures it; who does has
company from the first start.
"""

from typing import Annotated, Final

from pydantic import Field, model_validator

from weft.model.stages import MOST_SECONDS, StageProfile
from weft.spec.quantity import MEMORY_PATTERN, MEMORY_WORDS, memory_gib
from weft.spec.strict import Strict, told, wrong

DAY: Final = int(MOST_SECONDS)
SECONDS_WORDS: Final = f"a number of seconds, 0 to {DAY}"
STAGES: Final = ("storage_seconds", "cpu_seconds", "gpu_seconds", "network_seconds")

Seconds = Annotated[float, Field(ge=0, le=DAY, allow_inf_nan=False)]
StepSeconds = Annotated[float, Field(gt=0, le=DAY, allow_inf_nan=False)]
Memory = Annotated[str, Field(pattern=MEMORY_PATTERN, max_length=16)]


class StageClaims(Strict):
    """What one step does alone, on the GPUs that are asked for; only for company."""

    storage_seconds: Seconds = told(
        0.0, "Reading samples in one step.", allowed=SECONDS_WORDS, example=0.12
    )
    cpu_seconds: Seconds = told(
        0.0, "Preparing samples in one step.", allowed=SECONDS_WORDS, example=0.05
    )
    gpu_seconds: Seconds = told(
        0.0, "Computing on the GPU in one step.", allowed=SECONDS_WORDS, example=0.2
    )
    network_seconds: Seconds = told(
        0.0, "Exchanging gradients in one step.", allowed=SECONDS_WORDS, example=0.04
    )
    step_seconds: StepSeconds | None = told(
        None,
        "The whole step, which is shorter than its stages together where they overlap; without "
        "it, their sum.",
        allowed=f"a number of seconds above 0, up to {DAY}",
        example=0.3,
    )
    gpu_memory: Memory | None = told(
        None,
        "What the job holds of each GPU's memory at its peak. Where that of the GPUs is known, a "
        "job that does not say it runs alone until it is measured.",
        allowed=MEMORY_WORDS,
        example="9GB",
    )

    @property
    def profile(self) -> StageProfile:
        """As the brain takes it."""
        held = None if self.gpu_memory is None else round(memory_gib(self.gpu_memory) * 2**30)
        return StageProfile(
            iteration_seconds=self.step_seconds or self._sum_seconds,
            storage_seconds=self.storage_seconds,
            cpu_seconds=self.cpu_seconds,
            gpu_seconds=self.gpu_seconds,
            network_seconds=self.network_seconds,
            gpu_memory_bytes=held,
        )

    @property
    def _sum_seconds(self) -> float:
        stages: list[float] = [getattr(self, name) for name in STAGES]
        return min(sum(stages), MOST_SECONDS)

    @model_validator(mode="after")
    def _some_time(self) -> "StageClaims":
        if not self._sum_seconds:
            raise wrong(
                "stages that take no time tell nothing",
                hint="give the seconds of one step, such as gpu_seconds: 0.2",
                field="gpu_seconds",
            )
        return self

    @model_validator(mode="after")
    def _within_the_step(self) -> "StageClaims":
        profile = self.profile
        if profile.overlong:
            name = f"{profile.overlong}_seconds"
            raise wrong(
                f"{name} is longer than the step of {profile.iteration_seconds:g} s",
                hint="a resource is busy for a step at most; raise step_seconds",
                field=name,
            )
        return self
