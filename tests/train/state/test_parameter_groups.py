"""Parameter groups that a script changes while it trains are a part of the state."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from weft.agent.checkpoint.document import Json
from weft.agent.checkpoint.errors import StateMismatch, UnsavableState
from weft.model.errors import SpecError
from weft.train import api
from weft.train.session import Session
from weft.train.state.book import StateBook
from weft.train.state.intake import Intake

torch.set_num_threads(1)


class Program:
    """A model of which an optimizer moves the head, a scale of no module, and the body later."""

    def __init__(self, seed: int = 0, *, rate: float | Tensor = 0.1) -> None:
        torch.manual_seed(seed)
        self.body, self.head = nn.Linear(3, 4), nn.Linear(4, 2)
        self.scales = [nn.Parameter(torch.ones(())), nn.Parameter(torch.ones(()))]
        self.model = nn.Sequential(self.body, nn.Tanh(), self.head)
        groups = [{"params": [*self.head.parameters()]}, {"params": [self.scales[0]]}]
        groups.append({"params": [self.scales[1]]})
        self.optimizer = torch.optim.Adam(groups, lr=rate, foreach=False)
        self.book = StateBook(self.model, self.optimizer)

    def train(self, steps: range) -> None:
        for step in steps:
            torch.manual_seed(100 + step)
            self.model.zero_grad()
            loss = (self.model(torch.randn(8, 3)) * self.scales[0] + self.scales[1]).square()
            loss.mean().backward()
            self.optimizer.step()
            for scale in self.scales:
                scale.grad = None

    def receive(self, giver: "Program") -> None:
        """As a resumed run or a worker that joins does, with facts that went through JSON."""
        facts = json.loads(json.dumps(giver.book.facts(), allow_nan=False))
        given = {name: tensor.clone() for name, tensor in giver.book.tensors().items()}
        intake = Intake(self.book, giver.book.records(), facts)
        intake.make_room()
        for record in giver.book.records():
            intake.put(record, given[record.name])
        intake.finish()


def added(program: Program) -> None:
    group = {"params": program.body.parameters(), "lr": 0.3, "betas": (0.8, 0.9), "name": "body"}
    program.optimizer.add_param_group(group)


def added_in_two(program: Program) -> None:
    program.optimizer.add_param_group({"params": program.body.bias, "lr": 0.3})
    program.optimizer.add_param_group({"params": [program.body.weight], "lr": 0.2})


def merged(program: Program) -> None:
    first, second, _ = program.optimizer.param_groups
    first["params"].extend(second["params"])
    del program.optimizer.param_groups[1]


def removed(program: Program) -> None:
    del program.optimizer.param_groups[0]


def removed_scale(program: Program) -> None:
    """The parameters of no module that stay must not take its number."""
    del program.optimizer.param_groups[1]


def replaced(program: Program) -> None:
    removed(program)
    added(program)


CHANGES: dict[str, Callable[[Program], None]] = {
    one.__name__: one for one in (added, added_in_two, merged, removed, removed_scale, replaced)
}


@pytest.mark.parametrize("name", CHANGES)
def test_training_goes_on_with_the_groups_that_were_saved(name: str) -> None:
    giver, taker = Program(0), Program(1)
    held = taker.optimizer.param_groups, taker.optimizer.param_groups[0]
    giver.train(range(3))
    CHANGES[name](giver)
    giver.train(range(3, 6))
    taker.receive(giver)
    assert taker.book.digest() == giver.book.digest()
    for program in (giver, taker):
        program.train(range(6, 9))
    assert taker.book.digest() == giver.book.digest()
    assert taker.optimizer.param_groups is held[0]
    assert taker.optimizer.param_groups[0] is held[1]
    again = Program(2)
    again.receive(taker)
    assert again.book.digest() == giver.book.digest(), "a resumed run saves what it has loaded"


def test_what_the_optimizer_keeps_of_a_parameter_outlives_its_group() -> None:
    """As in plain PyTorch, where it counts again if the parameter comes back into a group."""
    giver, taker = Program(0), Program(1)
    giver.train(range(3))
    (removed_group, *_) = giver.optimizer.param_groups
    removed(giver)
    giver.train(range(3, 5))
    taker.receive(giver)
    for program in (giver, taker):
        options = {key: value for key, value in removed_group.items() if key != "params"}
        program.optimizer.add_param_group({**options, "params": [*program.head.parameters()]})
        program.train(range(5, 8))
    assert taker.book.digest() == giver.book.digest()
    assert taker.optimizer.state[taker.head.bias]["step"].item() == 6


def test_a_worker_that_has_more_groups_than_the_others_has_theirs_afterwards() -> None:
    """It has added them in its warm-up, in which a script finds step 0."""
    giver, taker = Program(0), Program(1)
    taker.book.enter_loop()
    added(taker)
    taker.train(range(2))
    giver.train(range(2))
    taker.receive(giver)
    assert taker.book.digest() == giver.book.digest()
    for program in (giver, taker):
        added(program)
        program.train(range(2, 4))
    assert taker.book.digest() == giver.book.digest()


def test_a_rate_that_is_a_tensor_is_one_in_a_group_that_is_made_up_again() -> None:
    giver, taker = Program(0, rate=torch.tensor(0.1)), Program(1, rate=torch.tensor(0.1))
    first = taker.optimizer.param_groups[0]["lr"]
    added(giver)
    giver.optimizer.param_groups[3]["lr"] = torch.tensor(0.25, dtype=torch.float64)
    giver.train(range(2))
    taker.receive(giver)
    rate = taker.optimizer.param_groups[3]["lr"]
    assert isinstance(rate, Tensor)
    assert (rate.dtype, rate.item()) == (torch.float64, 0.25)
    assert taker.optimizer.param_groups[0]["lr"] is first, "groups that are alike stay"


def test_groups_are_made_up_before_there_is_room_for_their_state() -> None:
    """On a device, a capturable group keeps its counters beside the parameters."""
    giver, taker = Program(0), Program(1)
    added(giver)
    giver.optimizer.param_groups[3]["capturable"] = True
    intake = Intake(taker.book, giver.book.records(), giver.book.facts())
    intake.make_room()
    beside = {name: of_it for name, (_, of_it) in taker.book._owners().items()}
    assert (beside["0.bias"], beside["2.bias"]) == (True, False)


def test_a_step_that_is_made_again_begins_with_the_groups_of_its_first_attempt() -> None:
    program = Program()
    groups = program.optimizer.param_groups
    head, names = groups[0], program.book.groups.names(program.book.parameters())
    program.book.groups.remember()
    for _ in range(2):
        added(program)
        groups.remove(groups[1])
        head["lr"] *= 0.1
        program.book.groups.restore()
        assert program.book.groups.names(program.book.parameters()) == names
        assert (groups[0] is head, head["lr"]) == (True, 0.1)


# -------------------------------------------------------------------------------- what is refused


def unlike(change: Callable[[Any], object]) -> Json:
    program = Program()
    added(program)
    facts = program.book.facts()
    change(facts["optimizer"])
    return facts


@pytest.mark.parametrize(
    ("why", "change"),
    [
        ("made up otherwise", lambda facts: facts["prepared"].reverse()),
        ("made up otherwise", lambda facts: facts.pop("prepared")),
        ("its optimizer has other", lambda facts: facts["groups"][3]["params"].append("other")),
        ("two of its groups", lambda facts: facts["groups"][3]["params"].append("2.bias")),
        ("not as they must be", lambda facts: facts.update(prepared=3)),
        ("not as they must be", lambda facts: facts.update(moved=[[]])),
        ("not as they must be", lambda facts: facts["groups"][3].update(params=[None])),
        (
            "not as they must be",
            lambda facts: facts["groups"][3]["options"].update(lr={"$": "leaf", "of": ["os", 1]}),
        ),
        (
            "not as they must be",
            lambda facts: facts["groups"][3]["options"].update(
                lr={"$": "leaf", "of": ["int8", 300]}
            ),
        ),
    ],
)
def test_groups_of_another_program_are_refused_before_anything_changes(
    why: str, change: Callable[[Any], object]
) -> None:
    program = Program()
    with pytest.raises(StateMismatch, match=why):
        Intake(program.book, program.book.records(), unlike(change))
    assert len(program.optimizer.param_groups) == 3


def test_a_group_that_the_script_has_added_before_its_loop_is_not_dropped_in_silence() -> None:
    """The run was begun without it: that is another program now."""
    giver, taker = Program(), Program()
    giver.book.enter_loop()
    added(taker)
    taker.book.enter_loop()
    with pytest.raises(StateMismatch, match=r"only this optimizer has 0\.bias, 0\.weight"):
        taker.receive(giver)
    added(giver)
    taker.receive(giver)
    assert len(taker.optimizer.param_groups) == 4


def a_new_layer(program: Program, _: Optimizer) -> None:
    program.model.add_module("late", nn.Linear(2, 2))


def a_larger_buffer(program: Program, _: Optimizer) -> None:
    program.model.queue = torch.zeros(7)


def a_lost_buffer(program: Program, _: Optimizer) -> None:
    del program.model.queue


def a_parameter_of_no_module(_: Program, optimizer: Optimizer) -> None:
    group = {"params": [nn.Parameter(torch.ones(2))]}
    Optimizer.add_param_group(optimizer, group)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (a_new_layer, "model/late.bias"),
        (a_larger_buffer, "model/queue"),
        (a_lost_buffer, "model/queue"),
        (a_parameter_of_no_module, r"model/outside.2 \(of no module\)"),
    ],
)
def test_what_a_resumed_run_could_not_load_is_refused_before_it_is_saved(
    change: Callable[[Program, Optimizer], None], name: str
) -> None:
    program, in_time = Program(), Program()
    for one in (program, in_time):
        one.model.register_buffer("queue", torch.zeros(3))
    change(in_time, in_time.optimizer)
    for one in (program, in_time):
        one.book.enter_loop()
        one.book.look()
    change(program, program.optimizer)
    with pytest.raises(UnsavableState, match=f"shape: {name}") as refused:
        program.book.look()
    assert "before the loop" in str(refused.value.hint)


def test_a_job_is_told_when_its_script_makes_what_a_resumed_run_would_lack(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At the call, and only in the loop's body, which a resumed run does not repeat."""
    model, opt = api.prepare(nn.Linear(2, 2), lambda p: torch.optim.SGD(p, 0.1))
    opt.add_param_group({"params": [nn.Parameter(torch.ones(()))]})
    api.state(before=torch.zeros(1))
    api.current().book.enter_loop()
    monkeypatch.setattr(Session, "in_loop", property(lambda self: self._open.micro is not None))
    for mb in api.steps(api.loader(torch.ones(4, 2), 2), total=2):
        with pytest.raises(UnsavableState, match=r"model/outside\.\d \(of no module\)"):
            opt.add_param_group({"params": [nn.Parameter(torch.ones(()))]})
        with pytest.raises(SpecError, match=r"weft.state\(late=...\) inside the loop"):
            api.state(late=torch.zeros(1))
        api.backward(model(mb.x).mean())
        opt.step()
    api.state(behind=torch.zeros(1))
