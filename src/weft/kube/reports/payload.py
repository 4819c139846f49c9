"""What a worker may say about its training, in two shapes that become one `Report`.

Weft's own shape is small and closed. The other is the progress report of Kubeflow Trainer 2.2,
which Hugging Face's Trainer and Kubeflow's SDK send by themselves: a percentage, a remaining time
and named metrics whose values are strings. Both are checked field by field; a number is finite and
bounded, whatever the JSON reader let through, and text is short and printable.

A report is a claim. Whether it is plausible is for the operator to judge, who knows the job's past.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Final, TypeVar

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from weft.agent.reports.profile import Profile
from weft.kube.reports.refusal import Refusal

MOST_BODY_BYTES: Final = 64 * 1024
MOST_METRICS: Final = 32
MOST_TEXT: Final = 256
MOST_OFFERS: Final = 32
MOST_COUNT: Final = 2**53 - 1
MOST_NUMBER: Final = 1e18
PRINTABLE: Final = r"^[^\p{C}\p{Zl}\p{Zp}]*$"

Count = Annotated[int, Field(ge=0, le=MOST_COUNT)]
Number = Annotated[float, Field(ge=-MOST_NUMBER, le=MOST_NUMBER, allow_inf_nan=False)]
Amount = Annotated[float, Field(ge=0, le=MOST_NUMBER, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, le=MOST_NUMBER, allow_inf_nan=False)]
Text = Annotated[str, Field(max_length=MOST_TEXT, pattern=PRINTABLE)]


class Unit(StrEnum):
    """What work is counted in."""

    STEPS = "steps"
    PERCENT = "percent"


@dataclass(frozen=True, slots=True)
class Speed:
    """What the workers measured while their width stood still; each measurement has a number.

    One that is `shared` was made while the job took turns with others on its GPUs.
    """

    number: int
    width: int
    steps_per_second: float
    seconds: float
    shared: bool = False


@dataclass(frozen=True, slots=True)
class OrderAnswer:
    """What came of an order to go to another plan; orders of an epoch are told by their serial."""

    serial: int
    reached: bool
    why: str = ""
    paused_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """What was said; None is what was not said. `left_out` names metrics that were not taken.

    `live` is whether the job can be resized while it trains, `profile` what one of its steps does
    alone, `profile_in_turns` what it does in company, and `paused_seconds` how long the last resize
    kept it from training. A head that goes to another plan when it is told so says as what the
    program can be run (`offers`), and what came of the last order.
    """

    unit: Unit = Unit.STEPS
    done: float | None = None
    total: float | None = None
    saved: float | None = None
    remaining_seconds: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    stage_seconds: Mapping[str, float] = field(default_factory=dict)
    message: str = ""
    live: bool | None = None
    speed: Speed | None = None
    profile: Profile | None = None
    profile_in_turns: Profile | None = None
    paused_seconds: float | None = None
    save_every_seconds: float | None = None
    offers: tuple[str, ...] = ()
    order: OrderAnswer | None = None
    left_out: tuple[str, ...] = ()

    @property
    def fraction(self) -> float | None:
        """The part of the work that is done, 0..1; the unit may differ from report to report."""
        if self.done is None or not self.total:
            return None
        return self.done / self.total


class Closed(BaseModel):
    """A part of a body: unknown fields are refused, and no value is bent into another kind."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


Shape = TypeVar("Shape", bound=Closed)


class StageTimes(Closed):
    """Seconds of one training step, by the resource that they were spent on."""

    storage: Amount | None = None
    cpu: Amount | None = None
    gpu: Amount | None = None
    network: Amount | None = None


class MeasuredSpeed(Closed):
    """Steps per second of so many workers, over so many seconds of training."""

    number: Annotated[int, Field(ge=1, le=MOST_COUNT)]
    width: Annotated[int, Field(ge=1, le=MOST_COUNT)]
    steps_per_second: Positive
    seconds: Positive
    shared: bool = False


class StepProfile(Closed):
    """What one step of so many workers does."""

    width: Annotated[int, Field(ge=1, le=MOST_COUNT)]
    step_seconds: Positive
    storage_seconds: Amount = 0.0
    cpu_seconds: Amount = 0.0
    gpu_seconds: Amount = 0.0
    network_seconds: Amount = 0.0
    peak_bytes: Count | None = None


class SaidOfOrder(Closed):
    """What came of an order."""

    serial: Annotated[int, Field(ge=1, le=MOST_COUNT)]
    reached: bool
    why: Text = ""
    paused_seconds: Amount | None = None


class WeftReport(Closed):
    """Weft's own shape; only the step is required. `width` is the number of workers that train."""

    step: Count
    total_steps: Annotated[int, Field(ge=1, le=MOST_COUNT)] | None = None
    checkpoint_step: Count | None = None
    samples: Count | None = None
    loss: Number | None = None
    throughput: Amount | None = None
    stages: StageTimes = StageTimes()
    message: Text = ""
    width: Count | None = None
    live: bool | None = None
    speed: MeasuredSpeed | None = None
    profile: StepProfile | None = None
    profile_in_turns: StepProfile | None = None
    paused_seconds: Amount | None = None
    save_every_seconds: Amount | None = None
    offers: Annotated[list[Text], Field(max_length=MOST_OFFERS)] = []
    order: SaidOfOrder | None = None

    @model_validator(mode="after")
    def _in_order(self) -> "WeftReport":
        if self.total_steps is not None and self.step > self.total_steps:
            raise ValueError("step is beyond total_steps")
        if self.checkpoint_step is not None and self.checkpoint_step > self.step:
            raise ValueError("checkpoint_step is beyond step")
        return self


class KubeflowMetric(Closed):
    """A metric as Kubeflow sends it: the value is a string, and need not be a number."""

    name: Annotated[str, Field(min_length=1, max_length=64)]
    value: Annotated[str, Field(max_length=64)]


class KubeflowTrainerStatus(Closed):
    """`lastUpdatedTime` is taken and not used: the time of arrival counts."""

    progressPercentage: Annotated[int, Field(ge=0, le=100)] | None = None  # noqa: N815
    estimatedRemainingSeconds: Annotated[int, Field(ge=0, lt=2**31)] | None = None  # noqa: N815
    metrics: Annotated[list[KubeflowMetric], Field(max_length=256)] | None = None
    lastUpdatedTime: Annotated[str, Field(max_length=64)] | None = None  # noqa: N815


class KubeflowReport(Closed):
    """The body of Kubeflow's status update; an empty one is allowed and says nothing."""

    trainerStatus: KubeflowTrainerStatus | None = None  # noqa: N815


def read_weft(body: bytes) -> Report:
    """A report in Weft's own shape, or a `Refusal`."""
    said = checked(WeftReport, body)
    named = {
        "samples": said.samples,
        "loss": said.loss,
        "throughput": said.throughput,
        "width": said.width,
    }
    return Report(
        unit=Unit.STEPS,
        done=said.step,
        total=said.total_steps,
        saved=said.checkpoint_step,
        metrics=_present(named),
        stage_seconds=_present(dict(said.stages)),
        message=said.message,
        live=said.live,
        speed=None if said.speed is None else Speed(**dict(said.speed)),
        profile=_profile(said.profile),
        profile_in_turns=_profile(said.profile_in_turns),
        paused_seconds=said.paused_seconds,
        save_every_seconds=said.save_every_seconds,
        offers=tuple(said.offers),
        order=None if said.order is None else OrderAnswer(**dict(said.order)),
    )


def _profile(said: StepProfile | None) -> Profile | None:
    return None if said is None else Profile(**dict(said))


def read_kubeflow(body: bytes) -> Report:
    """A report in Kubeflow's shape, or a `Refusal`.

    Metrics that are not finite numbers, whose names are not plain, or that are too many are left
    out and named in the answer: a loss that became NaN must not hide how far the training is.
    """
    said = checked(KubeflowReport, body).trainerStatus or KubeflowTrainerStatus()
    metrics, left_out = _numbers(said.metrics or [])
    unit, done, total = _progress(said.progressPercentage, metrics)
    return Report(
        unit=unit,
        done=done,
        total=total,
        remaining_seconds=said.estimatedRemainingSeconds,
        metrics=metrics,
        left_out=left_out,
    )


def checked(shape: type[Shape], body: bytes) -> Shape:
    """A body in this shape, or a `Refusal` that repeats nothing of what was sent."""
    try:
        return shape.model_validate(orjson.loads(body))
    except orjson.JSONDecodeError as error:
        raise Refusal(
            400,
            f"the body is not JSON: {error.msg}",
            hint="Send one JSON object in UTF-8; JSON has no NaN and no Infinity.",
        ) from error
    except ValidationError as error:
        raise Refusal(
            422, _faults(error), hint="Send only known fields, with finite numbers in range."
        ) from error


NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/@+-]*", re.ASCII)
NUMERAL: Final = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d{1,4})?", re.ASCII)
# Hugging Face's callback sends these two beside a percentage that it rounds down.
STEP: Final = "current_step"
STEPS: Final = "total_steps"
FAULTS: Final[Mapping[str, str]] = {
    "extra_forbidden": "unknown field",
    "string_pattern_mismatch": "not printable text",
    "model_type": "not an object",
}


def _faults(error: ValidationError) -> str:
    """The first faults by place and kind; never the value that was sent."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(f"{_place(fault['loc'])}: {_what(fault)}" for fault in faults[:3])


def _place(path: tuple[int | str, ...]) -> str:
    """Where it is wrong; the name of an unknown field is the sender's, so it is escaped."""
    parts = (ascii(part)[1:-1][:64] if isinstance(part, str) else str(part) for part in path)
    return ".".join(parts) or "report"


def _what(fault: Mapping[str, Any]) -> str:
    return FAULTS.get(fault["type"]) or str(fault["msg"])


def _present(named: Mapping[str, float | None]) -> dict[str, float]:
    return {name: value for name, value in named.items() if value is not None}


def _numbers(said: list[KubeflowMetric]) -> tuple[dict[str, float], tuple[str, ...]]:
    taken: dict[str, float] = {}
    left_out = []
    for metric in said:
        number = _number(metric.value)
        plain = NAME.fullmatch(metric.name) is not None
        if plain and number is not None and len(taken) < MOST_METRICS:
            taken[metric.name] = number
        elif plain:
            left_out.append(metric.name)
    return taken, tuple(left_out[:MOST_METRICS])


def _number(text: str) -> float | None:
    if not NUMERAL.fullmatch(text):
        return None
    number = float(text)
    return number if math.isfinite(number) and abs(number) <= MOST_NUMBER else None


def _progress(
    percent: int | None, metrics: Mapping[str, float]
) -> tuple[Unit, float | None, float | None]:
    """In steps where the metrics tell them, else in percent."""
    step, steps = metrics.get(STEP), metrics.get(STEPS)
    if step is not None and steps is not None and 0 <= step <= steps and steps >= 1:
        return Unit.STEPS, step, steps
    if percent is not None:
        return Unit.PERCENT, percent, 100
    return Unit.PERCENT, None, None
