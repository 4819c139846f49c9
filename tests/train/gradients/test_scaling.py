"""A GradScaler decides alike on all workers, whichever of them has overflowed."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.amp.grad_scaler import GradScaler
from torch.optim import SGD, AdamW

from tests.train.driving import driven
from tests.train.lines import finals
from weft.model.errors import SpecError
from weft.train import api

JOB = """
import json, os, sys, time
from pathlib import Path
import torch, weft
from torch import nn
from weft.train.api import current

folder, worker = Path(os.environ["WEFT_TEST_OUT"]), os.environ["WEFT_WORKER"]
log = (folder / f"steps-{worker}.jsonl").open("a", buffering=1)
x = torch.randn(64, 4, generator=torch.Generator().manual_seed(1))
torch.manual_seed(0)
model, opt = weft.prepare(nn.Linear(4, 4), lambda p: torch.optim.AdamW(p, 1e-2))
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=4)
weft.state(scaler=scaler)
for mb in weft.steps(weft.loader(x, 12, micro=3), total=60):
    loss = model(mb.x).square().mean()
    if mb.step % 7 == 3 and 5 in mb.ids[:1] + mb.ids[-1:]:
        loss = loss * float("inf")
    weft.backward(scaler.scale(loss))
    scaler.unscale_(opt)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(opt)
    scaler.update()
    if weft.stepped() and not mb.warmup:
        line = {"step": current().committed, "stepped": True, "scale": scaler.get_scale()}
        log.write(json.dumps(line) + "\\n")
        if not (folder / "hurry").exists():
            time.sleep(0.1)
weights = model.weight.flatten().tolist()
log.write(json.dumps({"final": True, "weights": weights, "scale": scaler.get_scale()}) + "\\n")
"""


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_across_resizes_and_a_loss(tmp_path: Path) -> None:
    script = tmp_path / "scaled.py"
    script.write_text(JOB)
    with driven(tmp_path, str(script), agent=("-n", "1")) as job:
        job.reached(8)
        job.order("resize 3")
        epoch = job.steady(3)["epoch"]
        job.reached(job.newest_step + 9)
        job.signal(signal.SIGKILL, worker=0)
        job.steady(3, after=epoch)
        (tmp_path / "hurry").touch()
        assert job.wait() == 0, job.logs()
    scales: dict[int, set[float]] = {}
    for line in job.lines():
        if line.get("stepped"):
            scales.setdefault(line["step"], set()).add(line["scale"])
    assert sorted(scales) == list(range(60))
    assert all(len(seen) == 1 for seen in scales.values()), scales
    ends = finals(job.lines())
    assert len({json.dumps(end["weights"]) for end in ends}) == 1
    assert all(torch.tensor(end["weights"]).isfinite().all() for end in ends)


def run(make: Any, *, micro: int | None, known: bool = True) -> tuple[nn.Module, GradScaler]:  # noqa: ANN401
    torch.manual_seed(0)
    model, opt = api.prepare(nn.Linear(4, 4), make)
    scaler = GradScaler("cpu", init_scale=1024.0, growth_interval=2)
    if known:
        api.state(scaler=scaler)
    for mb in api.steps(api.loader(torch.ones(32, 4), 4, micro=micro, shuffle=False), total=8):
        loss = model(mb.x).square().mean()
        if mb.step == 3 and mb.last:
            loss = loss * float("inf")
        api.backward(scaler.scale(loss))
        scaler.step(opt)
        scaler.update()
    return model, scaler


def plain(make: Any) -> tuple[nn.Module, GradScaler]:  # noqa: ANN401
    torch.manual_seed(0)
    model = nn.Linear(4, 4)
    opt = make(model.parameters())
    scaler = GradScaler("cpu", init_scale=1024.0, growth_interval=2)
    for step in range(8):
        loss = model(torch.ones(4, 4)).square().mean()
        scaler.scale(loss * float("inf") if step == 3 else loss).backward()
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()
    return model, scaler


@pytest.mark.parametrize("micro", [None, 1])
@pytest.mark.parametrize(
    "make", [lambda p: SGD(p, 0.1), lambda p: AdamW(p, 0.1, fused=True)], ids=["sgd", "fused"]
)
def test_as_in_plain_pytorch(make: Any, micro: int | None) -> None:  # noqa: ANN401
    found, scaler = run(make, micro=micro)
    expected, theirs = plain(make)
    assert scaler.state_dict() == theirs.state_dict()
    for one, other in zip(found.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_a_scaler_that_nobody_knows_is_refused() -> None:
    with pytest.raises(SpecError, match="does not know the GradScaler"):
        run(lambda p: SGD(p, 0.1), micro=None, known=False)
