"""How fast a group of ranks sums tensors: `python -m weft.train.bandwidth gloo`, once per rank.

Ranks meet as torch has it, by variables of their environment. The rate is that of the algorithm:
bytes of the tensor by the time of a sum, the best of several.
"""

import json
import sys
import time
from datetime import timedelta

import torch
from torch import distributed

BYTES = 16 << 20
TIMES = 5
LIMIT = timedelta(seconds=30)


def main() -> None:
    backend = sys.argv[1] if len(sys.argv) > 1 else "gloo"
    distributed.init_process_group(backend, timeout=LIMIT)
    device = torch.device("cuda" if backend == "nccl" else "cpu")
    rank, width = distributed.get_rank(), distributed.get_world_size()
    tensor = torch.full((BYTES // 4,), float(rank + 1), device=device)
    expected = float(width * (width + 1) // 2)
    best = min(_timed(tensor, rank, expected) for _ in range(TIMES))
    distributed.destroy_process_group()
    sys.stdout.write(json.dumps({"gb_per_second": BYTES / 1e9 / best}) + "\n")


def _timed(tensor: torch.Tensor, rank: int, expected: float) -> float:
    """Seconds of one sum; one that is wrong ends it all."""
    tensor.fill_(float(rank + 1))
    distributed.barrier()
    began = time.perf_counter()
    distributed.all_reduce(tensor)
    if tensor.device.type == "cuda":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - began
    if not bool((tensor == expected).all()):
        raise ValueError("the sum is wrong")
    return max(seconds, 1e-9)


if __name__ == "__main__":
    main()
