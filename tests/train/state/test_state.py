"""The book of state: every tensor by name, every fact as JSON, and nothing else."""

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset
from torch.distributed.tensor.debug import _clear_sharding_prop_cache
from torch.optim import Optimizer, lr_scheduler
from torch.testing._internal.distributed.fake_pg import FakeStore

from weft.agent.checkpoint.errors import StateMismatch, UnsavableState
from weft.agent.checkpoint.layout import TensorRecord, check_whole, whole
from weft.train.state.book import StateBook

torch.set_num_threads(1)

Make = Callable[[nn.Module], Optimizer]
OPTIMIZERS: dict[str, Make] = {
    "AdamW": lambda model: torch.optim.AdamW(model.parameters(), 1e-2),
    "AdamW, amsgrad": lambda model: torch.optim.AdamW(model.parameters(), 1e-2, amsgrad=True),
    "AdamW, fused": lambda model: torch.optim.AdamW(model.parameters(), 1e-2, fused=True),
    "Adam, tensor": lambda model: torch.optim.Adam(
        model.parameters(), torch.tensor(1e-2), foreach=False
    ),
    "SGD": lambda model: torch.optim.SGD(model.parameters(), 1e-2),
    "SGD, momentum": lambda model: torch.optim.SGD(
        model.parameters(), 1e-2, momentum=0.9, dampening=0.1
    ),
    "Adagrad": lambda model: torch.optim.Adagrad(model.parameters(), 1e-2),
    "RMSprop": lambda model: torch.optim.RMSprop(
        model.parameters(), 1e-2, momentum=0.5, centered=True
    ),
    "NAdam": lambda model: torch.optim.NAdam(model.parameters(), 1e-2),
    "RAdam": lambda model: torch.optim.RAdam(model.parameters(), 1e-2),
    "ASGD": lambda model: torch.optim.ASGD(model.parameters(), 1e-2),
    "Adamax": lambda model: torch.optim.Adamax(model.parameters(), 1e-2),
    "Adadelta": lambda model: torch.optim.Adadelta(model.parameters(), 1e-2),
    "Rprop": lambda model: torch.optim.Rprop(model.parameters(), 1e-2),
    "Adafactor": lambda model: torch.optim.Adafactor(model.parameters(), 1e-2),
    "two groups": lambda model: torch.optim.AdamW(
        [
            dict[str, Any](params=[p for p in model.parameters() if p.ndim == 1], weight_decay=0.0),
            dict[str, Any](params=[p for p in model.parameters() if p.ndim != 1], betas=(0.8, 0.9)),
        ],
        1e-2,
    ),
}
SCHEDULERS: dict[str, Callable[[Optimizer], Any]] = {
    "LambdaLR": lambda opt: lr_scheduler.LambdaLR(opt, lambda step: 0.9**step),
    "MultiStepLR": lambda opt: lr_scheduler.MultiStepLR(opt, [2, 4, 4]),
    "CosineAnnealingLR": lambda opt: lr_scheduler.CosineAnnealingLR(opt, 10),
    "OneCycleLR": lambda opt: lr_scheduler.OneCycleLR(opt, 0.1, total_steps=20),
    "CyclicLR": lambda opt: lr_scheduler.CyclicLR(opt, 0.01, 0.1, cycle_momentum=False),
    "SequentialLR": lambda opt: lr_scheduler.SequentialLR(
        opt,
        [lr_scheduler.ConstantLR(opt, 0.1, 2), lr_scheduler.ExponentialLR(opt, 0.9)],
        [3],
    ),
}


class Steps(Protocol):
    """A scheduler, as far as the loop knows it."""

    def step(self) -> None: ...


class Net(nn.Module):
    """A little of everything: shared weights, buffers of both kinds, a scalar."""

    def __init__(self) -> None:
        super().__init__()
        last = nn.Linear(5, 5)
        self.inner = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), last)
        self.tied = nn.Linear(5, 5)
        self.tied.weight = last.weight
        self.scale = nn.Parameter(torch.tensor(1.0))
        self.register_buffer("kept", torch.arange(4))
        self.register_buffer("passing", torch.ones(2), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.tied(self.inner(x)) * self.scale
        return out


def a_net(seed: int = 0) -> Net:
    torch.manual_seed(seed)
    return Net()


def train(
    model: nn.Module, optimizer: Optimizer, steps: range, scheduler: Steps | None = None
) -> None:
    for step in steps:
        torch.manual_seed(100 + step)
        optimizer.zero_grad()
        model(torch.randn(8, 3)).square().mean().backward()
        optimizer.step()
        if scheduler is not None:
            scheduler.step()


def hand_over(giver: StateBook, taker: StateBook) -> None:
    """As a joiner receives: allocate, copy, take over the facts as JSON."""
    taker.allocate(giver.records())
    given = giver.tensors()
    for name, tensor in taker.tensors().items():
        tensor.copy_(given[name])
    taker.load_facts(json.loads(json.dumps(giver.facts(), allow_nan=False)))


# ------------------------------------------------------------------------------------ what there is


def test_tensors_are_named_by_parameter_and_sorted() -> None:
    model = a_net()
    optimizer = torch.optim.AdamW(model.parameters())
    book = StateBook(model, optimizer)
    before = set(book.tensors())
    assert "model/inner.0.weight" in before
    assert "model/kept" in before
    assert "model/inner.1.running_mean" in before
    assert "model/passing" not in before
    assert ("model/tied.weight" in before) != ("model/inner.2.weight" in before)
    train(model, optimizer, range(1))
    names = list(book.tensors())
    assert names == sorted(names)
    for key in ("step", "exp_avg", "exp_avg_sq"):
        assert f"optimizer/inner.0.weight/{key}" in names
        assert f"optimizer/scale/{key}" in names
    assert [record.name for record in book.records()] == names


def test_the_order_in_which_an_optimizer_got_its_parameters_does_not_matter() -> None:
    model = a_net()
    one = torch.optim.AdamW(model.parameters())
    train(model, one, range(1))
    twin = copy.deepcopy(model)
    two = torch.optim.AdamW(list(twin.parameters())[::-1])
    book, other = StateBook(model, one), StateBook(twin, two)
    other.allocate(book.records())
    assert list(other.tensors()) == list(book.tensors())
    for name, tensor in book.tensors().items():
        assert other.tensors()[name].shape == tensor.shape


def test_tensors_are_alive_and_outside_of_autograd() -> None:
    model = a_net()
    book = StateBook(model, torch.optim.SGD(model.parameters()))
    live = book.tensors()["model/scale"]
    live.fill_(7.0)
    assert model.scale.item() == 7.0
    assert not live.requires_grad


def test_wrappers_leave_no_trace_in_names() -> None:
    inner = a_net()
    wrapped = nn.Sequential()
    wrapped.add_module("_orig_mod", inner)
    plain = StateBook(inner, torch.optim.SGD(inner.parameters()))
    book = StateBook(wrapped, torch.optim.SGD(wrapped.parameters()))
    assert list(book.tensors()) == list(plain.tensors())


def test_a_parameter_of_no_module_has_a_name_of_its_own() -> None:
    books = []
    for start in (1.0, 2.0):
        model, stray = a_net(), nn.Parameter(torch.full((2,), start))
        optimizer = torch.optim.AdamW([*model.parameters(), stray])
        stray.grad = torch.ones(2)
        optimizer.step()
        books.append(StateBook(model, optimizer))
    assert {"model/outside.0", "optimizer/outside.0/exp_avg"} <= set(books[0].tensors())
    hand_over(*books)
    assert books[0].digest() == books[1].digest()


def test_tensors_without_memory_are_an_error() -> None:
    for tensor in (torch.zeros(2, device="meta"), torch.eye(2).to_sparse()):
        model = nn.Linear(1, 1)
        model.register_buffer("odd", tensor)
        with pytest.raises(UnsavableState, match="model/odd"):
            StateBook(model, torch.optim.SGD(model.parameters())).records()


def test_names_that_no_checkpoint_may_have_are_an_error() -> None:
    model = nn.Sequential()
    model.add_module("a//b", nn.Linear(1, 1))
    with pytest.raises(UnsavableState, match="cannot be saved"):
        StateBook(model, torch.optim.SGD(model.parameters())).records()


# ---------------------------------------------------------------------------------- round trips


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_goes_on_as_if_it_had_not_been_moved(name: str) -> None:
    model, other = a_net(0), a_net(1)
    one, two = OPTIMIZERS[name](model), OPTIMIZERS[name](other)
    book, copied = StateBook(model, one), StateBook(other, two)
    train(model, one, range(3))
    identities = [id(parameter) for parameter in other.parameters()]
    hand_over(book, copied)
    assert copied.digest() == book.digest()
    train(model, one, range(3, 6))
    train(other, two, range(3, 6))
    assert copied.digest() == book.digest()
    assert [id(parameter) for parameter in other.parameters()] == identities


@pytest.mark.parametrize("name", SCHEDULERS)
def test_schedulers_go_on_too(name: str) -> None:
    books, programs = [], []
    for seed in (0, 1):
        model = a_net(seed)
        optimizer = torch.optim.SGD(model.parameters(), 0.5)
        scheduler = SCHEDULERS[name](optimizer)
        books.append(StateBook(model, optimizer, scheduler))
        programs.append((model, optimizer, scheduler))
    train(*programs[0][:2], range(5), programs[0][2])
    hand_over(books[0], books[1])
    for model, optimizer, scheduler in programs:
        train(model, optimizer, range(5, 9), scheduler)
    assert programs[0][2].get_last_lr() == programs[1][2].get_last_lr()
    assert books[0].digest() == books[1].digest()


def test_a_scheduler_that_begins_with_infinity_is_saved() -> None:
    model = a_net()
    optimizer = torch.optim.SGD(model.parameters(), 0.5)
    scheduler = lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
    book = StateBook(model, optimizer, scheduler)
    facts = json.loads(json.dumps(book.facts(), allow_nan=False))
    scheduler.step(1.0)
    scheduler.step(2.0)
    assert optimizer.param_groups[0]["lr"] == 0.05
    book.tensors()
    book.load_facts(facts)
    assert scheduler.best == float("inf")
    assert optimizer.param_groups[0]["lr"] == 0.5


def test_a_learning_rate_that_is_a_tensor_keeps_its_identity() -> None:
    model = a_net()
    rate = torch.tensor(0.1)
    optimizer = torch.optim.Adam(model.parameters(), rate, foreach=False)
    book = StateBook(model, optimizer)
    facts = book.facts()
    rate.fill_(0.7)
    book.load_facts(facts)
    assert optimizer.param_groups[0]["lr"] is rate
    assert rate.item() == pytest.approx(0.1)
    assert optimizer.param_groups[0]["betas"] == (0.9, 0.999)


def test_functions_of_a_scheduler_are_left_out() -> None:
    model = a_net()
    optimizer = torch.optim.SGD(model.parameters())
    scheduler = lr_scheduler.StepLR(optimizer, 2)
    scheduler.step = lambda epoch=None: None  # type: ignore[method-assign]
    StateBook(model, optimizer, scheduler).facts()


def test_options_that_are_no_numbers_are_an_error_that_names_them() -> None:
    model = a_net()
    optimizer = torch.optim.SGD(model.parameters())
    optimizer.param_groups[0]["hook"] = print
    with pytest.raises(UnsavableState, match="optimizer/hook"):
        StateBook(model, optimizer).facts()


def test_optimizer_state_that_is_no_tensor_is_a_fact() -> None:
    model, other = nn.Linear(1, 1), nn.Linear(1, 1)
    one, two = (torch.optim.SGD(net.parameters()) for net in (model, other))
    one.state[model.weight]["count"] = 3
    hand_over(StateBook(model, one), StateBook(other, two))
    assert two.state[other.weight]["count"] == 3
    one.state[model.weight]["count"] = object()
    with pytest.raises(UnsavableState, match="optimizer/weight/count"):
        StateBook(model, one).facts()


def test_optimizer_state_of_no_parameter_is_carried_along() -> None:
    model, other = nn.Linear(1, 1), nn.Linear(1, 1)
    one, two = (torch.optim.SGD(net.parameters()) for net in (model, other))
    shared: Any = one.state
    shared["shared"] = {"count": 3, "memory": torch.tensor([1.0, 2.0])}
    shared[7] = "seven"
    two.state["old"] = {}  # type: ignore[index]
    hand_over(StateBook(model, one), StateBook(other, two))
    found: Any = two.state
    assert set(found) == {"shared", 7}
    assert found["shared"]["count"] == 3
    assert found["shared"]["memory"].tolist() == [1.0, 2.0]
    assert StateBook(model, one).digest() == StateBook(other, two).digest()


def test_what_is_frozen_is_carried_along() -> None:
    books = [StateBook(net := a_net(), torch.optim.SGD(net.parameters())) for _ in range(2)]
    names = [name for name, _ in books[0].parameters()]
    for name, parameter in books[0].parameters():
        parameter.requires_grad_(name == names[0])
    books[1].parameters()[0][1].requires_grad_(False)
    hand_over(*books)
    taking_part = [name for name, one in books[1].parameters() if one.requires_grad]
    assert taking_part == names[:1]
    older = {key: value for key, value in books[0].facts().items() if key != "frozen"}
    books[1].load_facts(older)
    assert [name for name, one in books[1].parameters() if one.requires_grad] == names[:1]


# --------------------------------------------------------------------------------- further state


class Average:
    """Gives copies of its tensors and takes them back: they are not alive."""

    def __init__(self) -> None:
        self.shadow: dict[str, Tensor] = {}
        self.history: list[float] = []

    def state_dict(self) -> dict[str, Any]:
        shadow = {name: tensor.clone() for name, tensor in self.shadow.items()}
        return {"shadow": shadow, "history": list(self.history), "pair": (1, None)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        assert state["pair"] == (1, None)
        self.shadow = dict(state["shadow"])
        self.history = list(state["history"])


def a_book() -> tuple[StateBook, nn.Module]:
    model = nn.Linear(2, 2)
    return StateBook(model, torch.optim.SGD(model.parameters())), model


def test_further_objects_are_saved_and_given_back() -> None:
    giver, _ = a_book()
    taker, _ = a_book()
    average, received = Average(), Average()
    average.shadow = {"weight": torch.randn(2, 2), "0.bias": torch.randn(2)}
    average.history = [1.5, float("nan")]
    module, other = nn.BatchNorm1d(3), nn.BatchNorm1d(3)
    module.running_mean = torch.randn(3)
    counter, counted = torch.tensor([5]), torch.tensor([0])
    for book, things in ((giver, (average, module, counter)), (taker, (received, other, counted))):
        for name, thing in zip(("ema", "norm", "seen"), things, strict=True):
            book.add(name, thing)
    assert {"extra/ema/shadow/weight", "extra/norm/running_mean", "extra/seen"} <= set(
        giver.tensors()
    )
    hand_over(giver, taker)
    assert torch.equal(received.shadow["weight"], average.shadow["weight"])
    assert torch.equal(received.shadow["0.bias"], average.shadow["0.bias"])
    assert received.history[0] == 1.5
    assert torch.equal(other.running_mean, module.running_mean)  # type: ignore[arg-type]
    assert counted.item() == 5
    assert taker.digest() == giver.digest()


@pytest.mark.parametrize(
    "value", [b"bytes", print, {1}, object(), torch.zeros(2).to_sparse()], ids=lambda v: str(v)[:8]
)
def test_an_object_with_something_else_is_an_error_that_names_it(value: object) -> None:
    class Odd:
        def state_dict(self) -> dict[str, Any]:
            return {"inner": {"odd": [value]}}

        def load_state_dict(self, state: dict[str, Any]) -> None:
            raise AssertionError

    book, _ = a_book()
    book.add("thing", Odd())
    with pytest.raises(UnsavableState, match="extra/thing/inner/odd/0"):
        book.records()
        book.facts()


@pytest.mark.parametrize("name", ["", "a/b", "../x", "scheduler", "taken", "a b", "x" * 101])
def test_names_of_further_state_are_plain_and_given_once(name: str) -> None:
    book, _ = a_book()
    book.add("taken", torch.zeros(1))
    with pytest.raises(UnsavableState, match="cannot be called"):
        book.add(name, torch.zeros(1))


def test_what_has_no_state_dict_cannot_be_added() -> None:
    book, _ = a_book()
    with pytest.raises(UnsavableState, match="no state_dict"):
        book.add("number", 3)


def test_extra_state_of_modules_is_saved() -> None:
    class Scaled(nn.Linear):
        def __init__(self) -> None:
            super().__init__(2, 2)
            self.history: Any = [1.0, torch.ones(2)]

        def get_extra_state(self) -> Any:  # noqa: ANN401 - as torch declares it
            return self.history

        def set_extra_state(self, state: Any) -> None:  # noqa: ANN401
            self.history = state

    scaled = [Scaled() for _ in range(2)]
    models = [nn.Sequential(one) for one in scaled]
    books = [StateBook(model, torch.optim.SGD(model.parameters())) for model in models]
    scaled[0].history = [2.5, torch.full((2,), 3.0)]
    hand_over(*books)
    first, second = scaled[1].history
    assert first == 2.5
    assert second.tolist() == [3.0, 3.0]


# -------------------------------------------------------------------------------- what is refused


def changed(records: tuple[TensorRecord, ...], name: str, **to: Any) -> list[TensorRecord]:
    return [
        whole(name, to.get("dtype", record.dtype), to.get("shape", record.shape))
        if record.name == name
        else record
        for record in records
    ]


def test_other_state_is_refused_by_name_type_and_shape() -> None:
    model = a_net()
    book = StateBook(model, torch.optim.AdamW(model.parameters()))
    records = book.records()
    assert book.fit(records) == records
    with pytest.raises(StateMismatch, match="it has no model/scale"):
        book.fit([record for record in records if record.name != "model/scale"])
    with pytest.raises(StateMismatch, match="this program has no model/other") as caught:
        book.fit([*records, whole("model/other", "float32", ())])
    assert caught.value.hint
    with pytest.raises(StateMismatch, match="float64"):
        book.fit(changed(records, "model/scale", dtype="float64"))
    with pytest.raises(StateMismatch, match=r"\[2\]"):
        book.fit(changed(records, "model/scale", shape=(2,)))
    for name in ("optimizer/other/step", "optimizer/step", "extra/ema/x", "extra/scheduler/x"):
        with pytest.raises(StateMismatch):
            book.fit([*records, whole(name, "float32", ())])
        with pytest.raises(StateMismatch):
            book.allocate([whole(name, "float32", ())])


@pytest.mark.parametrize(
    "change",
    [
        lambda facts: facts.pop("optimizer"),
        lambda facts: facts["optimizer"].update(kind="Adagrad"),
        lambda facts: facts["optimizer"]["groups"].pop(),
        lambda facts: facts["optimizer"]["groups"][0]["params"].pop(),
        lambda facts: facts["optimizer"]["groups"][0]["params"].insert(0, "other"),
        lambda facts: facts["optimizer"].update(groups=3),
        lambda facts: facts["optimizer"].pop("state"),
        lambda facts: facts["optimizer"].update(state={"weight": 3}),
        lambda facts: facts["optimizer"]["groups"][0].pop("options"),
        lambda facts: facts["optimizer"]["groups"][0].update(options=[1]),
        lambda facts: facts["optimizer"]["groups"][0]["options"].update(
            lr={"$": "leaf", "of": 3}, momentum=7.0
        ),
        lambda facts: facts["optimizer"]["groups"][0]["options"].update(
            momentum=7.0, weight_decay={"$": "import", "of": "os"}
        ),
        lambda facts: facts["objects"].update({"extra/x": 1}),
        lambda facts: facts["objects"].pop("extra/seen"),
        lambda facts: facts["objects"].update({"extra/seen": {"$": "leaf", "of": "model/bias"}}),
        lambda facts: facts["objects"].update({"extra/seen": {"$": "leaf", "of": ["x"]}}),
        lambda facts: facts["objects"].update({"extra/seen": {"$": "os.system", "of": "x"}}),
    ],
)
def test_other_facts_are_refused(change: Callable[[Any], object]) -> None:
    book, _ = a_book()
    book.add("seen", torch.zeros(1))
    facts = book.facts()
    change(facts)
    book.tensors()
    with pytest.raises(StateMismatch):
        book.load_facts(facts)
    assert book.optimizer.param_groups[0]["momentum"] == 0


def test_options_of_another_version_of_torch_are_passed_over() -> None:
    book, _ = a_book()
    facts = book.facts()
    facts["optimizer"]["groups"][0]["options"]["not_yet_invented"] = True
    facts["optimizer"]["groups"][0]["options"]["params"] = []
    del facts["optimizer"]["groups"][0]["options"]["foreach"]
    book.load_facts(facts)
    assert "not_yet_invented" not in book.optimizer.param_groups[0]
    assert book.optimizer.param_groups[0]["params"]


def test_the_digest_sees_every_change() -> None:
    model = a_net()
    optimizer = torch.optim.AdamW(model.parameters())
    train(model, optimizer, range(1))
    book = StateBook(model, optimizer)
    digests = {book.digest()}
    assert book.digest() in digests
    for name, tensor in book.tensors().items():
        before = tensor.clone()
        tensor.add_(1)
        digests.add(book.digest())
        tensor.copy_(before)
        assert len(digests) > 1, name
    optimizer.param_groups[0]["lr"] = 0.5
    digests.add(book.digest())
    assert len(digests) == len(book.tensors()) + 2


# ---------------------------------------------------------------------------------- sharded tensors


@pytest.fixture
def group_of() -> Iterator[Callable[[int, int], None]]:
    """Be one rank of a world whose other ranks do not exist."""

    def start(rank: int, world: int) -> None:
        if dist.is_initialized():
            dist.destroy_process_group()
        # Layouts are cached by the shape of a mesh, whose coordinate is that of the former rank.
        _clear_sharding_prop_cache()  # type: ignore[no-untyped-call]
        dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world)

    yield start
    if dist.is_initialized():
        dist.destroy_process_group()


@pytest.mark.parametrize("shape", [(7,), (2, 3), (8, 5, 2), (3, 1)])
@pytest.mark.parametrize("world", [2, 4])
def test_boxes_of_shards_are_those_of_torch(
    shape: tuple[int, ...], world: int, group_of: Callable[[int, int], None]
) -> None:
    boxes = []
    for rank in range(world):
        group_of(rank, world)
        mesh = init_device_mesh("cpu", (world,))
        full = torch.arange(float(torch.Size(shape).numel())).reshape(shape)
        model = nn.Module()
        sharded = distribute_tensor(full, mesh, [Shard(0)], src_data_rank=None)
        model.weight = nn.Parameter(sharded)
        copied = distribute_tensor(full, mesh, [Replicate()], src_data_rank=None)
        model.register_buffer("copied", copied)
        book = StateBook(model, torch.optim.SGD(model.parameters()))
        copy_record, record = book.records()
        sizes, offsets = compute_local_shape_and_global_offset(shape, mesh, [Shard(0)])
        assert (record.sizes, record.offsets) == (sizes, offsets)
        assert copy_record == whole("model/copied", "float32", shape)
        part = tuple(slice(o, o + s) for o, s in zip(offsets, sizes, strict=True))
        assert torch.equal(book.tensors()["model/weight"], full[part])
        boxes.append(record)
    check_whole(boxes)


def test_a_grid_of_shards_is_described(group_of: Callable[[int, int], None]) -> None:
    boxes = []
    for rank in range(4):
        group_of(rank, 4)
        mesh = init_device_mesh("cpu", (2, 2))
        model = nn.Module()
        full = torch.arange(15.0).reshape(5, 3)
        sharded = distribute_tensor(full, mesh, [Shard(0), Shard(1)], src_data_rank=None)
        model.weight = nn.Parameter(sharded)
        optimizer = torch.optim.AdamW(model.parameters())
        book = StateBook(model, optimizer)
        (record,) = book.records()
        boxes.append(record)
        book.allocate([whole("optimizer/weight/exp_avg", "float32", (5, 3))])
        assert book.records()[1].sizes == record.sizes
        with pytest.raises(StateMismatch):
            book.allocate([whole("optimizer/weight/row_var", "float32", (5, 1))])
    check_whole(boxes)
