"""What a caller adds to a file that does not say everything."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """`durations`: seconds by model where a file has none; `throughputs`: steps/s by job type."""

    durations: Mapping[str, float] = field(default_factory=dict)
    throughputs: Path | None = None
