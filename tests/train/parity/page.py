"""The table as a document, from the rows that the tests go through."""

from pathlib import Path
from typing import Final

from tests.train.parity.feature import BATCH, SHORT, STEPS, Feature
from tests.train.parity.features import FEATURES, ODD_SUMS, RESIZED, RESIZED_BY_DDP

PATH: Final = Path(__file__).resolve().parents[3] / "docs" / "parity.md"

HEAD: Final = """
# What people write in PyTorch, and what it comes to

Each row is a small program, run as plain PyTorch over whole batches in one process, and as a
script with Weft's five lines. *Equal* means that everything the program has learnt in the end
(parameters, buffers, averages, learning rates) is that of plain PyTorch to a millionth of each
tensor's largest number, and to the last bit the same on all workers. Programs compute in double
precision, so that this tells; rows about other types say how far they may be apart. What cannot be
equal is refused at once with what to write instead, or stands here with its reason.

- **1 worker**: without any agent, as on a laptop.

- **3 workers**: three processes share batches of {batch}: 4, 3 and 3 samples; {steps} steps.

- **resized**: one worker, then three; one of them is killed and replaced; then two. This is run
for one row of each kind of state, samples, sums and loops; the cells of other rows are empty.

- **by ddp**: the same three with `weft.prepare(..., communication="ddp")`, where torch's own
`DistributedDataParallel` sums the gradients; {short} steps, alone where sums are odd, and *resized*
for some of these.

- **DDP**: `DistributedDataParallel` on three processes over gloo, without changes to the program
and with `find_unused_parameters`, with batches of 9, because its shares must be even.

Tests in `tests/train/parity` go through all rows on every run and check this page.
"""

TAIL: Final = """
*Refused* rows raise `SpecError` with a hint, at `weft.prepare` or in the first step, at every
width; the job ends with exit code 1. An exception of the script itself comes out as it is, with the
same exit code.

Batch norm and losses that compare samples see a micro-batch, and dropout draws other masks where
the batch is cut otherwise. DDP *differs* where a mean over tokens is a mean of means, where each
process follows its own loss or keeps buffers of its own, and for parameters that are no part of the
wrapped module. Scripts can work around most of that by hand. What Weft refuses was not tried there.
"""


def page() -> str:
    """The whole document."""
    columns = ("1 worker", "3 workers", "resized", "by ddp: 1", "3", "resized", "DDP")
    names = f"| | {' | '.join(columns)} |\n|{'---|' * (len(columns) + 1)}"
    rows = "\n".join(_row(feature) for feature in FEATURES)
    head = _flowing(HEAD.format(batch=BATCH, steps=STEPS, short=SHORT))
    return f"{head}\n\n{names}\n{rows}\n\n{_flowing(TAIL)}\n"


def _flowing(text: str) -> str:
    """A paragraph is one line in a document; a list has no empty lines."""
    paragraphs = [" ".join(part.split()) for part in text.strip().split("\n\n")]
    return "\n\n".join(paragraphs).replace("\n\n- ", "\n- ").replace("reason.\n-", "reason.\n\n-")


def _row(feature: Feature) -> str:
    ddp = "" if feature.refused else feature.ddp
    alone, three, resized = _cells(feature)
    by_weft = by_ddp = (alone, three, resized)
    if not (feature.refused or feature.differs):
        by_weft = (alone, three, resized if feature.name in RESIZED else "")
        odd, changed = feature.name in ODD_SUMS, feature.name in RESIZED_BY_DDP
        by_ddp = (alone if odd else "", three, resized if changed else "")
    return f"| {feature.what} | " + " | ".join((*by_weft, *by_ddp, ddp)) + " |"


def _cells(feature: Feature) -> tuple[str, str, str]:
    if feature.name == "error":
        return ("raised",) * 3
    if feature.refused:
        return ("refused",) * 3
    if feature.differs:
        alone = "equal" if feature.name != "dropout" else "other masks"
        return alone, feature.differs, feature.differs
    equal = "equal" if feature.tolerance <= 1e-6 else f"equal to {feature.tolerance:g}"
    return (equal,) * 3
