"""One pod's writer, on a store that lets each connection have so many bytes in a second.

    writer.py FOLDER SLOTS PART PARTS RATE --features N

It trains one step, takes its part of the state into shared memory, says `ready` with the seconds
that this took, and writes when it is told to (a line on its standard input).
"""

import json
import threading
import time
from pathlib import Path

import torch

from benchmarks.runtime.jobs.work import LEARNING_RATE, Table, loss_of, network, parser
from weft.agent.checkpoint import beneath
from weft.agent.checkpoint.seat_writers import written
from weft.agent.checkpoint.vault import Vault
from weft.agent.messages import Keep
from weft.train.state.book import StateBook
from weft.train.state.snapshot import Snapshots

JOB = "bench"

options_of = parser()
options_of.add_argument("folder", type=Path)
options_of.add_argument("slots", type=Path)
options_of.add_argument("part", type=int)
options_of.add_argument("parts", type=int)
options_of.add_argument("rate", type=float)
options = options_of.parse_args()

connection, write_at_once = threading.Lock(), beneath.write_from


def write_slowly(descriptor: int, view: memoryview | bytes, at: int) -> None:
    """One after the other, as through one connection."""
    with connection:
        began = time.monotonic()
        write_at_once(descriptor, view, at)
        time.sleep(max(began + len(view) / options.rate - time.monotonic(), 0.0))


torch.set_num_threads(1)
table = Table(options.batch, options.features)
model = network(options.features)
opt = torch.optim.AdamW(model.parameters(), LEARNING_RATE)
loss_of(model, table.x, table.y).backward()  # type: ignore[no-untyped-call]
opt.step()
part = options.part, options.parts
book = StateBook(model, opt)
snapshots = Snapshots(options.slots, options.part, book, job=JOB, incarnation=1)
snapshots.prepare(part)
snapshots.take(0, 0, part=part)
taken = snapshots.take(1, 1, part=part)
assert taken is not None
print(json.dumps({"blocked": taken.seconds, "bytes": taken.bytes}), flush=True)

input()
beneath.write_from = write_slowly
vault = Vault(options.folder, JOB, 1)
places = {str(options.part): str(taken.path)}
whole = written(vault, Keep(1, 1, places, options.parts, {}, False, ()))
print(json.dumps({"whole": whole, "at": time.monotonic()}), flush=True)
