"""Classes of width in which studies of GPU clusters tell their numbers: 1, 2–4, 5–8, more."""

CLASSES: tuple[tuple[str, int], ...] = (("0", 0), ("1", 1), ("2–4", 4), ("5–8", 8))
WIDEST = ">8"
NAMES: tuple[str, ...] = (*(name for name, _ in CLASSES), WIDEST)


def size_class(gpus: int) -> str:
    """The class of a job of that many GPUs."""
    return next((name for name, most in CLASSES if gpus <= most), WIDEST)
