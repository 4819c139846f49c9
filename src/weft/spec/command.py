"""A command as a job file holds it: one line, or a few, for a shell."""

from typing import Annotated, Final

from pydantic import Field

MAX_RUN: Final = 32_000  # one argument of a process holds 128 KiB, a character up to 4 bytes
COMMAND_PATTERN: Final = r"^[^\x00]*[!-~][^\x00]*$"

Command = Annotated[str, Field(pattern=COMMAND_PATTERN, min_length=1, max_length=MAX_RUN)]
