"""What no cell of a table may exceed: a figure beyond it is a slip or a wrong unit.

All of them are far above what anybody has measured, and low enough that sums and products of a
replay stay numbers, whole ones exact.
"""

from typing import Final

MOST_SECONDS: Final = 1e10
"""Three centuries, as a length and since any beginning; times that large are exact to 2 µs."""

MOST_AMOUNT: Final = 1e15
"""Of whatever is counted in a column: more samples than anybody trains on."""

MOST_COUNT: Final = 1e9
"""Of whole numbers: rounds, retries, ranks of priority fit into 32 bits."""

MOST_GPUS: Final = 100_000
"""Of one job, and in one degree of its plan."""

MOST_GPU_GIB: Final = 100_000.0
"""Memory of one GPU."""

LEAST_SPEED: Final = 1e-9
MOST_SPEED: Final = 1e12
"""Samples per second, or how many times as fast as another GPU."""
