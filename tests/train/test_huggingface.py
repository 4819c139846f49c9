"""An elastic Trainer counts, learns and refuses as it should, whatever happens to its workers."""

import re
import signal
from pathlib import Path

import pytest

from tests.train import cradle
from tests.train.alone import run_alone
from tests.train.driving import Driven, driven
from weft.train.drive import be_alone, first_at_the_start


@pytest.fixture(autouse=True)
def _imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork from a process that has imported these already."""
    monkeypatch.setattr(cradle, "imported", ("transformers.trainer", "transformers.models.gpt2"))


ROOT = Path(__file__).resolve().parents[2]

JOB = """
import json, os, sys, time
from pathlib import Path

import torch
from torch import nn

from weft.train.api import current
from weft.train.huggingface import ElasticTrainer
from transformers import TrainerCallback, TrainingArguments

out = Path(os.environ.get("WEFT_TEST_OUT", "."))
worker = os.environ.get("WEFT_WORKER", "alone")
log = (out / f"steps-{worker}.jsonl").open("a", buffering=1)
hurry = out / "hurry" if "WEFT_SOCKET" in os.environ else out


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))

    def forward(self, x, labels):
        found = self.net(x)
        return {"loss": nn.functional.mse_loss(found, labels), "found": found}


class Told(TrainerCallback):
    def on_step_end(self, args, state, control, **_):
        line = {
            "worker": worker,
            "step": state.global_step - 1,
            "stepped": True,
            "committed": current().committed,
            "epoch": state.epoch,
            "rate": trainer._get_learning_rate(),
            "first": state.is_world_process_zero,
            "width": current().width,
        }
        log.write(json.dumps(line) + "\\n")
        if not hurry.exists():
            time.sleep(0.2)


x = torch.randn(160, 8, generator=torch.Generator().manual_seed(1))
y = x.sum(1, keepdim=True).sin()
data = [{"x": one, "labels": two} for one, two in zip(x, y)]
total, micro = int(sys.argv[1]), int(sys.argv[2])
trainer = ElasticTrainer(
    model=Net(),
    args=TrainingArguments(
        output_dir=str(out),
        max_steps=total,
        per_device_train_batch_size=micro,
        learning_rate=1e-2,
        max_grad_norm=1.0,
        logging_steps=50,
        disable_tqdm=True,
        dataloader_pin_memory=False,
        report_to=[],
    ),
    train_dataset=data,
    global_batch=16,
    callbacks=[Told()],
)
output = trainer.train()
with torch.no_grad():
    loss = nn.functional.mse_loss(trainer.model.net(x), y)
print(f"loss {loss:.6f} after {trainer.state.global_step}", flush=True)
trainer.save_model(str(out / f"model-{worker}"))
"""

REFUSED = """
import sys, tempfile
from torch import nn
from weft.model.errors import SpecError
from weft.train.huggingface import ElasticTrainer
from transformers import TrainingArguments

def attempt(**arguments):
    args = TrainingArguments(output_dir=tempfile.gettempdir(), report_to=[], **arguments)
    return ElasticTrainer(model=nn.Linear(1, 1), args=args, train_dataset=[])

for arguments in ({"gradient_accumulation_steps": 4}, {"auto_find_batch_size": True}):
    try:
        attempt(**arguments)
    except SpecError as error:
        print(f"{error} | {error.hint}")
trainer = attempt()
print("saves", trainer.args.save_strategy.value)
try:
    trainer.train(resume_from_checkpoint=True)
except SpecError as error:
    print(f"{error} | {error.hint}")
"""

TOKENS = """
import sys, tempfile
import torch
from torch import nn
from weft.train.huggingface import ElasticTrainer
from transformers import TrainingArguments

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.scores = nn.Embedding(11, 11)

    def forward(self, words, labels, num_items_in_batch=None, **kwargs):
        rows, wanted = self.scores(words).flatten(0, 1), labels.flatten()
        loss = nn.functional.cross_entropy(rows, wanted, reduction="sum")
        return {"loss": loss / (num_items_in_batch or wanted.ne(-100).sum())}

def sentence(number):
    drawn = torch.Generator().manual_seed(number)
    words, labels = torch.randint(11, (2, 32), generator=drawn)
    labels[number * 7 % 29 + 1:] = -100
    return {"words": words, "labels": labels}

args = TrainingArguments(output_dir=tempfile.gettempdir(), max_steps=12, learning_rate=0.1,
    per_device_train_batch_size=int(sys.argv[1]), disable_tqdm=True, report_to=[],
    dataloader_pin_memory=False, optim="sgd", max_grad_norm=0)
data = [sentence(number) for number in range(48)]
trainer = ElasticTrainer(model=Net(), args=args, train_dataset=data, global_batch=8)
trainer.train()
print("weights", *(f"{value:.5f}" for value in trainer.model.scores.weight[:, 0].tolist()))
"""


def script(folder: Path) -> str:
    path = folder / "trainer.py"
    path.write_text(JOB)
    return str(path)


def alone(folder: Path, program: str, *options: str) -> str:
    """What a program prints without any agent; it leaves its files in the folder."""
    done = run_alone(Path(program), *options, folder=folder)
    assert done.code == 0, done.complaints
    return done.out


def loss_in(text: str) -> float:
    found = re.search(r"^loss ([0-9.]+) after", text, re.MULTILINE)
    assert found, text
    return float(found[1])


def log_of(job: Driven, worker: int) -> str:
    return (job.folder / "run" / "logs" / f"worker-{worker}.log").read_text()


def test_torchrun_is_forgotten_only_where_an_agent_is() -> None:
    torchrun = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "a", "PET_NNODES": "1"}
    told = {**torchrun, "TORCHELASTIC_RUN_ID": "job", "HOME": "/root"}
    be_alone(untouched := dict(told))
    assert untouched == told
    be_alone(cleared := {**told, "WEFT_SOCKET": "/s", "WEFT_WORKER": "3"})
    assert cleared == {"HOME": "/root", "WEFT_SOCKET": "/s", "WEFT_WORKER": "3"}
    assert first_at_the_start(told)
    assert not first_at_the_start(cleared)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_what_cannot_be_honoured_is_refused_with_a_hint(tmp_path: Path) -> None:
    program = tmp_path / "refused.py"
    program.write_text(REFUSED)
    said = alone(tmp_path, str(program)).splitlines()
    assert re.match(r"gradient_accumulation_steps is 4 \| write global_batch=", said[0])
    assert (
        said[1] == "auto_find_batch_size cannot be used with Weft | leave auto_find_batch_size out"
    )
    assert said[2] == "saves no"
    assert "Weft resumes by itself" in said[3]


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_tokens_weigh_alike_however_the_batch_is_cut(tmp_path: Path) -> None:
    program = tmp_path / "tokens.py"
    program.write_text(TOKENS)
    whole, cut = (alone(tmp_path, str(program), micro).splitlines()[-1] for micro in ("8", "3"))
    assert whole.startswith("weights ")
    assert cut == whole


@pytest.mark.slow
@pytest.mark.timeout(240)
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

    lines = job.lines()
    assert {line["worker"] for line in lines} == {"0", "1", "2"}
    for worker in ("0", "1", "2"):
        mine = [line for line in lines if line["worker"] == worker]
        steps = [line["step"] for line in mine]
        assert steps == list(range(steps[0], steps[-1] + 1)), f"worker {worker} left out a step"
        assert all(line["committed"] == line["step"] for line in mine)
        assert all(line["epoch"] == pytest.approx((line["step"] + 1) / 10) for line in mine)
        assert mine[-1]["step"] == total - 1 or worker == "0"
    rates = {
        line["step"]: {one["rate"] for one in lines if one["step"] == line["step"]}
        for line in lines
    }
    assert all(len(seen) == 1 for seen in rates.values()), "workers stepped at different rates"
    assert all(sum(one["first"] for one in lines if one["step"] == step) <= 1 for step in rates)

    undisturbed = loss_in(alone(tmp_path / "alone", script(tmp_path), str(total), "16"))
    assert loss_in(log_of(job, 1)) == loss_in(log_of(job, 2))
    assert loss_in(log_of(job, 1)) == pytest.approx(undisturbed, rel=1e-2)
    assert "'loss'" in log_of(job, 1)
    assert "'loss'" not in log_of(job, 2), "only the first worker logs"
    assert (tmp_path / "model-1").exists()
    assert not (tmp_path / "model-2").exists()


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_drained_trainer_goes_on_where_it_stopped(tmp_path: Path) -> None:
    kept = ("--checkpoints", str(tmp_path / "kept"))
    with driven(tmp_path, script(tmp_path), "200", "16", agent=("-n", "1", *kept)) as job:
        job.reached(20)
        job.signal(signal.SIGTERM)
        assert job.wait() == 143, job.logs()
    last = job.newest_step
    again = tmp_path / "again"
    agent = ("-n", "1", "--incarnation", "2", *kept)
    with driven(again, script(tmp_path), "200", "16", agent=agent) as job:
        (again / "hurry").touch()
        assert job.wait() == 0, job.logs()
    steps = [line["step"] for line in job.lines()]
    assert steps == list(range(last + 1, 200))
    nothing_left = tmp_path / "nothing-left"
    agent = ("-n", "1", "--incarnation", "3", *kept)
    with driven(nothing_left, script(tmp_path), "200", "16", agent=agent) as over:
        assert over.wait() == 0, over.logs()
    assert loss_in(log_of(over, 0)) == loss_in(log_of(job, 0))
    undisturbed = loss_in(alone(tmp_path / "alone", script(tmp_path), "200", "16"))
    assert loss_in(log_of(job, 0)) == pytest.approx(undisturbed, rel=1e-3)
