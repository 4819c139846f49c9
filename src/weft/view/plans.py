"""As what a job runs, and as what it could run: a plan that was chosen, and the next best."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way to run the job; `left_seconds` is how long it is expected to take so, from now."""

    gpus: int
    cores_per_gpu: float
    plan: str
    units_per_second: float
    left_seconds: float
    why: str


@dataclass(frozen=True, slots=True)
class Considered:
    """`chosen` is None while it waits; `note` says why its plan is not looked at, if so.

    Speeds are counted in this `unit` a second; where that is none, as parts of the speed that was
    asked for.
    """

    chosen: Alternative | None
    rejected: tuple[Alternative, ...]
    note: str = ""
    unit: str = ""
