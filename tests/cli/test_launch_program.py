"""What can be launched, and what is said of what cannot."""

import os
import sys
from pathlib import Path

import pytest

from tests.cli.called import Weft
from weft.cli.launch.program import program_of
from weft.model.errors import SpecError

PYTHON = sys.executable


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as people have them."""
    files = {
        "train.py": "import torch\n",
        "elastic.py": "import torch\nimport weft\n",
        "adapted.py": "if True:\n    from weft.train.huggingface import ElasticTrainer\n",
        "wefty.py": "import weftless\n# import weft\n",
        "pack/__init__.py": "raise RuntimeError('nobody may import me')\n",
        "pack/fit.py": "from weft import prepare\n",
        "runnable/__main__.py": "import weft\n",
        "folder/main.py": "",
        "folder/train_net.py": "",
        "run.sh": "#!/bin/sh\necho\n",
        "plain.sh": "#!/bin/sh\necho\n",
        "bare": "#!/usr/bin/env python3\nimport weft\n",
        "notes.txt": "no program\n",
        "book.ipynb": "{}",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    (tmp_path / "run.sh").chmod(0o755)
    (tmp_path / "train.py").chmod(0o600)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "command", "knows"),
    [
        ("train.py --lr 3", (PYTHON, "train.py", "--lr", "3"), False),
        ("./train.py", (PYTHON, "./train.py"), False),
        ("elastic.py", (PYTHON, "elastic.py"), True),
        ("adapted.py", (PYTHON, "adapted.py"), True),
        ("wefty.py", (PYTHON, "wefty.py"), False),
        ("python elastic.py 1", ("python", "elastic.py", "1"), True),
        ("python3 -u train.py", ("python3", "-u", "train.py"), False),
        ("python -m pack.fit", ("python", "-m", "pack.fit"), False),
        ("runnable x", (PYTHON, "runnable", "x"), True),
        ("run.sh 1", ("./run.sh", "1"), False),
        ("bare", (PYTHON, "bare"), True),
        ("sh plain.sh", ("sh", "plain.sh"), False),
    ],
)
def test_what_can_be_run(words: str, command: tuple[str, ...], knows: bool) -> None:
    program = program_of(words.split())
    assert (program.command, program.knows_weft) == (command, knows)


def test_a_module_is_found_without_being_imported() -> None:
    program = program_of(("pack.fit", "--lr", "3"), module=True)
    assert program.command == (PYTHON, "-m", "pack.fit", "--lr", "3")
    assert (program.name, program.knows_weft) == ("fit", True)
    assert program_of(("runnable",), module=True).knows_weft


@pytest.mark.parametrize(
    ("words", "module", "why", "hint"),
    [
        ("nothing.py", False, "no 'nothing.py'", "looked for in"),
        ("trn.py", False, "no 'trn.py'", "train.py?"),
        ("train", False, "no 'train'", "train.py?"),
        ("lost/train.py", False, "no 'lost/train.py'", "no folder 'lost'"),
        ("folder", False, "a folder", "folder/train_net.py"),
        ("plain.sh", False, "neither", "chmod +x plain.sh"),
        ("notes.txt", False, "neither", "chmod +x"),
        ("book.ipynb", False, "notebook", "nbconvert"),
        ("torchrun train.py", False, "by itself", "weft launch -n 4"),
        ("python -m torch.distributed.run train.py", False, "by itself", "weft launch -n 4"),
        ("accelerate launch train.py", False, "by itself", "weft launch"),
        ("python", False, "without a script", "train.py"),
        ("python nothing.py", False, "no 'nothing.py'", "looked for in"),
        ("pack.missing", True, "no module 'pack.missing'", "looked for in"),
        ("train.py", True, "no module 'train.py'", "leave -m out"),
        ("pack", True, "cannot be run", "-m pack.train"),
        ("xml", False, "no 'xml'", "-m xml"),
    ],
)
def test_what_cannot_is_refused_with_what_to_do(
    words: str, module: bool, why: str, hint: str
) -> None:
    with pytest.raises(SpecError, match=why) as refused:
        program_of(words.split(), module=module)
    assert hint in refused.value.hint


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_script_that_may_not_be_read(here: Path) -> None:
    (here / "train.py").chmod(0)
    with pytest.raises(SpecError, match="may not be read"):
        program_of(("train.py",))


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("--nnodes", "2"), "weft submit"),
        (("--max_restarts=3",), "replaced"),
        (("--rdzv_endpoint=localhost:0",), "find each other"),
        (("--master_port", "29501"), "find each other"),
        (("--tee", "3"), "--show"),
        (("--shutdown-timeout", "3"), "--grace"),
        (("-n", "many"), "auto, gpu or cpu"),
        (("-n", "0"), "above 0"),
        (("-n", "3", "--shard", "2"), "-n 2"),
    ],
)
def test_what_torchrun_would_take_is_refused_with_what_to_write(
    weft: Weft, words: tuple[str, ...], hint: str
) -> None:
    called = weft("launch", *words, "train.py")
    assert called.status == 2
    assert hint in called.err.partition("hint: ")[2]


def test_what_python_cannot_read_is_found_before_a_worker_does(here: Path) -> None:
    (here / "broken.py").write_text("def broken(:\n")
    (here / "odd.py").write_bytes(b"# coding: no-such\nx = '\xff'\n")
    (here / "warns.py").write_text("x = '\\d'\n")
    assert isinstance(program_of(["broken.py"]).mistake, SyntaxError)
    assert isinstance(program_of(["odd.py"]).mistake, SyntaxError)
    assert program_of(["warns.py"]).mistake is None
    assert program_of(["python3", "broken.py"]).mistake is None, "another Python reads otherwise"
    assert program_of(["./run.sh"]).mistake is None
