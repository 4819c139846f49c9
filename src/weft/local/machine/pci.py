"""Addresses on the PCI bus, by which a kernel names a GPU.

Everybody writes them another way: `00000000:4B:00.0`, `0000:4b:00`, `PCI:0000:4b:00.0`.
"""

import re
from collections.abc import Iterator

_ADDRESS = re.compile(
    r"(?<![0-9a-fA-F:])([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?![0-9a-fA-F:])"
)


def addresses_in(text: str) -> Iterator[str]:
    """All of them, written one way; what a card does besides is part of the same card."""
    for domain, bus, device in _ADDRESS.findall(text.replace("PCI:", " ")):
        yield f"{int(domain, 16):04x}:{bus}:{device}".lower()
