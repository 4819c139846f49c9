"""A language model that has a plan of its own for each number of GPUs, for tests in every world.

One GPU holds it whole. On two of a node, which have more to send than to compute, its tensors are
split; three cannot split them, and share out the parameters; four do both. Where a node has an odd
number of GPUs tensors are not split in two at all, and two of them are two stages. So jobs that
come and go, and a GPU more or less, take it through all of them by decisions alone.
"""

from typing import Final

from tests import language_model
from weft.spec.model_claims import ModelClaims

BATCH: Final = 12
SAMPLES: Final = 240
MOST_GPUS: Final = 4
MODEL: Final = {**language_model.MODEL, "sequence": 112, "heads": 2, "batch": BATCH}
CLAIMS: Final = ModelClaims.model_validate(MODEL)
WHOLE: Final = (1, "replicated")
SPLIT: Final = (2, "tensor=2")
SHARED: Final = (3, "shard=3")
BOTH: Final = (4, "shard=2,tensor=2")
STAGES: Final = (2, "pipeline=2,micro_batches=12")
CYCLE: Final = (WHOLE, SPLIT, SHARED, BOTH, STAGES, WHOLE)
FORETOLD_SECONDS: Final = {WHOLE: 0.414, SPLIT: 0.184, SHARED: 0.304, BOTH: 0.160, STAGES: 0.191}
"""Of a step, on GPUs of a node: what such a step is made to take, so that forecasts come true."""

SHAPE: Final = (f"--batch={BATCH}", f"--samples={SAMPLES}", "--heads=2")
PACES: Final = tuple(f"{plan}:{seconds}" for (_, plan), seconds in FORETOLD_SECONDS.items())
WORDS: Final = (*SHAPE, "--pace", *PACES)
"""The same for a script."""
