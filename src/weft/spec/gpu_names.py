"""GPU types as people say them: `A100`, not `NVIDIA-A100-SXM4-80GB`.

Drivers and the makers' discovery tell the whole product name. A job may say either; both are
brought to the short form before the brain compares them. A part of a GPU is no GPU of that model,
so it goes by its profile: `MIG-1g.5gb`.
"""

import re
from functools import lru_cache

MAKERS = frozenset({"NVIDIA", "TESLA", "GEFORCE", "QUADRO", "AMD", "INSTINCT", "RADEON"})
FAMILIES = frozenset({"RTX", "GTX", "TITAN"})
PROFILE = re.compile(r"(?:^|-)MIG-([0-9]+[cg]\..+)$", re.IGNORECASE)


@lru_cache(maxsize=1024)
def short_name(product: str) -> str:
    """The model: what is left without makers, form factors and memory."""
    plain = product.replace(" ", "-")
    if plain.upper().startswith("AMD_"):
        plain = plain.replace("_", "-")
    part = PROFILE.search(plain)
    if part is not None:
        return f"MIG-{part[1].lower()}"
    words = [word for word in plain.split("-") if word.upper() not in MAKERS]
    if not words:
        return product
    if words[0].upper() in FAMILIES and len(words) > 1:
        return f"{words[0]}-{words[1]}"
    return words[0]
