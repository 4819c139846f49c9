"""Figures of all workers, in loops and behind them, across resizes and losses; and never a hang."""

import signal
import warnings
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.optim import SGD
from torch.utils.data import TensorDataset

from tests.train.driving import Driven, driven
from tests.train.lines import finals
from weft.model.errors import SpecError
from weft.train import api
from weft.train.data.loops import Loops
from weft.train.state.progress import Progress

PER_PASS = [5, 4, 4, 4, 4, 4]  # steps of 12 in passes of 50: 60, 108, 156, 204, 252, 300


def check_ends(job: Driven, passes: int) -> None:
    (job.folder / "hurry").touch()
    assert job.wait() == 0, job.logs()
    ends = finals(job.lines())
    assert ends
    assert {end["steps"] for end in ends} == {sum(PER_PASS[:passes])}
    assert len({end["digest"] for end in ends}) == 1


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_inside_a_loop_all_come_to_the_same(tmp_path: Path) -> None:
    with driven(tmp_path, "figures.py", "inside", "6", "0.15", agent=("-n", "1")) as job:
        job.reached(4)
        job.order("resize 3")
        epoch = job.steady(3)["epoch"]
        job.reached(job.newest_step + 2)
        job.signal(signal.SIGKILL, worker=0)
        job.steady(3, after=epoch)
        check_ends(job, 6)
    losses: dict[int, set[float]] = defaultdict(set)
    for line in job.lines():
        if line.get("stepped"):
            losses[line["step"]].add(line["loss"])
    assert sorted(losses) == list(range(sum(PER_PASS)))
    assert all(len(seen) == 1 for seen in losses.values()), losses


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_behind_a_loop_with_tensors_of_other_sizes(tmp_path: Path) -> None:
    """Larger than a message; and a worker that comes later passes through what is over."""
    with driven(tmp_path, "figures.py", "behind", "6", "0.2", agent=("-n", "1")) as job:
        job.reached(6)
        job.order("resize 3")
        job.steady(3)
        check_ends(job, 6)
    lines = [line for line in job.lines() if "evaluated" in line]
    assert [line["steps"] for line in job.lines(0) if "evaluated" in line] == [5, 9, 13, 17, 21, 25]
    assert lines[-1]["sizes"] == [1, 2, 3]
    assert lines[-1]["values"] == [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]
    assert {line["mean"] for line in lines} == {0.0, 1.0}
    assert not any(line["worker"] != "0" and line["evaluated"] == 0 for line in lines)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_who_is_lost_behind_a_loop_is_not_waited_for(tmp_path: Path) -> None:
    """The evaluation is done by another crew, and no step is repeated."""
    with driven(tmp_path, "figures.py", "behind", "3", "0", "kill", agent=("-n", "2")) as job:
        check_ends(job, 3)
    steps = [line["step"] for line in job.lines() if line.get("stepped")]
    assert all(steps.count(step) == 2 for step in range(sum(PER_PASS[:3])))
    lines = [line for line in job.lines() if line.get("evaluated") == 1]
    assert lines
    assert {tuple(line["sizes"]) for line in lines} == {(3, 4)}, "by workers 2 and 3"


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_mean_that_one_worker_asks_for_is_refused_in_time(tmp_path: Path) -> None:
    agent = ("-n", "2", "--hang", "6")
    with driven(tmp_path, "figures.py", "one", "2", "0", agent=agent) as job:
        assert job.wait() == 1, job.logs()
        assert "worker 1 has not come to weft.mean() within 3 s" in job.logs()


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_mean_without_the_question_is_refused_at_the_first_step(tmp_path: Path) -> None:
    with driven(tmp_path, "figures.py", "unguarded", "2", "0", agent=("-n", "1")) as job:
        assert job.wait() == 1, job.logs()
        assert "write `if weft.stepped():` before it" in job.logs()


# ------------------------------------------------------------------------------ in one process


def test_alone_a_figure_is_its_own_mean() -> None:
    model, opt = api.prepare(nn.Linear(2, 2), lambda p: SGD(p, 0.1))
    loader = api.loader(torch.randn(8, 2), 4, micro=2)
    seen = []
    for mb in api.steps(loader):
        loss = model(mb.x).square().mean()
        api.backward(loss)
        opt.step()
        if api.stepped():
            assert torch.equal(api.mean(loss, weight=3), loss.detach())
            assert api.mean(2.5) == 2.5
            seen.append(api.gather(mb.x))
        else:
            with pytest.raises(SpecError, match="where not all workers may come"):
                api.mean(loss)
    assert [len(found) for found in seen] == [1, 1]
    with pytest.raises(SpecError, match="where not all workers may come"):
        api.gather(1.0)
    assert api.stepped()
    assert torch.equal(api.gather(torch.empty(0, 3))[0], torch.empty(0, 3))


def test_a_pass_over_a_stream_is_refused() -> None:
    class Stream(torch.utils.data.IterableDataset[torch.Tensor]):
        def __iter__(self) -> Iterator[torch.Tensor]:
            yield torch.ones(2)

    api.prepare(nn.Linear(2, 2), lambda p: SGD(p, 0.1))
    with pytest.raises(SpecError, match="a pass over a stream"):
        next(api.steps(api.loader(Stream(), 4)))


def test_passes_end_where_each_sample_was_used() -> None:
    loader, other = (api.loader(torch.randn(size, 1), 12) for size in (50, 5))
    loops, ends = Loops(), []
    progress = Progress(())
    for one in (loader, loader, other, loader, other):
        loops.enter(one)
        progress = progress.in_next_loop()
        end = loops.end_of_pass(progress)
        ends.append(end - progress.steps)
        while progress.steps < end:
            progress = progress.stepped()
            assert loops.end_of_pass(progress) == end, "it moves"
    assert ends == [5, 4, 1, 4, 1]


def test_a_loss_may_be_given_with_all_that_it_was_computed_from() -> None:
    """Nobody is warned of a conversion that is ours."""
    torch.set_warn_always(True)
    model, opt, sched = api.prepare(
        nn.Linear(2, 1),
        lambda p: torch.optim.SGD(p, 0.1),
        torch.optim.lr_scheduler.ReduceLROnPlateau,
    )
    loader = api.loader(TensorDataset(torch.ones(8, 2)), 4)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for (x,) in api.steps(loader, total=2):
                loss = model(x).mean()
                api.backward(loss, weight=torch.tensor(4.0, requires_grad=True))
                opt.step()
                sched.step(loss)
                api.metric(loss=loss)
    finally:
        torch.set_warn_always(False)
    assert api.current().metrics["loss"] == loss.item()
