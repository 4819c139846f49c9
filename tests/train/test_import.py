"""What a training script brings into its process by `import weft`, and what it does not."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONTROL_ROOMS = ("brain", "policy", "sim", "kube", "lab", "cli", "trace", "perf", "spec")

PREPARED = """
import sys
import torch
import weft

model, opt = weft.prepare(torch.nn.Linear(2, 1), lambda p: torch.optim.SGD(p, lr=0.1))
for mb in weft.steps(weft.loader([(torch.ones(2), torch.ones(1))] * 4, global_batch=2), total=2):
    weft.backward((model(mb.x) - mb.y).square().mean())
    opt.step()
    opt.zero_grad()
    weft.metric(loss=1.0)
assert weft.first() and weft.stepped()
print(*sorted(sys.modules))
"""


def modules_after(text: str) -> set[str]:
    """What a fresh interpreter has imported in the end."""
    return set(run(text).stdout.split())


def run(text: str, *, check: bool = True) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", text],
        check=check,
        capture_output=True,
        text=True,
        timeout=100,
        env={"PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"},
    )


def rooms(modules: set[str]) -> set[str]:
    return {name.split(".")[1] for name in modules if name.startswith("weft.")}


def test_importing_weft_brings_neither_torch_nor_a_room() -> None:
    modules = modules_after("import weft, sys; print(*sorted(sys.modules))")
    assert not modules & {"torch", "numpy"}
    assert not rooms(modules)


@pytest.mark.slow
def test_a_training_script_brings_nothing_of_the_control_side() -> None:
    modules = modules_after(PREPARED)
    assert {"torch", "weft.train.session"} <= modules
    assert not rooms(modules) & set(CONTROL_ROOMS)


@pytest.mark.slow
def test_the_agent_brings_no_torch_and_nothing_of_the_control_side() -> None:
    modules = modules_after("import weft.agent.agent, sys; print(*sorted(sys.modules))")
    assert not modules & {"torch", "weft.train"}
    assert not rooms(modules) & set(CONTROL_ROOMS)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("adapter", "foreign"), [("huggingface", "transformers"), ("lightning", "lightning")]
)
def test_an_adapter_without_its_trainer_says_what_to_install(adapter: str, foreign: str) -> None:
    absent = f"import sys; sys.modules[{foreign!r}] = None; import weft.train.{adapter}"
    failed = run(absent, check=False)
    assert failed.returncode == 1
    assert f"pip install '.[{adapter}]'" in failed.stderr
