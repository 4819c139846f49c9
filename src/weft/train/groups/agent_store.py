"""torch's key-value store, kept by the agent: how the members of an epoch find each other.

Only what a process group asks for while it is built is here. A wait for an epoch that was given up
ends at once, because the agent ends it.
"""

from base64 import b64decode, b64encode
from datetime import timedelta
from typing import Final

import torch.distributed as dist

from weft.agent.messages import Answer, Ask
from weft.crash import passing
from weft.model.errors import WorldError
from weft.train.membership.contact import Contact
from weft.train.membership.wire import Wire

STORE: Final = "store"


class AgentStore(dist.Store):  # type: ignore[name-defined,misc]
    """The keys below one prefix of the agent's store; one that follows, of whichever head leads."""

    def __init__(
        self, contact: Contact, prefix: str, timeout: timedelta, *, follows: bool = False
    ) -> None:
        super().__init__()
        self.follows = follows and contact.heads is not None
        self._contact, self._prefix = contact, prefix
        self.told: list[bytes] = []  # by this member and by the others
        self._seconds = timeout.total_seconds()
        self._term = contact.heads.term if contact.heads else 0
        self._wire: Wire | None = None
        try:
            self._wire = Wire(contact, STORE)
        except WorldError:
            if not self.follows:
                raise

    def set(self, key: str, value: str | bytes) -> None:
        self.told.append(b64decode(_text(value)))
        self._done(Ask("set", self._prefix + key, value=_text(value)))
        passing("address-told")

    def get(self, key: str) -> bytes:
        self.told.append(b64decode(self._found(key, self._seconds).value))
        return self.told[-1]

    def add(self, key: str, value: int) -> int:
        return self._done(Ask("add", self._prefix + key, amount=value)).amount

    def check(self, keys: list[str]) -> bool:
        return all(self._ask(Ask("check", self._prefix + key)).ok for key in keys)

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
        seconds = timeout.total_seconds() if timeout is not None else self._seconds
        for key in keys:
            self._found(key, seconds)

    def compare_set(self, key: str, expected_value: str, desired_value: str) -> bytes:
        ask = Ask(
            "compare_set",
            self._prefix + key,
            value=_text(desired_value),
            expected=_text(expected_value),
        )
        return b64decode(self._ask(ask).value)

    def delete_key(self, key: str) -> bool:
        return self._ask(Ask("delete", self._prefix + key)).ok

    def num_keys(self) -> int:
        return self._ask(Ask("count")).amount

    def set_timeout(self, timeout: timedelta) -> None:
        self._seconds = timeout.total_seconds()

    def clone(self) -> "AgentStore":
        return AgentStore(self._contact, self._prefix, timedelta(seconds=self._seconds))

    def close(self) -> None:
        if self._wire is not None:
            self._wire.close()

    def follow(self) -> None:
        """Go to the head that leads, where it is another one than before."""
        heads = self._contact.heads
        if not self.follows or heads is None or (self._wire and heads.term == self._term):
            return
        term = heads.term
        wire = Wire(self._contact, STORE)
        self.close()
        self._wire, self._term = wire, term

    def _found(self, key: str, seconds: float) -> Answer:
        answer = self._ask(Ask("get", self._prefix + key, wait_seconds=seconds))
        if not answer.ok:
            raise WorldError(f"nobody has set {self._prefix + key}")
        return answer

    def _done(self, ask: Ask) -> Answer:
        answer = self._ask(ask)
        if not answer.ok:
            raise WorldError(f"the agent did not take {ask.key}: its epoch is given up")
        return answer

    def _ask(self, ask: Ask) -> Answer:
        if self._wire is None:
            raise WorldError("the agent's store is gone")
        self._wire.say(ask)
        answer = self._wire.next()
        if not isinstance(answer, Answer):
            raise WorldError("the agent's store is gone")
        return answer


def _text(value: str | bytes) -> str:
    raw = value.encode() if isinstance(value, str) else bytes(value)
    return b64encode(raw).decode()
