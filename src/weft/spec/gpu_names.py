"""GPU types as people say them: `A100`, not `NVIDIA-A100-SXM4-80GB`.

Drivers and NVIDIA's GPU discovery tell the whole product name. A job may say either; both are
brought to the short form before the brain compares them.
"""

from functools import lru_cache

MAKERS = frozenset({"NVIDIA", "TESLA", "GEFORCE", "QUADRO", "AMD", "INSTINCT"})
FAMILIES = frozenset({"RTX", "GTX", "TITAN"})


@lru_cache(maxsize=1024)
def short_name(product: str) -> str:
    """The model: what is left without makers, form factors and memory."""
    words = [word for word in product.replace(" ", "-").split("-") if word.upper() not in MAKERS]
    if not words:
        return product
    if words[0].upper() in FAMILIES and len(words) > 1:
        return f"{words[0]}-{words[1]}"
    return words[0]
