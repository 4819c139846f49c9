"""Real training that is stopped for others, or for good: nothing is lost, however seldom it saves.

Nobody says how often it saves, so it does so as advised: for the first time after a minute, which
these tests do not last. What is saved was saved because somebody asked for it.
"""

import sys
from pathlib import Path
from typing import Final

import pytest

from tests.local.daemons import Lab, a_lab, wait_until
from tests.local.test_failures import weft
from weft.api.backend import Farewell
from weft.local.agents.launch import AGENT
from weft.view.logs import Which

ROOT: Final = Path(__file__).parents[2]
ENOUGH_STEPS: Final = 5
TRAINS: Final = """
import time, torch, weft
from torch import nn
data = torch.utils.data.TensorDataset(torch.zeros(64, 1))
model, opt = weft.prepare(nn.Linear(1, 1), lambda p: torch.optim.SGD(p, lr=0.1))
loader = weft.loader(data, global_batch=4)
for number, (x,) in enumerate(weft.steps(loader, total=100_000)):
    weft.backward(model(x).sum())
    opt.step()
    opt.zero_grad()
    if weft.stepped() and weft.first():
        print("step", weft.train.api.current().committed, flush=True)
    time.sleep(0.05)
"""


def train(lab: Lab) -> None:
    script = lab.folder / "train.py"
    script.write_text(TRAINS)
    words = f"{sys.executable} {script}"
    env = {"PYTHONPATH": str(ROOT / "src")}
    lab.submit("trains", words, gpus=2, nproc_per_node="gpu", env=env)
    wait_until(lambda: len(steps(lab, 1)) > ENOUGH_STEPS, "its first steps", lab.log)


def steps(lab: Lab, epoch: int) -> list[int]:
    if lab.entry("trains").epoch < epoch:
        return []
    lines = (line.text.decode() for line in lab.client.logs("trains", Which(epoch=epoch)))
    return [int(line.split()[1]) for line in lines if line.startswith("step ")]


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_who_is_preempted_saves_first_and_goes_on_where_it_stood() -> None:
    with a_lab(slots=2, agent=AGENT) as lab:
        lab.start()
        train(lab)
        wait_until(lambda: "saves every 1m" in weft(lab, "show", "trains"), "its word", lab.log)
        assert lab.entry("trains").progress.saved_step is None
        lab.submit("urgent", "sleep 1000", gpus=2, priority=10, grace="1s")
        lab.wait_for("urgent", "Running")
        saved = lab.entry("trains").progress.saved_step
        assert saved is not None and saved >= max(steps(lab, 1))
        lab.client.cancel("urgent")
        wait_until(lambda: bool(steps(lab, 2)), "it to go on", lab.log)
        assert min(steps(lab, 2)) == saved + 1, "no step is lost, and none is done twice"
        assert lab.entry("trains").past.failures == 0


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_machine_that_is_given_back_lets_its_jobs_save() -> None:
    with a_lab(slots=2, agent=AGENT) as lab:
        lab.start()
        train(lab)
        lab.down(Farewell.DRAIN)
        saved = lab.entry("trains").progress.saved_step
        assert saved is not None
        lab.start()
        wait_until(lambda: bool(steps(lab, 2)), "it to go on", lab.log)
        assert (min(steps(lab, 2)), max(steps(lab, 1)) <= saved) == (saved + 1, True)
