"""A script that knows nothing of Weft: it finds its place as torchrun would have told it."""

import os
import sys
import time

TOLD = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK")
MEETING = ("MASTER_ADDR", "MASTER_PORT")
KUBEFLOW = ("PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR")
SOUGHT = (*TOLD, *MEETING, *KUBEFLOW, "WEFT_GPUS")

print({name: os.environ[name] for name in SOUGHT if name in os.environ})  # noqa: T201
time.sleep(float(sys.argv[1]) if len(sys.argv) > 1 else 0.0)
sys.exit(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
