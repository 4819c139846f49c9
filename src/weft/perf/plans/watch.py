"""A job under watch: whether its forecasts are good enough to reconfigure it by.

A job whose steps stay far from what was foretold keeps the plan that it has: the next plan would
be chosen by forecasts that are known to be wrong. It is let go again once they have been right for
as long.
"""

from dataclasses import dataclass

FAR_OFF = 0.2
WINDOWS_IN_A_ROW = 3


@dataclass(frozen=True, slots=True)
class PlanWatch:
    """Windows in a row that were far off, and that were right, up to now."""

    wrong: int = 0
    right: int = 0
    held: bool = False
    last_error: float = 0.0

    @property
    def may_reconfigure(self) -> bool:
        return not self.held

    @property
    def why(self) -> str:
        """Empty as long as the job may be reconfigured."""
        if not self.held:
            return ""
        return (
            f"its steps were more than {FAR_OFF:.0%} off what was foretold in {WINDOWS_IN_A_ROW} "
            f"windows in a row, {self.last_error:+.0%} in the last: it keeps its plan"
        )

    def look(self, *, foretold_seconds: float, measured_seconds: float) -> "PlanWatch":
        """After one more window."""
        error = measured_seconds / foretold_seconds - 1.0
        if abs(error) > FAR_OFF:
            wrong = self.wrong + 1
            held = self.held or wrong >= WINDOWS_IN_A_ROW
            return PlanWatch(wrong, 0, held, error)
        right = self.right + 1
        return PlanWatch(0, right, self.held and right < WINDOWS_IN_A_ROW, error)
