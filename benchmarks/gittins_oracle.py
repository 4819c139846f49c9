"""The Gittins index straight from its definition: slow, simple, and sharing no code with Weft.

Every candidate quantum is tried for every attained value, so a query costs a pass over all samples.
"""

import numpy as np
import numpy.typing as npt


def brute_force_index(
    samples: npt.NDArray[np.float64], attained: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """max over D = s − a of P(S − a <= D | S > a) / E[min(S − a, D) | S > a], or 0 past the end."""
    ordered = np.sort(samples)
    return np.array([_best_ratio(ordered[ordered > a] - a) for a in attained], dtype=np.float64)


def brute_force_index_at(
    samples: npt.NDArray[np.float64], attained: npt.NDArray[np.float64], quantum: float
) -> npt.NDArray[np.float64]:
    """The same ratio for one given D."""
    rates = [_ratio(samples[samples > a] - a, quantum) for a in attained]
    return np.array(rates, dtype=np.float64)


def _best_ratio(remaining: npt.NDArray[np.float64]) -> float:
    """`remaining` is sorted, so E[min(remaining, D)] splits into a prefix sum and a flat rest."""
    if remaining.size == 0:
        return 0.0
    ended = np.searchsorted(remaining, remaining, side="right")
    service_of_ended = np.cumsum(remaining)[ended - 1]
    service_of_others = remaining * (remaining.size - ended)
    return float(np.max(ended / (service_of_ended + service_of_others)))


def _ratio(remaining: npt.NDArray[np.float64], quantum: float) -> float:
    if remaining.size == 0:
        return 0.0
    return float(np.mean(remaining <= quantum) / np.mean(np.minimum(remaining, quantum)))
