"""What a world tells its brain, apart from the recipe: times to keep, and who may meet whom."""

from dataclasses import dataclass

from weft.failure.backoff import Backoff


@dataclass(frozen=True, slots=True)
class Settings:
    """How long an answer may take, when silence is probed, and how long a job rests.

    `breaker_seconds` is how long nobody may answer for a service before jobs try it themselves,
    `avoid_seconds` how long a job keeps off nodes that failed it. What follows from the class of
    a failure can be switched off one by one: retries, breakers of services, nodes set aside.
    A gang of `keep_seats_gpus` that failed keeps its seats for `keep_seats_seconds` (0: does not).
    `trial_seconds` is how long a waiting gang is tried on one GPU (0: not at all).
    Whether it `learns_neighbours`: who slows whom on other GPUs of the same nodes.
    Where it does not `mixes_tenants`, only jobs of one tenant take turns on the same GPUs. Where
    `single_seats`, a job whose plan is chosen has a seat for each GPU, so that it can go to fewer
    while it trains; elsewhere one for each node, because its workers are closest within one.
    """

    answer_seconds: float = 120.0
    silence_seconds: float | None = None
    backoff_seconds: float = 60.0
    backoff_cap_seconds: float = 3600.0
    refusals_before_backoff: int = 3
    breaker_seconds: float = 600.0
    avoid_seconds: float = 1800.0
    retry_by_class: bool = True
    breakers: bool = True
    quarantine: bool = True
    keep_seats_gpus: int = 64
    keep_seats_seconds: float = 600.0
    trial_seconds: float = 0.0
    learns_neighbours: bool = True
    mixes_tenants: bool = True
    single_seats: bool = False

    @property
    def backoff(self) -> Backoff:
        """How long a job rests that failed, or that the world would not start."""
        return Backoff(self.backoff_seconds, self.backoff_cap_seconds)
