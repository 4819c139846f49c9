"""The control store of a job: where the members of an epoch find each other.

torch's own TCPStore authenticates nobody and listens on every address, and it lives in a worker,
so that the loss of rank 0 would end the job. This one lives in the agent, behind the same
authenticated connection as everything else, and outlives any worker. Keys of an epoch begin with
its name; giving up an epoch ends every wait for its keys, so that nobody waits for a group that
will not come.
"""

import asyncio
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Final

from weft.agent.messages import Answer, Ask

MOST_KEYS: Final = 100_000
NO: Final = Answer(ok=False)


def epoch_prefix(epoch: int) -> str:
    """Under which the keys of an epoch stand."""
    return f"epoch-{epoch}/"


class ControlStore:
    """Keys and values, and who waits for which."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}
        self._given_up: set[str] = set()
        self._operations: dict[str, Callable[[Ask], Answer]] = {
            "set": lambda ask: self._set(ask.key, _bytes(ask.value)),
            "add": lambda ask: self._add(ask.key, ask.amount),
            "check": lambda ask: Answer(ok=ask.key in self._values),
            "delete": lambda ask: Answer(ok=self._values.pop(ask.key, None) is not None),
            "count": lambda _: Answer(ok=True, amount=len(self._values)),
            "compare_set": self._compare_set,
        }

    async def answer(self, ask: Ask) -> Answer:
        """One operation; what makes no sense, or has not come, is answered with `ok` false."""
        if ask.op == "get":
            return await self._get(ask.key, ask.wait_seconds)
        operation = self._operations.get(ask.op)
        try:
            return operation(ask) if operation else NO
        except ValueError:
            return NO

    def give_up(self, prefix: str) -> None:
        """Nothing will come under this prefix: forget what did, and end all waiting for it."""
        self._given_up.add(prefix)
        for key in [key for key in self._values if key.startswith(prefix)]:
            del self._values[key]
        for key in [key for key in self._waiting if key.startswith(prefix)]:
            self._wake(key)

    def _set(self, key: str, value: bytes) -> Answer:
        full = len(self._values) >= MOST_KEYS and key not in self._values
        if full or self._is_given_up(key):
            return NO
        self._values[key] = value
        self._wake(key)
        return Answer(ok=True)

    async def _get(self, key: str, wait_seconds: float) -> Answer:
        if key not in self._values:
            await self._arrival(key, wait_seconds)
        value = self._values.get(key)
        return NO if value is None else Answer(ok=True, value=b64encode(value).decode())

    async def _arrival(self, key: str, wait_seconds: float) -> None:
        """Until the key is there, will not come, or has been waited for long enough."""
        if wait_seconds <= 0 or self._is_given_up(key):
            return
        arrival: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, set()).add(arrival)
        try:
            await asyncio.wait((arrival,), timeout=wait_seconds)
        finally:
            self._waiting.get(key, set()).discard(arrival)
            if not self._waiting.get(key):
                self._waiting.pop(key, None)

    def _is_given_up(self, key: str) -> bool:
        epoch, _, _ = key.partition("/")
        return f"{epoch}/" in self._given_up

    def _add(self, key: str, amount: int) -> Answer:
        total = int(self._values.get(key, b"0")) + amount
        stored = self._set(key, str(total).encode())
        return Answer(ok=True, amount=total) if stored.ok else NO

    def _compare_set(self, ask: Ask) -> Answer:
        present = self._values.get(ask.key, b"")
        if present == _bytes(ask.expected):
            self._set(ask.key, _bytes(ask.value))
        return Answer(ok=True, value=b64encode(self._values.get(ask.key, b"")).decode())

    def _wake(self, key: str) -> None:
        for arrival in self._waiting.pop(key, ()):
            if not arrival.done():
                arrival.set_result(None)


def _bytes(text: str) -> bytes:
    return b64decode(text, validate=True)
