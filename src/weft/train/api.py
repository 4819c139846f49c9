"""The five lines that a training script writes, and a few more that it may.

    import weft
    model, opt = weft.prepare(Net(), lambda p: AdamW(p, 3e-4))
    loader = weft.loader(dataset, global_batch=512)
    for mb in weft.steps(loader, total=10_000):
        loss = loss_fn(model(mb.x), mb.y)
        weft.backward(loss)
        opt.step(); opt.zero_grad()

The optimizer stays torch's own; only its `step` and `zero_grad` are replaced on the object, so that
they do nothing until the last micro-batch of a step was summed and voted for. A learning-rate
scheduler that `prepare` makes is held back alike. What belongs to a step and not to a micro-batch
(an average of weights, a log line) goes behind `if weft.stepped():`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Unpack, overload

from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler
from torch.optim import LBFGS, Optimizer, SparseAdam
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau
from torch.utils.data import DataLoader, IterableDataset

from weft.agent.plan import REPLICATED
from weft.model.errors import SpecError
from weft.train.data.loader import Loader, MicroBatch, Samples
from weft.train.data.loader_processes import Collate, ProcessOptions
from weft.train.data.taken_over import taken_over
from weft.train.figures import Figure, as_tensor, mean_of
from weft.train.gradients.communication import (
    Communication,
    communication_of,
    reduction_by,
    refuse_wrapped,
)
from weft.train.gradients.level import Level
from weft.train.gradients.scaling import hold_back, is_asked_by_scaler
from weft.train.groups.torch_group import (
    answer_with_a_word,
    refuse_own_group,
    refuse_sync_batch_norm,
)
from weft.train.membership.contact import find_contact
from weft.train.plans.applied import applied, meet
from weft.train.plans.hooks import Cut, Loss, hooks_of
from weft.train.run import log_dir, run_id, tell_trackers
from weft.train.session import Session
from weft.train.state.book import StateBook

__all__ = [
    "backward",
    "first",
    "gather",
    "loader",
    "log_dir",
    "mean",
    "metric",
    "on_rescale",
    "prepare",
    "run_id",
    "state",
    "stepped",
    "steps",
]

MakeOptimizer = Callable[[Iterable[nn.Parameter]], Optimizer]
MakeScheduler = Callable[[Optimizer], LRScheduler]

_session: Session | None = None


@overload
def prepare(
    model: nn.Module,
    make_optimizer: MakeOptimizer,
    *,
    determinism: str = ...,
    logical: int = ...,
    block: type[nn.Module] | None = ...,
    communication: str = ...,
    plans: Mapping[str, Cut] | None = ...,
    loss: Loss | None = ...,
) -> tuple[nn.Module, Optimizer]: ...


@overload
def prepare(
    model: nn.Module,
    make_optimizer: MakeOptimizer,
    make_scheduler: MakeScheduler,
    *,
    determinism: str = ...,
    logical: int = ...,
    block: type[nn.Module] | None = ...,
    communication: str = ...,
    plans: Mapping[str, Cut] | None = ...,
    loss: Loss | None = ...,
) -> tuple[nn.Module, Optimizer, LRScheduler]: ...


def prepare(  # noqa: PLR0913 - what is said of the training, by name
    model: nn.Module,
    make_optimizer: MakeOptimizer,
    make_scheduler: MakeScheduler | None = None,
    *,
    determinism: str = Level.SAME_MATH,
    logical: int = 8,
    block: type[nn.Module] | None = None,
    communication: str = Communication.WEFT,
    plans: Mapping[str, Cut] | None = None,
    loss: Loss | None = None,
) -> tuple[nn.Module, Optimizer] | tuple[nn.Module, Optimizer, LRScheduler]:
    """Make a model and its optimizer ready for any width and plan.

    Args:
        model: on the device where it is to train.
        make_optimizer: gets the parameters, because a plan may replace them.
        make_scheduler: gets the optimizer.
        determinism: `same_math` or `bitwise` (see docs/training.md).
        logical: parts of a batch that the bitwise level computes and sums one by one.
        block: the layer that repeats, which a sharded plan gathers one at a time.
        communication: `weft`, or `ddp` for sums by torch's own DistributedDataParallel.
        plans: functions that cut the model, `tensor` and `pipeline` (see docs/plans.md).
        loss: of the model's output and the targets; the loop then says `loss = model(x, y)`.
    """
    global _session  # noqa: PLW0603 - one process trains one model
    contact, level = find_contact(), Level(determinism)
    plan, hooks = contact.plan if contact else REPLICATED, hooks_of(plans, loss, block)
    by = communication_of(communication, level, plan, fixed=plans is None)
    refuse_wrapped(model)
    refuse_own_group()
    refuse_sync_batch_norm(model)
    if contact is not None and _session is not None:
        raise _prepared_twice()
    tell_trackers()
    if contact is not None and plan.unit > 1:
        meet(contact, next(model.parameters()).device)
    made = applied(model, plan, hooks)
    model = made.model
    optimizer = make_optimizer(model.parameters())
    _check_optimizer(optimizer)
    scheduler = make_scheduler(optimizer) if make_scheduler else None
    book = StateBook(model, optimizer, scheduler, elsewhere=made.elsewhere)
    session = Session(
        contact,
        book,
        reduction_by(by, level, book, logical, plan),
        optimizer.step,
        logical=logical if level is Level.BITWISE else None,
        offers=hooks.offers,
    )
    _session = session
    if contact is not None:
        answer_with_a_word(contact.shard)
    _hold_back(session, optimizer)
    if scheduler is None:
        return model, optimizer
    _hold_back_schedule(session, scheduler)
    return model, optimizer, scheduler


def loader(  # noqa: PLR0913 - what is said of the data, by name
    dataset: Samples,
    global_batch: int,
    *,
    seed: int = 0,
    shuffle: bool = True,
    micro: int | None = None,
    collate: Collate | None = None,
    workers: int = 0,
    fixed: bool = False,
    **options: Unpack[ProcessOptions],
) -> Loader:
    """The samples of a run, each exactly once per pass for any width (`weft.train.data.loader`).

    `num_workers` processes, `pin_memory` and the like are those of torch's DataLoader.
    """
    return Loader(
        dataset,
        global_batch,
        seed=seed,
        shuffle=shuffle,
        micro=micro,
        collate=collate,
        workers=workers,
        fixed=fixed,
        **options,
    )


def steps(samples: Loader | DataLoader[Any], total: int | None = None) -> Iterator[MicroBatch]:
    """Micro-batches until `total` optimizer steps are done, across resizes, losses and restarts.

    A DataLoader of torch's is taken over; its `batch_size` is the global batch.

    A script may have several such loops, one after the other; `total` counts the steps of all.
    Without it a loop is a pass over the data, or what is left of one that an earlier loop began.
    """
    loader = taken_over(samples) if isinstance(samples, DataLoader) else samples
    session = current()
    refuse_sync_batch_norm(session.book.model)
    if session.contact is None or session.contact.shard == 1:
        refuse_own_group()
    return session.steps(loader, total)


def backward(loss: Tensor, weight: float | Tensor | None = None) -> None:
    """In place of `loss.backward()`; the loss is the mean over the micro-batch.

    Args:
        loss: a mean over samples, or over `weight` things such as tokens.
        weight: of this micro-batch; the step's gradient is then the mean over all such things of
            the global batch, at any width.
    """
    current().backward(loss, None if weight is None else _number(weight))


def stepped() -> bool:
    """Whether the optimizer has stepped in this micro-batch.

    Behind a loop: whether this worker was there at its end, and has not come later.
    """
    return current().asked_stepped()


def mean(value: Figure, weight: float = 1.0) -> Figure:
    """The mean over all workers, for evaluations; behind `if weft.stepped():`."""
    return mean_of(value, weight, lambda mine: current().gather(mine, "mean"))


def gather(value: Tensor | float, group: None = None) -> list[Tensor]:
    """What each worker has, by rank; shapes may differ. Behind `if weft.stepped():`.

    There is one group, of all workers; torchmetrics says so by `group=None`.
    """
    if group is not None:
        raise SpecError("weft.gather() of a part of the workers", hint="leave the group out")
    return current().gather(as_tensor(value), "gather")


def first() -> bool:
    """Whether this process is the one that writes logs; true outside of any world."""
    return current().rank == 0


def metric(**values: float | Tensor) -> None:
    """Figures for whoever looks at the job: the newest of each is reported."""
    current().metrics.update({name: _number(value) for name, value in values.items()})


def state(**objects: Any) -> None:
    """More state to carry along: tensors, or objects with `state_dict` and `load_state_dict`.

    A GradScaler or a scheduler that is given here is held back like the optimizer.
    """
    session = current()
    for name, value in objects.items():
        _check_before_loop(session, name)
        _check_no_stream(name, value)
        session.book.add(name, value)
        if isinstance(value, GradScaler):
            hold_back(session, value)
        elif isinstance(value, LRScheduler):
            _hold_back_schedule(session, value)


def on_rescale(notice: Callable[[], None]) -> Callable[[], None]:
    """Call this whenever the width has changed, before the first step at the new one."""
    current().on_rescale.append(notice)
    return notice


def current() -> Session:
    """The session of this process."""
    if _session is None:
        raise SpecError("nothing is prepared", hint="call weft.prepare(model, ...) first")
    return _session


def _prepared_twice() -> SpecError:
    return SpecError(
        "weft.prepare() was called twice",
        hint="put all networks into one module, and their parameters into groups of one optimizer; "
        "who gets no gradient in a step is not moved in it",
    )


def _check_before_loop(session: Session, name: str) -> None:
    """A resumed run loads its state where the loop begins."""
    if session.in_loop:
        raise SpecError(
            f"weft.state({name}=...) inside the loop of weft.steps; a resumed run could not load "
            "its state, because it has no such object when its loop begins",
            hint="call weft.state before the loop",
        )


def _check_no_stream(name: str, value: object) -> None:
    """It is read ahead of the training, and on one worker only."""
    if isinstance(value, IterableDataset | DataLoader):
        raise SpecError(
            f"weft.state({name}=...) would save where the reading is, not where the training is",
            hint="leave it out: the loader asks a stream for its state, and saves that of the step",
        )


def _check_optimizer(optimizer: object) -> None:
    """Refuse what would come to something else at another width."""
    if isinstance(optimizer, list | tuple):
        raise SpecError(
            "several optimizers for one step",
            hint="use groups of one optimizer, or write one that steps them all",
        )
    if isinstance(optimizer, LBFGS):
        raise SpecError(
            "LBFGS computes the loss several times in a step, on one worker alone",
            hint="use an optimizer that steps by one gradient",
        )
    if isinstance(optimizer, SparseAdam):
        raise SpecError(
            "SparseAdam wants sparse gradients, and sums are dense",
            hint="use Adam; Embedding(sparse=True) may stay",
        )


def _hold_back(session: Session, optimizer: Optimizer) -> None:
    """Replace the methods that must not act before the vote."""

    def step(closure: Callable[[], Any] | None = None) -> None:
        if session is not _session:
            raise _prepared_twice()
        if closure is not None:
            raise SpecError(
                "opt.step(closure) would compute a step on one worker alone",
                hint="compute the loss in the loop, weft.backward(loss), opt.step()",
            )
        if is_asked_by_scaler() and not session.scaled:
            raise SpecError(
                "Weft does not know the GradScaler", hint="call weft.state(scaler=scaler) before"
            )
        _check_schedule(session, optimizer)
        session.optimizer_step()
        optimizer._opt_called = True  # type: ignore[attr-defined]  # else schedulers warn

    def zero_grad(set_to_none: bool = True) -> None:
        """Each step begins with zeros anyway, and gradients in hand must stay until it counts."""

    add = optimizer.add_param_group

    def add_param_group(param_group: dict[str, Any]) -> None:
        add(param_group)
        if session.in_loop:
            session.book.check_model()

    step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]  # else schedulers warn
    optimizer.add_param_group = add_param_group  # type: ignore[method-assign]
    optimizer.step = step  # type: ignore[assignment,method-assign]
    optimizer.zero_grad = zero_grad  # type: ignore[method-assign]


def _check_schedule(session: Session, optimizer: Optimizer) -> None:
    """A scheduler leaves its first rates in the optimizer; one that nobody knows is not carried."""
    if not session.scheduled and any("initial_lr" in group for group in optimizer.param_groups):
        raise SpecError(
            "Weft does not know the scheduler of this optimizer",
            hint="let weft.prepare(model, make_optimizer, make_scheduler) make it, or call "
            "weft.state(sched=sched)",
        )


def _number(value: float | Tensor) -> float:
    """A loss may be given as it is, with all that it was computed from."""
    return float(value.detach() if isinstance(value, Tensor) else value)


def _hold_back_schedule(session: Session, scheduler: LRScheduler) -> None:
    """It advances with steps that count; where it follows a figure, by the mean over all."""
    session.scheduled = True
    advance = scheduler.step
    follows = isinstance(scheduler, ReduceLROnPlateau)

    def scheduler_step(*arguments: Any, **named: Any) -> None:
        if not session.stepped:
            return
        if follows and arguments:
            arguments = (session.figures.common_mean(_number(arguments[0])), *arguments[1:])
        elif follows and "metrics" in named:
            named["metrics"] = session.figures.common_mean(_number(named["metrics"]))
        advance(*arguments, **named)

    scheduler.step = scheduler_step  # type: ignore[method-assign]
