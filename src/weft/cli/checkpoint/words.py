"""Arguments, options and sizes that the commands for checkpoints share."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from weft.model.errors import SpecError

UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
THOUSAND, TEN = 1024.0, 10

FOLDER = click.argument("folder", type=click.Path(path_type=Path))
VERIFY = click.option(
    "--verify", is_flag=True, help="Read every byte and compare it with its digest."
)


def size(count: int | None) -> str:
    """`151 MiB`, in the unit that fits; nothing where nobody knows."""
    if count is None:
        return ""
    value, unit = float(count), 0
    while value >= THOUSAND and unit < len(UNITS) - 1:
        value, unit = value / THOUSAND, unit + 1
    digits = 1 if unit and value < TEN else 0
    return f"{value:.{digits}f} {UNITS[unit]}"


@contextmanager
def needs_torch() -> Iterator[None]:
    """Where torch or safetensors is missing, what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        extra = "safetensors" if error.name == "safetensors" else "train"
        hint = f"in Weft's checkout: pip install '.[{extra}]'"
        raise SpecError(f"{error.name} is not installed", hint=hint) from error
