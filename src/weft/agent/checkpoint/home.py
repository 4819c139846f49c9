"""Where checkpoints are kept: below a folder, or in an object store. The agent knows only this."""

import re
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Protocol

from weft.agent.checkpoint.vault import Newest, Run, Vault
from weft.model.errors import SpecError

URL: Final = re.compile(r"([a-z0-9+.-]+)://(.*)")
S3: Final = "s3"

Place = Path | str


class Home(Protocol):
    """What an agent does with the checkpoints of its job."""

    local: bool  # whether what was written can be read as files

    def claim(self) -> None:
        """No older incarnation can write any more."""

    def newest(self) -> Newest:
        """The newest sound checkpoint, as files that workers can read."""

    def write(
        self,
        step: int,
        cursor: int,
        slots: Sequence[Path],
        *,
        run: Run | None = None,
        replace: bool = False,
    ) -> Path | None:
        """Make sealed slots durable; where they can be read as files, or will be in the end."""

    def retain(self, now: float) -> tuple[str, ...]:
        """Delete what need not stay."""


def place_of(text: str) -> Place:
    """A folder, or the address of a place in an object store."""
    found = URL.fullmatch(text)
    if found is None:
        return Path(text)
    scheme, rest = found.groups()
    if scheme != S3 or not rest.strip("/"):
        raise SpecError(
            f"{text} is no place for checkpoints", hint="name a folder, or s3://BUCKET/PREFIX"
        )
    if find_spec("s3fs") is None:
        raise SpecError("s3fs is not installed", hint="in Weft's checkout: pip install '.[s3]'")
    return text.rstrip("/")


def home_of(place: Place, job: str, incarnation: int, fetched: Path) -> Home:
    """The checkpoints there; what is read from an object store comes to `fetched`."""
    if isinstance(place, Path):
        return Vault(place, job, incarnation)
    from weft.agent.checkpoint.objects.vault import ObjectVault

    return ObjectVault(place, job, incarnation, fetched)
