"""What `weft local up` was told on its command line."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from weft.local.reconcile.parsed_request import MachineLimits
from weft.local.reconcile.preemption import HOUR_SECONDS

DEFAULT_RECIPE: Final = "weave(spacing=1)"  # a round over one machine costs next to nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalOptions:
    """Options of one daemon.

    `slots` None means every GPU that is found, or a slot for each CPU. `group` may open the socket
    besides its owner; without it everybody may where root serves, and nobody else otherwise. What
    jobs leave behind is removed `keep_days` after their end, and earlier where it is more than
    `keep_gib`. A job that may not be interrupted keeps its slots for `protect_hours` of each run.
    One user has at most `user_slots` at a time. Logs of a job have at most `log_gib`, and nothing
    is started while less than `floor_gib` are free. `notify` is a file that says who is told of
    what, `failure_rules` one with rules for failures that go before Weft's own. Before a gang
    starts the machine is probed, unless it was within the last `gang_probe_hours` (0: never).
    A gang that waits is tried on one slot for `trial_minutes` (0: it is not).
    """

    folder: Path
    socket: Path
    slots: int | None = None
    recipe: str = DEFAULT_RECIPE
    foreground: bool = False
    group: str | None = None
    journal: Path | None = None
    keep_days: float = 30.0
    keep_gib: float = 50.0
    backoff_seconds: float = 10.0
    protect_hours: float = 24.0
    user_slots: int | None = None
    floor_gib: float = 1.0
    log_gib: float = 1.0
    log_level: str = "INFO"
    notify: Path | None = None
    failure_rules: Path | None = None
    gang_probe_hours: float = 1.0
    trial_minutes: float = 0.0

    @property
    def limits(self) -> MachineLimits:
        return MachineLimits(
            self.protect_hours * HOUR_SECONDS, self.user_slots, self.floor_gib, self.log_gib
        )
