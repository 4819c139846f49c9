"""Between a worker that has company and the lease server of its machine.

    worker → server   Hello  Turn  GivenBack
    server → worker   Waits  Granted  Wanted

The envelope says whose gang it is; the role in `Hello` which part of the worker speaks.
"""

from dataclasses import dataclass

from weft.agent.messages.message import Members, Message, Names

LOOP, READER = PARTS = ("loop", "reader")


@dataclass(frozen=True, slots=True)
class Turn(Message):
    """A stage is about to begin, on all `members` of an epoch; the next one that each comes to.

    It wants resources of these kinds beside all these GPUs, waits for them no longer than
    `bound_seconds`, and expects to give them back within `term_seconds` of being asked for them.
    """

    epoch: int
    members: Members
    gpus: Members
    kinds: Names
    bound_seconds: float
    term_seconds: float


@dataclass(frozen=True, slots=True)
class GivenBack(Message):
    """The stage does not need these any more."""

    kinds: Names


@dataclass(frozen=True, slots=True)
class Waits(Message):
    """Somebody else has its turn; said again and again, so that silence means something."""


@dataclass(frozen=True, slots=True)
class Wanted(Message):
    """Somebody waits for what this worker's gang has; until then it may keep it between stages."""


@dataclass(frozen=True, slots=True)
class Granted(Message):
    """The stage may begin; `at_seconds` is when that was decided, on the machine's own clock.

    It is the same for all workers of a gang. `breach` says that somebody else had not given back,
    and `breaches` how often others had to say that of this gang.
    """

    at_seconds: float
    breach: bool = False
    breaches: int = 0
