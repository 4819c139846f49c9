"""An agent that dies once, at a labelled moment of a change of plans.

The moment stands in a file where the job works; the agent that reads it takes the file away, so
that the one after it lives.
"""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from weft.agent import __main__ as agent
from weft.agent.coordination.epochs import Epochs
from weft.agent.coordination.turnover import Turnover

FILE: Final = "die-at"


def main() -> None:
    path = Path(FILE)
    if path.exists():
        owner, name, is_over = MOMENTS[path.read_text()]
        path.unlink()
        setattr(owner, name, _then_dying(getattr(owner, name), is_over))
    agent.main()


def _ordered(turnover: Turnover, _: object) -> bool:
    return turnover.order is not None


def _told(_: object, __: object) -> bool:
    return True


def _settled(_: object, answer: object) -> bool:
    return bool(answer)


def _reached(turnover: Turnover, _: object) -> bool:
    return turnover.done > 0


MOMENTS: Final[dict[str, tuple[type, str, Callable[..., bool]]]] = {
    "begun": (Turnover, "_begin", _ordered),  # workers of the new plan are to be started
    "yielding": (Epochs, "yield_", _told),  # those who train are to stop
    "tried": (Turnover, "settle", _settled),  # they stand still, and others take over
    "reached": (Turnover, "reached", _reached),  # all have made a step under the new plan
}


def _then_dying(method: Callable[..., Any], is_over: Callable[..., bool]) -> Callable[..., Any]:
    def dying(self: Any, *given: Any, **named: Any) -> Any:  # noqa: ANN401 - whatever it was
        answer = method(self, *given, **named)
        if is_over(self, answer):
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    return dying
