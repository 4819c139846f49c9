"""Labelled points at which a test may let a process die, as if the machine had lost power.

Between two writes there are moments in which the world and the record differ. A part that has such
moments names them; `WEFT_CRASH=recorded` or `WEFT_CRASH=created#3` kills the process by SIGKILL
when that point is passed (for the third time). Without the variable a point costs one comparison.
"""

import os
import signal


class CrashPlan:
    """Where to die, read from the environment once."""

    def __init__(self, text: str = "") -> None:
        self.label, _, times = text.partition("#")
        self.left = int(times or 1)

    def passing(self, label: str) -> None:
        if label != self.label:
            return
        self.left -= 1
        if self.left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)


_PLAN = CrashPlan(os.environ.get("WEFT_CRASH", ""))
passing = _PLAN.passing
