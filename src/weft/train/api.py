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

from collections.abc import Callable, Iterable, Iterator
from typing import Any, overload

from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from weft.model.errors import SpecError
from weft.train.contact import find_contact
from weft.train.level import Level, reduction_for
from weft.train.loader import Collate, Loader, MicroBatch, Samples
from weft.train.plan import sharded
from weft.train.session import Session
from weft.train.state import StateBook

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
) -> tuple[nn.Module, Optimizer, LRScheduler]: ...


def prepare(
    model: nn.Module,
    make_optimizer: MakeOptimizer,
    make_scheduler: MakeScheduler | None = None,
    *,
    determinism: str = Level.SAME_MATH,
    logical: int = 8,
    block: type[nn.Module] | None = None,
) -> tuple[nn.Module, Optimizer] | tuple[nn.Module, Optimizer, LRScheduler]:
    """Make a model and its optimizer ready for any width and plan.

    Args:
        model: on the device where it is to train.
        make_optimizer: gets the parameters, because a plan may replace them.
        make_scheduler: gets the optimizer.
        determinism: `same_math` or `bitwise` (see docs/training.md).
        logical: parts of a batch that the bitwise level computes and sums one by one.
        block: the layer that repeats, which a sharded plan gathers one at a time.
    """
    global _session  # noqa: PLW0603 - one process trains one model
    contact = find_contact()
    if contact is not None and contact.shard > 1:
        model = sharded(model, contact, block)
    optimizer = make_optimizer(model.parameters())
    scheduler = make_scheduler(optimizer) if make_scheduler else None
    level = Level(determinism)
    session = Session(
        contact,
        StateBook(model, optimizer, scheduler),
        reduction_for(level, model, logical),
        optimizer.step,
        logical=logical if level is Level.BITWISE else None,
    )
    _session = session
    _hold_back(session, optimizer, scheduler)
    if scheduler is None:
        return model, optimizer
    return model, optimizer, scheduler


def loader(
    dataset: Samples,
    global_batch: int,
    *,
    seed: int = 0,
    shuffle: bool = True,
    micro: int | None = None,
    collate: Collate | None = None,
    workers: int = 0,
) -> Loader:
    """The samples of a run, each exactly once per pass for any width (see `weft.train.loader`)."""
    return Loader(
        dataset,
        global_batch,
        seed=seed,
        shuffle=shuffle,
        micro=micro,
        collate=collate,
        workers=workers,
    )


def steps(samples: Loader, total: int) -> Iterator[MicroBatch]:
    """Micro-batches until `total` optimizer steps are done, across resizes, losses and restarts."""
    return current().steps(samples, total)


def backward(loss: Tensor) -> None:
    """In place of `loss.backward()`; the loss is the mean over the micro-batch."""
    current().backward(loss)


def stepped() -> bool:
    """Whether the optimizer has stepped in this micro-batch."""
    return current().stepped


def first() -> bool:
    """Whether this process is the one that writes logs; true outside of any world."""
    return current().rank == 0


def metric(**values: float) -> None:
    """Figures for whoever looks at the job: the newest of each is reported."""
    current().metrics.update({name: float(value) for name, value in values.items()})


def state(**objects: Any) -> None:
    """More state to carry along: tensors, or objects with `state_dict` and `load_state_dict`."""
    for name, value in objects.items():
        current().book.add(name, value)


def on_rescale(notice: Callable[[], None]) -> Callable[[], None]:
    """Call this whenever the width has changed, before the first step at the new one."""
    current().on_rescale.append(notice)
    return notice


def current() -> Session:
    """The session of this process."""
    if _session is None:
        raise SpecError("nothing is prepared", hint="call weft.prepare(model, ...) first")
    return _session


def _hold_back(session: Session, optimizer: Optimizer, scheduler: LRScheduler | None) -> None:
    """Replace the methods that must not act before the vote."""

    def step(closure: Callable[[], Any] | None = None) -> None:
        if closure is not None:
            raise SpecError("an optimizer with a closure cannot be stepped here")
        session.optimizer_step()

    def zero_grad(set_to_none: bool = True) -> None:
        """Each step begins with zeros anyway, and gradients in hand must stay until it counts."""

    step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]  # else schedulers warn
    optimizer.step = step  # type: ignore[assignment,method-assign]
    optimizer.zero_grad = zero_grad  # type: ignore[method-assign]
    if scheduler is None:
        return
    advance = scheduler.step

    def scheduler_step(*arguments: Any, **named: Any) -> None:
        if session.stepped:
            advance(*arguments, **named)

    scheduler.step = scheduler_step  # type: ignore[method-assign]
