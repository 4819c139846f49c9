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


def epoch_prefix(epoch: int) -> str:
    """Under which the keys of an epoch stand."""
    return f"epoch-{epoch}/"


class ControlStore:
    """Keys and values, and who waits for which."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}
        self._waiting: dict[str, list[asyncio.Future[bool]]] = {}
        self._given_up: set[str] = set()
        self._operations: dict[str, Callable[[Ask], Answer]] = {
            "set": lambda ask: self._set(ask.key, b64decode(ask.value)),
            "add": lambda ask: self._add(ask.key, ask.amount),
            "check": lambda ask: Answer(ok=ask.key in self._values),
            "delete": lambda ask: Answer(ok=self._values.pop(ask.key, None) is not None),
            "count": lambda _: Answer(ok=True, amount=len(self._values)),
            "compare_set": self._compare_set,
        }

    async def answer(self, ask: Ask) -> Answer:
        """One operation; a wait that ends without the key is answered with `ok` false."""
        if ask.op == "get":
            return await self._get(ask.key, ask.wait_seconds)
        operation = self._operations.get(ask.op)
        return operation(ask) if operation else Answer(ok=False)

    def give_up(self, prefix: str) -> None:
        """Nothing will come under this prefix: forget what did, and end all waiting for it."""
        self._given_up.add(prefix)
        for key in [key for key in self._values if key.startswith(prefix)]:
            del self._values[key]
        for key in [key for key in self._waiting if key.startswith(prefix)]:
            self._wake(key, found=False)

    def _set(self, key: str, value: bytes) -> Answer:
        if len(self._values) >= MOST_KEYS and key not in self._values:
            return Answer(ok=False)
        self._values[key] = value
        self._wake(key, found=True)
        return Answer(ok=True)

    async def _get(self, key: str, wait_seconds: float) -> Answer:
        if key not in self._values and not await self._arrives(key, wait_seconds):
            return Answer(ok=False)
        return Answer(ok=True, value=b64encode(self._values[key]).decode())

    async def _arrives(self, key: str, wait_seconds: float) -> bool:
        if wait_seconds <= 0 or any(key.startswith(prefix) for prefix in self._given_up):
            return False
        arrival: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, []).append(arrival)
        try:
            return await asyncio.wait_for(arrival, wait_seconds)
        except TimeoutError:
            return False

    def _add(self, key: str, amount: int) -> Answer:
        total = int(self._values.get(key, b"0")) + amount
        self._set(key, str(total).encode())
        return Answer(ok=True, amount=total)

    def _compare_set(self, ask: Ask) -> Answer:
        present = self._values.get(ask.key, b"")
        if present == b64decode(ask.expected):
            self._set(ask.key, b64decode(ask.value))
        return Answer(ok=True, value=b64encode(self._values.get(ask.key, b"")).decode())

    def _wake(self, key: str, *, found: bool) -> None:
        for arrival in self._waiting.pop(key, ()):
            if not arrival.done():
                arrival.set_result(found)
