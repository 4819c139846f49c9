"""What a job needs if it is like the earlier runs of its program.

People submit the same program again and again; how much work a run needed is the best guess of how
much the next one needs, and what a run has already done rules out those that ended before.
"""

import numpy as np

from weft.perf.student import ninetieth
from weft.perf.total import Source, Total

LATEST = 32
FEWEST = 2
FREE_OF_SHAPE = 9
"""From so many runs on, the tenth and the ninetieth percentile lie among them."""


def total_like(earlier: tuple[float, ...], done: float = 0.0) -> Total | None:
    """From the totals of earlier runs beyond `done`; None where too few got so far.

    With nine runs or more the interval lies between the values that a further run falls below with
    a chance of a tenth and of nine tenths, whatever their distribution; with fewer it is Student's,
    on their logarithms.
    """
    beyond = np.sort(np.array([total for total in earlier if total > done], np.float64))
    if len(beyond) < FEWEST:
        return None
    likely = float(np.median(beyond))
    if len(beyond) < FREE_OF_SHAPE:
        logs, count = np.log(beyond), len(beyond)
        spread = ninetieth(count - 1) * float(logs.std(ddof=1)) * (1 + 1 / count) ** 0.5
        middle = float(np.exp(logs.mean()))
        low, high = middle * np.exp(-spread), middle * np.exp(spread)
    else:
        ranks = np.arange(1, len(beyond) + 1) / (len(beyond) + 1)
        low, high = np.interp([0.1, 0.9], ranks, beyond)
    return Total(max(float(low), done), likely, max(float(high), likely), Source.HISTORY)
