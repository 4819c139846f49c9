"""A worker that goes through plans, run as a program by the test of plans.

    plan_cycle.py <rank> <world> <folder> <plan> <plan> …

Under each plan it builds the model anew from other numbers, loads what the workers of the plan
before have saved, says what the whole state is, trains two steps, and saves. All of it happens in
one process group, and `<folder>/<number>-<rank>.json` tells the digest of every tensor.
"""

import json
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from examples.plans import Block, Decoder, Windows, by_stages, by_tensors, loss_of
from weft.agent.plan import parse_plan
from weft.train.plans.applied import applied
from weft.train.plans.computed import compute
from weft.train.plans.hooks import hooks_of
from weft.train.state.book import StateBook
from weft.train.state.snapshot import Snapshots, load

BATCH = 8


def held(book: StateBook) -> dict[str, str]:
    """The digest of each tensor as a whole, of those that this worker has a part in."""
    found = {}
    for name, tensor in book._live(book._named(), book._objects()).items():
        whole: Any = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
        data = whole.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        found[name] = sha256(data).hexdigest()
    return found


def main(rank: int, world: int, folder: Path, plans: list[str]) -> None:
    meeting = f"file://{folder}/meeting"
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=world)
    hooks = hooks_of({"tensor": by_tensors, "pipeline": by_stages}, loss_of, Block)
    text, before = Windows(Path(__file__).read_bytes(), 16), None
    for number, told in enumerate(plans):
        plan = parse_plan(told)
        torch.manual_seed(number)
        made = applied(Decoder(16, 2, 4, 16), plan, hooks)
        optimizer = torch.optim.AdamW(made.model.parameters(), 1e-2)
        book = StateBook(made.model, optimizer, elsewhere=made.elsewhere)
        if before is not None:
            load(book, [folder / f"plan-{number - 1}" / name for name in before])
        (folder / f"{number}-begun-{rank}.json").write_text(json.dumps(held(book)))
        for step in range(2 * number, 2 * number + 2):
            share, ways = BATCH // plan.shard, plan.reader(rank % plan.unit)
            start = step * BATCH + ways * share
            batch = [text[index] for index in range(start, start + share)]
            loss = made.model(*(torch.stack(part) for part in zip(*batch, strict=True)))
            compute(loss, 1.0, torch.Tensor.backward)
            optimizer.step()
            optimizer.zero_grad()
        (folder / f"{number}-ended-{rank}.json").write_text(json.dumps(held(book)))
        (slots := folder / f"plan-{number}").mkdir(exist_ok=True)
        taken = Snapshots(slots, rank, book, job="job").take(2 * number + 1, 0)
        assert taken is not None
        names: list[Any] = [None] * world
        dist.all_gather_object(names, taken.path.name)
        before = names[: plan.unit]
        (folder / f"loss-{number}-{rank}").write_text(str(loss.item()))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:])
