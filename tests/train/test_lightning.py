"""A Lightning Trainer counts, validates and learns alike on all workers, come what may."""

import re
import signal
from pathlib import Path

import pytest

from tests.train import cradle
from tests.train.alone import run_alone
from tests.train.driving import Driven, driven

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture(autouse=True)
def _imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork from a process that has imported these already."""
    monkeypatch.setattr(cradle, "imported", ("lightning.pytorch",))


ROOT = Path(__file__).resolve().parents[2]

JOB = """
import json, os, sys, time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from weft.train.api import current
from weft.train.lightning import ElasticLoader, ElasticStrategy
from lightning.pytorch import LightningModule, Trainer

out = Path(os.environ.get("WEFT_TEST_OUT", "."))
worker = os.environ.get("WEFT_WORKER", "alone")
log = (out / f"steps-{worker}.jsonl").open("a", buffering=1)
hurry = out / "hurry" if "WEFT_SOCKET" in os.environ else out


def tell(**facts):
    log.write(json.dumps({"worker": worker, **facts}) + "\\n")


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))

    def training_step(self, batch, index):
        loss = nn.functional.mse_loss(self.net(batch[0]), batch[1])
        self.log("loss", loss, on_epoch=True)
        return loss

    def on_train_batch_end(self, output, batch, index):
        rate = self.optimizers().param_groups[0]["lr"]
        tell(
            step=self.trainer.global_step - 1,
            stepped=True,
            committed=current().committed,
            epoch=self.trainer.current_epoch,
            rate=rate,
            first=self.trainer.is_global_zero,
        )
        if not hurry.exists():
            time.sleep(0.2)

    def validation_step(self, batch, index):
        self.log("validated", nn.functional.mse_loss(self.net(batch[0]), batch[1]))

    def on_validation_epoch_end(self):
        if not self.trainer.sanity_checking:
            tell(validated=self.trainer.global_step, epoch=self.trainer.current_epoch)

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), 1e-2)
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.998)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "interval": "step"},
        }


x = torch.randn(160, 8, generator=torch.Generator().manual_seed(1))
y = x.sum(1, keepdim=True).sin()
data = TensorDataset(x, y)
trainer = Trainer(
    max_steps=int(sys.argv[1]),
    strategy=ElasticStrategy(),
    accelerator="cpu",
    gradient_clip_val=1.0,
    enable_checkpointing=len(sys.argv) > 3,
    enable_progress_bar=False,
    enable_model_summary=False,
    logger=False,
)
net = Net()
trainer.fit(net, ElasticLoader(data, 16, micro=int(sys.argv[2])), DataLoader(data, 32))
with torch.no_grad():
    print(f"loss {nn.functional.mse_loss(net.net(x), y):.6f} after {trainer.global_step}")
"""


def script(folder: Path) -> str:
    path = folder / "fit.py"
    path.write_text(JOB)
    return str(path)


def loss_in(text: str) -> float:
    found = re.search(r"^loss ([0-9.]+) after", text, re.MULTILINE)
    assert found, text
    return float(found[1])


def log_of(job: Driven, worker: int) -> str:
    return (job.folder / "run" / "logs" / f"worker-{worker}.log").read_text()


def test_checkpoints_of_lightnings_own_are_refused(tmp_path: Path) -> None:
    done = run_alone(Path(script(tmp_path)), "10", "16", "with checkpoints", folder=tmp_path)
    assert done.code == 1
    assert "Lightning would write or load checkpoints of its own" in done.complaints


def test_a_trainer_is_resized_and_loses_a_worker(tmp_path: Path) -> None:
    """1 → 2 by an order, 2 → 1 by a loss, 1 → 2 by the agent that makes up for it."""
    total = 250
    with driven(tmp_path, script(tmp_path), str(total), "5", agent=("-n", "1")) as job:
        job.reached(5)
        job.order("resize 2")
        grown = job.steady(2)["epoch"]
        job.reached(job.newest_step + 5)
        job.signal(signal.SIGKILL, worker=0)
        job.steady(2, after=grown)
        (tmp_path / "hurry").touch()
        assert job.wait(120) == 0, job.logs()

    lines = [line for line in job.lines() if "step" in line]
    validated = [line for line in job.lines() if "validated" in line]
    for worker in ("0", "1", "2"):
        mine = [line for line in lines if line["worker"] == worker]
        steps = [line["step"] for line in mine]
        assert steps == list(range(steps[0], steps[-1] + 1)), f"worker {worker} left out a step"
        assert all(line["committed"] == line["step"] for line in mine)
        assert all(line["epoch"] == line["step"] // 10 for line in mine)
        seen = [line["validated"] for line in validated if line["worker"] == worker]
        assert seen == [step + 1 for step in steps if (step + 1) % 10 == 0], (
            "not all validate alike"
        )
    rates = {
        step: {line["rate"] for line in lines if line["step"] == step} for step in range(total)
    }
    assert all(len(found) == 1 for found in rates.values()), "workers stepped at different rates"

    done = run_alone(Path(script(tmp_path)), str(total), "16", folder=tmp_path / "alone")
    assert done.code == 0, done.complaints
    assert loss_in(log_of(job, 1)) == loss_in(log_of(job, 2))
    assert loss_in(log_of(job, 1)) == pytest.approx(loss_in(done.out), rel=1e-2)
