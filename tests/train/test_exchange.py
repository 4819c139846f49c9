"""Checkpoints leave for other formats and come back bit for bit; foreign ones are resumed from."""

import json
import os
import pickle
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_state_dict,
    set_state_dict,
)
from torch.distributed.checkpoint.state_dict_loader import load as dcp_load
from torch.distributed.checkpoint.state_dict_saver import save as dcp_save

from tests.cli.called import Weft, call
from tests.train.alone import undisturbed
from tests.train.driving import driven
from tests.train.lines import applied, finals
from tests.train.state.shards import a_model, train
from tests.train.state.test_snapshot import a_book, cut_slots, odd_book, snapshots_of
from weft.agent.checkpoint.catalogue import chosen, root_of
from weft.agent.checkpoint.errors import Damaged, StateMismatch
from weft.agent.checkpoint.vault import Vault
from weft.model.errors import SpecError
from weft.train.data.loader import Loader
from weft.train.data.loops import Loops
from weft.train.exchange import safetensors_files
from weft.train.exchange.exporting import FORMATS, export
from weft.train.exchange.importing import Imported, Wish, bring_in
from weft.train.state.book import StateBook
from weft.train.state.progress import Progress
from weft.train.state.snapshot import load

torch.set_num_threads(1)
pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")


def quiet(*_: object) -> None:
    """Nobody looks at the bar."""


def vault_of(book: StateBook, folder: Path, parts: int = 1) -> Path:
    """A vault with one checkpoint of it, in so many shards."""
    (folder / "slots").mkdir(exist_ok=True)
    if parts > 1:
        slots = cut_slots(book, folder / "slots", parts)
    else:
        snapshots = snapshots_of(book, folder / "slots")
        taken = snapshots.take(2, 16)
        snapshots.close()
        assert taken is not None
        slots = [taken.path]
    assert Vault(folder / "vault", "job", 1).write(2, 16, slots) is not None
    return folder / "vault"


def there(vault: Path, out: Path, form: str) -> Path:
    export(chosen(root_of(vault), None), out, form, quiet)
    return out


def back(source: Path, target: Path, **wish: Any) -> Imported:
    return bring_in(source, target, Wish(**wish), quiet)


# --------------------------------------------------------------------------------- there and back


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("parts", [1, 3])
def test_everything_comes_back_bit_for_bit(tmp_path: Path, form: str, parts: int) -> None:
    book, other = a_book(0), a_book(1, steps=0)
    out = there(vault_of(book, tmp_path, parts), tmp_path / "out", form)
    made = back(out, tmp_path / "again")
    assert (made.job, made.step, made.samples, made.foreign) == ("job", 2, 16, False)
    loaded = load(other, made.path)
    assert (loaded.step, loaded.cursor) == (2, 16)
    assert other.digest() == book.digest()
    found = Vault(tmp_path / "again", "job", 1).newest()
    assert found.checkpoint is not None
    assert not found.refused


@pytest.mark.parametrize("form", FORMATS)
def test_odd_types_and_layouts_come_back_too(tmp_path: Path, form: str) -> None:
    book, other = odd_book(0), odd_book(1)
    out = there(vault_of(book, tmp_path), tmp_path / "out", form)
    load(other, back(out, tmp_path / "again").path)
    assert other.digest() == book.digest()


@pytest.mark.parametrize("form", FORMATS)
def test_schedulers_and_further_state_come_back_too(tmp_path: Path, form: str) -> None:
    books = []
    for seed in (0, 1):
        model = a_model(seed)
        optimizer = torch.optim.AdamW(model.parameters(), 0.05 * (seed + 1))
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
        book = StateBook(model, optimizer, scheduler)
        book.add("ema", torch.optim.swa_utils.AveragedModel(model))
        if not seed:
            train(model, optimizer, range(2))
            scheduler.step()
        books.append(book)
    out = there(vault_of(books[0], tmp_path), tmp_path / "out", form)
    load(books[1], back(out, tmp_path / "again").path)
    assert books[1].digest() == books[0].digest()


def test_large_state_is_written_in_several_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(safetensors_files, "FILE_BYTES", 100)
    book, other = a_book(0), a_book(1, steps=0)
    out = there(vault_of(book, tmp_path), tmp_path / "out", "safetensors")
    assert (out / "model.safetensors.index.json").exists()
    assert len(list(out.glob("model-*-of-*.safetensors"))) > 2
    load(other, back(out, tmp_path / "again").path)
    assert other.digest() == book.digest()


def test_others_load_what_was_exported(tmp_path: Path) -> None:
    book = a_book(0)
    vault = vault_of(book, tmp_path, 3)
    weights = load_file(there(vault, tmp_path / "safe", "safetensors") / "model.safetensors")
    model = a_model(1)
    model.load_state_dict(weights)
    assert_equal(model.state_dict(), book.model.state_dict())
    model = a_model(1)
    optimizer = torch.optim.AdamW(model.parameters(), 1.0)
    their_model, their_optimizer = get_state_dict(model, optimizer)
    state: dict[str, Any] = {"model": their_model, "optimizer": their_optimizer}
    dcp_load(state, checkpoint_id=there(vault, tmp_path / "dcp", "dcp"), no_dist=True)
    set_state_dict(
        model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"]
    )
    assert_equal(model.state_dict(), book.model.state_dict())
    ours, theirs = book.optimizer.state_dict(), optimizer.state_dict()
    assert theirs["param_groups"][0]["lr"] == 0.05
    for number in ours["state"]:
        assert_equal(theirs["state"][number], ours["state"][number])


def assert_equal(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        assert torch.equal(value, other[name]), name


@pytest.mark.parametrize("form", FORMATS)
def test_a_broken_shard_is_not_exported(tmp_path: Path, form: str) -> None:
    vault = vault_of(a_book(0), tmp_path, 2)
    shard = vault / "step-2.inc-1" / "shard-1-of-2.bin"
    data = bytearray(shard.read_bytes())
    data[70] ^= 1
    shard.write_bytes(data)
    with pytest.raises(Damaged, match="chunk 0 differs"):
        there(vault, tmp_path / "out", form)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["slots", "vault"]


def test_notes_that_were_changed_are_refused(tmp_path: Path) -> None:
    out = there(vault_of(a_book(0), tmp_path), tmp_path / "out", "safetensors")
    text = (out / "weft.json").read_text()
    (out / "weft.json").write_text(text.replace('"step":2', '"step":9'))
    with pytest.raises(Damaged, match="its digest differs"):
        back(out, tmp_path / "again")
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize("form", FORMATS)
def test_a_torn_export_is_refused_and_leaves_nothing(tmp_path: Path, form: str) -> None:
    out = there(vault_of(a_book(0), tmp_path), tmp_path / "out", form)
    for file in (*out.glob("*.safetensors"), *out.glob("*.distcp")):
        os.truncate(file, file.stat().st_size // 2)
    with pytest.raises(Damaged):
        back(out, tmp_path / "again")
    assert not (tmp_path / "again").exists()


# -------------------------------------------------------------------------------- of other programs


class Tied(nn.Module):
    """A norm with running means, and two names for one weight."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.first = nn.Linear(5, 5, bias=False)
        self.norm = nn.BatchNorm1d(5)
        self.last = nn.Linear(5, 5, bias=False)
        self.last.weight = self.first.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.last(self.norm(self.first(x)))
        return out


def plain_program(seed: int, steps: int) -> tuple[nn.Module, torch.optim.Optimizer, Any]:
    model = Tied(seed)
    groups: list[dict[str, Any]] = [
        {"params": [*model.norm.parameters()], "lr": 0.5 - seed / 10, "weight_decay": 0.0},
        {"params": [model.first.weight]},
    ]
    optimizer = torch.optim.AdamW(groups, 0.1)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(8, 5)).square().mean().backward()
        optimizer.step()
        scheduler.step()
    return model, optimizer, scheduler


class App:
    """As torch's own tutorial keeps it."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self._model, self._optimizer = model, optimizer

    def state_dict(self) -> dict[str, Any]:
        model, optimizer = get_state_dict(self._model, self._optimizer)
        return {"model": model, "optim": optimizer}

    def load_state_dict(self, told: dict[str, Any]) -> None:
        """Not needed here."""


@pytest.mark.parametrize("way", ["positions", "names", "app", "wrapped", "flat"])
def test_what_plain_torch_has_saved_is_resumed_from(tmp_path: Path, way: str) -> None:
    model, optimizer, scheduler = plain_program(0, steps=3)
    state: dict[str, Any] = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    if way == "names":
        names, by_name = get_state_dict(model, optimizer)
        state = {"model": names, "optimizer": by_name}
    elif way == "flat":
        options = StateDictOptions(flatten_optimizer_state_dict=True)
        names, by_name = get_state_dict(model, optimizer, options=options)
        state = {"model": names, "optimizer": by_name}
    elif way == "app":
        state = {"app": App(model, optimizer)}
    elif way == "wrapped":
        state["model"] = {f"module.{name}": one for name, one in model.state_dict().items()}
        state |= {"scheduler": scheduler.state_dict(), "epoch": 7}
    dcp_save(state, checkpoint_id=tmp_path / "theirs", no_dist=True)
    made = back(tmp_path / "theirs", tmp_path / "ours")
    assert (made.step, made.foreign, made.kind) == (2, True, "dcp")
    assert ("left out: epoch = 7" in made.remarks) == (way == "wrapped")
    other, moved, slowed = plain_program(1, steps=0)
    book = StateBook(other, moved, slowed)
    ema = torch.ones(3)
    book.add("ema", ema)
    assert load(book, made.path).step == 2
    assert torch.equal(ema, torch.ones(3))
    assert_equal(other.state_dict(), model.state_dict())
    assert book.progress == Progress((3,))
    told, expected = moved.state_dict(), optimizer.state_dict()
    assert (told["param_groups"] == expected["param_groups"]) == (way != "flat")
    for number in expected["state"]:
        assert_equal(told["state"][number], expected["state"][number])
    assert slowed.last_epoch == (3 if way == "wrapped" else 0)


def test_a_learning_rate_that_is_a_tensor_is_taken_over(tmp_path: Path) -> None:
    programs = []
    for rate in (0.25, 0.5):
        model = a_model(0)
        optimizer = torch.optim.Adam(model.parameters(), torch.tensor(rate), foreach=False)
        programs.append((model, optimizer))
    (model, optimizer), (other, moved) = programs
    train(model, optimizer, range(2))
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    dcp_save(state, checkpoint_id=tmp_path / "theirs", no_dist=True)
    load(StateBook(other, moved), back(tmp_path / "theirs", tmp_path / "ours").path)
    assert moved.param_groups[0]["lr"] == 0.25


def test_an_imported_checkpoint_may_leave_before_it_is_resumed_from(tmp_path: Path) -> None:
    model, optimizer, _ = plain_program(0, steps=2)
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    dcp_save(state, checkpoint_id=tmp_path / "theirs", no_dist=True)
    back(tmp_path / "theirs", tmp_path / "ours")
    for form in FORMATS:
        out = there(tmp_path / "ours", tmp_path / form, form)
        other, moved, slowed = plain_program(1, steps=0)
        load(StateBook(other, moved, slowed), back(out, tmp_path / f"again-{form}").path)
        assert_equal(other.state_dict(), model.state_dict())
        assert moved.param_groups[0]["lr"] == optimizer.param_groups[0]["lr"]


def test_weights_alone_are_resumed_from_at_a_step_that_is_given(tmp_path: Path) -> None:
    model, _, _ = plain_program(0, steps=3)
    weights = {name: one for name, one in model.state_dict().items() if name != "first.weight"}
    save_file(weights, tmp_path / "model.safetensors")
    with pytest.raises(SpecError, match="how many steps"):
        back(tmp_path / "model.safetensors", tmp_path / "ours")
    made = back(tmp_path / "model.safetensors", tmp_path / "ours", step=9, samples=640)
    assert any("optimizer" in remark for remark in made.remarks)
    other, moved, slowed = plain_program(1, steps=0)
    book = StateBook(other, moved, slowed)
    load(book, made.path)
    assert_equal(other.state_dict(), model.state_dict())
    assert not moved.state
    assert book.progress == Progress((10,), before=(10, 640))


def test_samples_of_imported_steps_are_not_read_again() -> None:
    loader = Loader(list(range(1000)), 32)
    loops = Loops()
    loops.enter(loader)
    imported = Progress((10,), before=(10, 640)).stepped()
    assert loops.read(imported) == 21
    assert loops.samples(imported) == 640 + 32
    assert loops.read(Progress((11,))) == 11
    with pytest.raises(SpecError, match="whole number of batches"):
        loops.read(Progress((10,), before=(10, 650)))
    assert Progress.from_json(imported.to_json()) == imported


@pytest.mark.parametrize("change", ["groups", "count", "shape", "name"])
def test_the_state_of_another_program_is_refused(tmp_path: Path, change: str) -> None:
    model, optimizer, _ = plain_program(0, steps=1)
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    dcp_save(state, checkpoint_id=tmp_path / "theirs", no_dist=True)
    made = back(tmp_path / "theirs", tmp_path / "ours")
    other = Tied(1)
    if change == "shape":
        other.norm = nn.BatchNorm1d(4)
    elif change == "name":
        other.extra = nn.Linear(2, 2)
    moved = torch.optim.AdamW([*other.norm.parameters(), other.first.weight], 0.1)
    if change == "count":
        moved = torch.optim.AdamW(other.norm.parameters(), 0.1)
    before = {name: one.clone() for name, one in other.state_dict().items()}
    with pytest.raises(StateMismatch):
        load(StateBook(other, moved), made.path)
    assert_equal(other.state_dict(), before)


class Bomb:
    """What a hostile checkpoint holds."""

    def __init__(self, mark: Path) -> None:
        self.mark = str(mark)

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.mark,)


def test_nothing_that_is_read_is_executed(tmp_path: Path) -> None:
    mark, theirs = tmp_path / "executed", tmp_path / "theirs"
    weight = torch.zeros(2)
    dcp_save({"model": {"weight": weight}, "x": Bomb(mark)}, checkpoint_id=theirs, no_dist=True)
    with pytest.raises(SpecError, match="neither a tensor"):
        back(theirs, tmp_path / "ours", step=1)
    (theirs / ".metadata").write_bytes(pickle.dumps(Bomb(mark)))
    with pytest.raises(Damaged, match="which no checkpoint needs"):
        back(theirs, tmp_path / "ours", step=1)
    assert not mark.exists()
    assert not (tmp_path / "ours").exists()


def test_files_outside_of_the_folder_are_not_read(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    dcp_save({"model": {"weight": torch.zeros(2)}}, checkpoint_id=theirs, no_dist=True)
    found = pickle.loads((theirs / ".metadata").read_bytes())
    for one in found.storage_data.values():
        one.relative_path = f"../theirs/{one.relative_path}"
    (theirs / ".metadata").write_bytes(pickle.dumps(found))
    with pytest.raises(Damaged, match=r"lacks \.\./theirs"):
        back(theirs, tmp_path / "ours", step=1)


# ------------------------------------------------------------------------------------ a whole job

TOTAL = 30
JOB = ("mlp.py", "--total", str(TOTAL), "--level", "bitwise")


def network() -> nn.Module:
    """The one of the job, as a program without Weft would make it."""
    layers = [nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 32), nn.Dropout(0.0), nn.Linear(32, 1)]
    return nn.Sequential(*layers)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_job_leaves_for_plain_torch_and_comes_back(tmp_path: Path, weft: Weft) -> None:
    """Weft, DCP, a program that knows nothing of Weft, DCP, Weft: and no bit is another."""
    kept = tmp_path / "kept"
    agent = ("-n", "2", "--checkpoints", str(kept))
    with driven(tmp_path / "first", *JOB, "--pause", "0.05", agent=agent) as job:
        job.reached(5)
        job.signal(signal.SIGTERM)
        assert job.wait() == 143, job.logs()
    assert weft("checkpoint", "export", kept, tmp_path / "out", "--format", "dcp").status == 0
    _through_plain_torch(tmp_path / "out", tmp_path / "theirs")
    called = weft("checkpoint", "import", tmp_path / "theirs", tmp_path / "again")
    assert called.status == 0, called.err
    assert "not in it: the position in the data" in called.err
    agent = ("-n", "1", "--checkpoints", str(tmp_path / "again"))
    with driven(tmp_path / "second", *JOB, agent=agent) as job:
        assert job.wait() == 0, job.logs()
    done = applied(job.lines())["0"]
    assert done == list(range(done[0], TOTAL))
    assert done[0] > 5
    assert {end["digest"] for end in finals(job.lines())} == {undisturbed(*JOB)["digest"]}


def _through_plain_torch(source: Path, target: Path) -> None:
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), 1.0)
    names, by_name = get_state_dict(model, optimizer)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    state: dict[str, Any] = {"model": names, "optimizer": by_name}
    dcp_load(state, checkpoint_id=source, no_dist=True)
    set_state_dict(model, optimizer, model_state_dict=names, optim_state_dict=state["optimizer"])
    told = json.loads((source / "weft.json").read_text())["facts"]["objects"]["extra/scheduler"]
    scheduler.load_state_dict(told)
    plain = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
    }
    dcp_save(plain, checkpoint_id=target, no_dist=True)


# ------------------------------------------------------------------------------------- the commands


@pytest.fixture
def weft(capsys: pytest.CaptureFixture[str]) -> Weft:
    return partial(call, capsys)


def test_what_cannot_be_done_is_refused_with_a_hint(tmp_path: Path, weft: Weft) -> None:
    vault = vault_of(a_book(0), tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "weights.pt").touch()
    out = tmp_path / "out"
    for words, told in (
        (("export", tmp_path / "empty", out), "holds no checkpoints of Weft"),
        (("export", vault, out, "--step", "7"), "has no checkpoint of step 7"),
        (("export", vault, tmp_path / "full"), "is not empty"),
        (("export", vault, tmp_path / "weights.pt"), "is a file"),
        (("import", tmp_path / "nowhere", out), "does not exist"),
        (("import", tmp_path / "weights.pt", out), "neither a DCP checkpoint nor safetensors"),
        (("import", tmp_path / "empty", out), "neither a DCP checkpoint nor safetensors"),
        (("import", vault, out), "Weft's own checkpoints"),
    ):
        called = weft("checkpoint", *words)
        assert (called.status, out.exists()) == (2, False)
        assert told in called.err
        assert "hint: " in called.err
    assert weft("checkpoint", "export", vault, out).status == 0
    assert weft("checkpoint", "import", out, tmp_path / "full").status == 2
    assert weft("checkpoint", "import", out, tmp_path / "again", "--step", "3").status == 2
    assert weft("checkpoint", "import", out, tmp_path / "again", "--step", "9" * 20).status == 2
    assert weft("checkpoint", "import", out, tmp_path / "empty", "--job", "mine").status == 0
    found = weft("checkpoint", "show", tmp_path / "empty", "-o", "json").json
    assert (found["head"]["job"], found["step"], found["incarnation"]) == ("mine", 2, 0)
