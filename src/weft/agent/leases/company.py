"""Company: that a job shares its GPUs, and where those who do meet.

It is all that a world has to say when it puts jobs on the same GPUs: a folder that all of them may
enter, the same for each, and which GPUs of this machine are this job's. As text it is one word,
`FOLDER:0,1`, for a command line, an order or a variable (`WEFT_COMPANY`); the GPUs may be left out
where the agent is told its devices.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from weft.agent.messages import Accompany
from weft.agent.workers.cpus import parse_numbers
from weft.model.errors import SpecError


@dataclass(frozen=True, slots=True)
class Company:
    """Where the members meet, and the GPUs that they share, by the machine's numbers."""

    folder: Path
    gpus: tuple[int, ...]

    @property
    def order(self) -> Accompany:
        return Accompany(str(self.folder), self.gpus)


ALONE: Final = Accompany("")
SOCKET: Final = "leases.sock"
MOST_PATH_BYTES: Final = 107


def parse_company(text: str, devices: tuple[int, ...] = ()) -> Company | None:
    """None where there is no company."""
    if not text:
        return None
    folder, _, numbers = text.partition(":")
    return company_of(Accompany(folder, tuple(sorted(parse_numbers(numbers) or devices))))


def company_of(order: Accompany) -> Company | None:
    """As somebody has ordered it."""
    if not order.folder:
        return None
    folder, gpus = Path(order.folder), order.gpus
    if not folder.is_absolute():
        raise SpecError(f"company in {order.folder!r}", hint="give the folder's whole path")
    if len(os.fsencode(folder / SOCKET)) > MOST_PATH_BYTES:
        raise SpecError(
            f"company in {order.folder}", hint="a socket's path is short: choose a shorter folder"
        )
    if not gpus or min(gpus) < 0:
        raise SpecError("company on no GPU", hint="write which are shared: FOLDER:0,1")
    return Company(folder, tuple(sorted(set(gpus))))
