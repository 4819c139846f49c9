"""What an API answers when it does not do as asked, and how that travels.

WorldError              503, `world`: the world could not do it now       (`weft.model.errors`)
├── Forbidden           403, `forbidden`: it is somebody else's
├── Taken               409, `taken`: the name is in use
└── NoAnswer            503, `gone`: no server, one that stops, or one that broke off
SpecError               422, `spec`: it cannot be used as written         (`weft.model.errors`)
└── UnknownName         422, `unknown`: a queue or a field that does not exist
    └── NoSuchJob       404, `missing`

An answer is `{"error": …, "hint": …, "code": …}`. The code chooses the error that the caller
raises, so that a command leaves with the same status in every world.
"""

from collections.abc import Mapping
from typing import Final

from weft.model.errors import (
    InfeasibleSpec,
    ProtocolError,
    SpecError,
    UnknownName,
    WeftError,
    WorldError,
)


class Forbidden(WorldError):
    """It belongs to somebody else."""


class Taken(WorldError):
    """The name is in use."""


class NoAnswer(WorldError):
    """Nobody listens there, or whoever did broke off."""


class NoSuchJob(UnknownName):
    """There is no job of that name."""


# From the narrowest kind to the widest: the first that fits is meant.
CODES: Final[Mapping[type[WeftError], tuple[int, str]]] = {
    NoSuchJob: (404, "missing"),
    InfeasibleSpec: (422, "infeasible"),
    UnknownName: (422, "unknown"),
    SpecError: (422, "spec"),
    Forbidden: (403, "forbidden"),
    Taken: (409, "taken"),
    NoAnswer: (503, "gone"),
    WorldError: (503, "world"),
    ProtocolError: (500, "protocol"),
    WeftError: (500, "internal"),
}
KINDS: Final = {code: kind for kind, (_, code) in CODES.items()}


def status_and_code(error: WeftError) -> tuple[int, str]:
    """The HTTP status and the code of an error."""
    return next(found for kind, found in CODES.items() if isinstance(error, kind))


def told(answer: Mapping[str, object], *, status: int) -> WeftError:
    """The error that an answer speaks of."""
    kind = KINDS.get(str(answer.get("code")), WorldError)
    message = str(answer.get("error") or f"the server answered with status {status}")
    return kind(message, hint=str(answer.get("hint") or ""))
