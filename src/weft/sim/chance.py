"""Chance: every draw is a function of the seed and of what it is drawn for.

No generator is advanced, so a draw does not depend on how many others were made before it: the
third start of a job costs the same under every recipe, and two runs differ only where their
decisions do.
"""

from hashlib import blake2b


class Chance:
    """Uniform draws in [0, 1) by name."""

    __slots__ = ("_key",)

    def __init__(self, seed: int) -> None:
        self._key = seed.to_bytes(16, "little", signed=True)

    def uniform(self, *what: object) -> float:
        name = "\0".join(map(str, what)).encode()
        digest = blake2b(name, digest_size=8, key=self._key).digest()
        return (int.from_bytes(digest, "little") >> 11) * 2.0**-53
