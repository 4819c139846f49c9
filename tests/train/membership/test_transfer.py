"""State from one program to another in the same process: by name, in parts, and checked."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.train.groups.test_group import two
from weft.agent.checkpoint.layout import TensorRecord, whole
from weft.agent.messages import STATELESS
from weft.model.errors import WorldError
from weft.train.groups.group import EpochGroups
from weft.train.membership import handover as handover_module
from weft.train.membership import transfer
from weft.train.membership import units as units_module
from weft.train.membership.handover import Handover
from weft.train.membership.units import REST, Roles, Unit, dealt, units
from weft.train.state.book import StateBook

pytestmark = [pytest.mark.enable_socket, pytest.mark.timeout(60)]

Weights = Iterable[nn.Parameter]
Make = Callable[[Weights], torch.optim.Optimizer]
ROLES = Roles((0,), (1,))
EXPERTS = 4
WIDTH = 64


class Mixture(nn.Module):
    """Experts of which a batch uses one, and a buffer that every forward pass changes."""

    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(EXPERTS))
        self.register_buffer("count", torch.zeros(3))

    def forward(self, x: Tensor, expert: int) -> Tensor:
        self.count += 1
        return self.experts[expert](x)  # type: ignore[no-any-return]


class Program:
    """One process' program, with what it needs to give or to take the state."""

    def __init__(self, seed: int, make: Make) -> None:
        torch.manual_seed(seed)
        self.model = Mixture()
        self.average = torch.rand(200, 500)
        self.optimizer = make(self.model.parameters())
        self.book = StateBook(self.model, self.optimizer)
        self.book.add("average", self.average)
        self.handover = Handover(self.book, lambda: False)

    def train(self, expert: int, seed: int) -> None:
        """A step on gradients that are the same for whoever makes it."""
        self.optimizer.zero_grad()
        generator = torch.Generator().manual_seed(seed)
        for parameter in self.model.experts[expert].parameters():
            parameter.grad = torch.randn(parameter.shape, generator=generator)
        self.optimizer.step()


def adamw(parameters: Weights) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=0.1)


def heavy_ball(parameters: Weights) -> torch.optim.Optimizer:
    """Its momentum depends on the weight, so that the two have to come together."""
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.1)


@contextmanager
def joined() -> Iterator[tuple[EpochGroups, EpochGroups]]:
    with two() as votes, two() as state:
        ends = [EpochGroups(1, (0, 1), 1, votes[n], state[n], votes[n]) for n in range(2)]
        yield ends[0], ends[1]


def hand_over(
    groups: tuple[EpochGroups, EpochGroups], programs: tuple[Program, Program], *, whole: bool
) -> int | None:
    """One portion; the step that the newcomer has received, if it has everything now."""

    def take_part(end: int) -> int | None:
        handover = programs[end].handover
        handover.begin(groups[end], ROLES, 7 if end == 0 else STATELESS, whole=whole)
        return handover.agreed(groups[end].votes)

    with ThreadPoolExecutor() as threads:
        return list(threads.map(take_part, range(2)))[1]


@pytest.mark.parametrize("make", [adamw, heavy_ball])
def test_a_newcomer_that_has_used_another_expert_becomes_as_the_donor(
    make: Make,
) -> None:
    """Its optimizer has state that the donor's has not, and lacks what the donor's has."""
    donor, newcomer = Program(1, make), Program(2, make)
    for expert in (0, 1):
        donor.train(expert, seed=expert)
    newcomer.train(3, seed=3)
    with joined() as groups:
        assert hand_over(groups, (donor, newcomer), whole=True) == 7
    assert newcomer.book.digest() == donor.book.digest()
    for program in (donor, newcomer):
        program.train(3, seed=9)
    assert newcomer.book.digest() == donor.book.digest(), "what was forgotten is made anew"


def test_what_the_body_of_the_step_changes_reaches_a_newcomer() -> None:
    """The body runs while the state is sent; the newcomer does not know which step it is in."""
    programs = Program(1, adamw), Program(2, adamw)
    donor, newcomer = programs

    def take_part(end: int) -> int | None:
        handover, program = programs[end].handover, programs[end]
        handover.begin(groups[end], ROLES, 7 if end == 0 else STATELESS, whole=True)
        if program is donor:
            (group,) = program.optimizer.param_groups
            group["lr"] = 0.025
            moved = group["params"].pop()
            program.optimizer.add_param_group({"params": [moved], "lr": 0.5})
            program.model.experts[0].requires_grad_(False)
        return handover.agreed(groups[end].votes)

    donor.train(0, seed=0)
    with joined() as groups, ThreadPoolExecutor() as threads:
        assert list(threads.map(take_part, range(2)))[1] == 7
    assert [group["lr"] for group in newcomer.optimizer.param_groups] == [0.025, 0.5]
    assert not newcomer.model.experts[0].weight.requires_grad
    assert newcomer.book.digest() == donor.book.digest()


@pytest.mark.parametrize("make", [adamw, heavy_ball])
def test_what_has_arrived_is_kept_up_to_date_until_all_is_there(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handover_module, "GRACE_SECONDS", 0.0)
    monkeypatch.setattr(units_module, "BUNDLE_BYTES", 0)
    donor, newcomer = programs = Program(1, make), Program(2, make)
    for expert in range(3):
        donor.train(expert, seed=expert)
    parts, received = 0, None
    with joined() as groups:
        while received is None:
            received = hand_over(groups, programs, whole=False)
            parts += 1
            for program in programs:
                program.train(parts % EXPERTS, seed=100 + parts)
    assert parts > 2, "it went in one piece"
    assert newcomer.book.digest() == donor.book.digest()


def test_a_program_that_cannot_be_followed_gets_everything_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Weights that depend on each other are wrong where only some have arrived."""
    monkeypatch.setattr(handover_module, "GRACE_SECONDS", 0.0)
    monkeypatch.setattr(units_module, "BUNDLE_BYTES", 0)
    donor, newcomer = programs = Program(1, adamw), Program(2, adamw)
    donor.train(0, seed=0)

    def mix(program: Program) -> None:
        with torch.no_grad():
            first, *_, last = program.model.parameters()
            first[0, 0] += last.sum()

    with (
        pytest.raises(WorldError, match="could not hand over"),
        joined() as groups,
    ):
        while hand_over(groups, programs, whole=False) is None:
            for program in programs:
                mix(program)
    for program in programs:
        program.handover.forget()
    with joined() as groups:
        assert hand_over(groups, programs, whole=False) == 7
    assert newcomer.book.digest() == donor.book.digest()


def test_who_fails_says_so_and_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    donor, newcomer = programs = Program(1, adamw), Program(2, adamw)
    newcomer.book.add("more", torch.zeros(3))
    with joined() as groups, pytest.raises(WorldError, match=r"hand over|cut|closed|has no|reset"):
        hand_over(groups, programs, whole=True)
    assert isinstance(donor.handover._transfer, transfer.Sending)


RECORDS = st.lists(
    st.tuples(
        st.sampled_from(["model/", "optimizer/", "extra/"]),
        st.text("abc", min_size=1, max_size=3),
        st.integers(0, 3_000_000),
    ),
    unique_by=lambda one: one[:2],
    max_size=12,
)


@given(described=RECORDS, donors=st.integers(1, 4), joiners=st.integers(1, 3))
def test_each_element_is_sent_once_by_one_donor(
    described: list[tuple[str, str, int]], donors: int, joiners: int
) -> None:
    records = [record(*one) for one in described]
    found = units(records, frozenset({"model/a"}))
    assert found[-1].name == REST
    assert sorted(r.name for unit in found for r in unit.records) == sorted(r.name for r in records)
    for one in records:
        sent = sorted(
            (run.start, run.stop)
            for unit in found
            for runs in unit.messages()
            for run in runs
            if run.record is one
        )
        covered = [index for start, stop in sent for index in (start, stop)]
        assert covered == sorted(covered)
        assert sum(stop - start for start, stop in sent) == one.elements
    roles = Roles(tuple(range(donors)), tuple(range(donors, donors + joiners)))
    for joiner in roles.joiners:
        deal = dealt(found, roles, joiner)
        assert set(deal) == {unit.name for unit in found}
        assert set(deal.values()) <= set(roles.donors)


def test_a_parameter_and_its_moments_are_of_one_unit() -> None:
    names = ["model/w", "optimizer/w/exp_avg", "optimizer/w/step", "model/x/_extra_state/y"]
    found = units([whole(name, "float32", (100_000,)) for name in names], frozenset())
    assert [unit.name for unit in found] == ["w", REST]
    assert [r.name for r in found[0].records] == names[:3]
    assert isinstance(found[1], Unit)


def record(root: str, name: str, elements: int) -> TensorRecord:
    key = "/exp_avg" if root == "optimizer/" else ""
    return whole(f"{root}{name}{key}", "float32", (elements,))
