"""Weft: a scheduler for deep-learning training on shared GPU clusters.

In a training script `import weft` brings what is in `weft.train.api`, loaded when it is first used;
nothing of the scheduler comes with it.
"""

TYPE_CHECKING = False  # true for type checkers, which know the name; `typing` is slow to import
if TYPE_CHECKING:
    from weft.train.api import (
        backward,
        first,
        gather,
        loader,
        log_dir,
        mean,
        metric,
        on_rescale,
        prepare,
        run_id,
        state,
        stepped,
        steps,
    )

__version__ = "0.1.0"

__all__ = [
    "__version__",
    "backward",
    "first",
    "gather",
    "loader",
    "log_dir",
    "mean",
    "metric",
    "on_rescale",
    "prepare",
    "run_id",
    "state",
    "stepped",
    "steps",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'weft' has no attribute {name!r}")
    from weft.train import api  # noqa: PLC0415 - torch is imported by those who train

    return getattr(api, name)
