"""A script that adds a parameter group and sets rates by the step's number, in a real job.

The step that adds the group is made twice, because a worker dies in it; a worker joins later; the
job is drained, and the same command resumes it.
"""

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from tests.train.driving import driven
from tests.train.lines import finals

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

JOB = """
import json, os, signal, time
from pathlib import Path
import torch, weft
from torch import nn

folder, worker = Path(os.environ["WEFT_TEST_OUT"]), os.environ["WEFT_WORKER"]
log = (folder / f"steps-{worker}.jsonl").open("a", buffering=1)
torch.set_default_dtype(torch.float64)
x = torch.randn(60, 4, generator=torch.Generator().manual_seed(1))
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
_, opt = weft.prepare(model, lambda _: torch.optim.AdamW(model[2].parameters(), 1e-2))
for mb in weft.steps(weft.loader(x, 12, shuffle=False), total=200):
    if mb.step == 5:
        opt.add_param_group({"params": model[0].parameters(), "weight_decay": 0.1})
        if worker == "1":
            os.kill(os.getpid(), signal.SIGKILL)
    for group in opt.param_groups:
        group["lr"] = 1e-2 / (1 + mb.step % 7)
    weft.backward(model(mb.x).square().mean())
    opt.step()
    if weft.stepped() and not mb.warmup:
        log.write(json.dumps({"step": mb.step, "stepped": True}) + "\\n")
        time.sleep(0 if (folder / "hurry").exists() else 0.2)
weights = torch.cat([one.detach().flatten() for one in model.parameters()]).tolist()
log.write(json.dumps({"final": True, "weights": weights}) + "\\n")
"""


def in_plain_pytorch() -> Tensor:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(60, 4, generator=generator, dtype=torch.float64)
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
    torch.set_default_dtype(default)
    opt = torch.optim.AdamW(model[2].parameters(), 1e-2)
    for step in range(200):
        if step == 5:
            opt.add_param_group({"params": model[0].parameters(), "weight_decay": 0.1})
        for group in opt.param_groups:
            group["lr"] = 1e-2 / (1 + step % 7)
        model.zero_grad()
        model(x[[(12 * step + row) % 60 for row in range(12)]]).square().mean().backward()
        opt.step()
    return torch.cat([one.detach().flatten() for one in model.parameters()])


def test_groups_and_rates_survive_a_loss_a_join_and_a_drain(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(JOB)
    agent = ("-n", "2", "--checkpoints", str(tmp_path / "kept"))
    with driven(tmp_path, str(script), agent=agent) as job:
        epoch = job.steady(1)["epoch"]
        job.steady(2, after=epoch)
        job.reached(job.newest_step + 3)
        job.order("drain")
        assert job.wait() == 143, job.logs()
        assert len(job.named("halted")) == 1, "the join has worked at once"
    (tmp_path / "hurry").touch()
    with driven(tmp_path, str(script), agent=agent) as job:
        assert job.wait() == 0, job.logs()
    found = [line["weights"] for line in finals(job.lines())]
    assert len(found) == 2
    for weights in found:
        torch.testing.assert_close(
            torch.tensor(weights, dtype=torch.float64), in_plain_pytorch(), rtol=1e-12, atol=1e-14
        )


def test_a_newcomer_whose_program_does_not_fit_does_not_halt_the_job(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(JOB.replace("nn.Linear(4, 2)", "nn.Linear(4, 2 + int(worker))"))
    with driven(tmp_path, str(script), agent=("-n", "1")) as job:
        job.reached(5)
        job.order("resize 2")
        why = job.until(lambda event: event["event"] == "not built")["why"]
        assert "of worker 1 is not that of worker 0" in why, json.dumps(why)
        (tmp_path / "hurry").touch()
        assert job.wait() == 0, job.logs()
        assert not job.named("halted")
