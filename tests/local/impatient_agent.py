"""The agent itself, for tests: a worker that makes no step for two seconds hangs."""

from functools import partial

import weft.agent.__main__ as agent
from weft.agent.coordination.limits import Limits

HANG_SECONDS = 2.0


def main() -> None:
    limits = partial(Limits, setup_seconds=60.0, most_hangs=1)
    setattr(agent, "Limits", lambda **_: limits(hang_seconds=HANG_SECONDS))  # noqa: B010
    agent.main()


if __name__ == "__main__":
    main()
