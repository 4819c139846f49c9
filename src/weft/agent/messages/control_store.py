"""One operation on the control store, and what comes back; drivers get the same answer."""

from dataclasses import dataclass, field

from weft.agent.messages.message import Json, Message


@dataclass(frozen=True, slots=True)
class Ask(Message):
    """One operation on the control store; values are base64."""

    op: str
    key: str = ""
    value: str = ""
    expected: str = ""
    amount: int = 0
    wait_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Answer(Message):
    """What the store, or the agent to a driver, has to say."""

    ok: bool
    value: str = ""
    amount: int = 0
    body: Json = field(default_factory=dict)

    @classmethod
    def refused(cls, why: str) -> "Answer":
        return cls(ok=False, body={"why": why})
