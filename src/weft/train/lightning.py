"""A Lightning `Trainer` whose job Weft can resize while it runs.

    from weft.train.lightning import ElasticLoader, ElasticStrategy
    trainer = Trainer(max_steps=1000, strategy=ElasticStrategy(), enable_checkpointing=False)
    trainer.fit(module, ElasticLoader(dataset, global_batch=64))

Why a strategy: Lightning hands it the training step, the backward pass and the optimizers, and
gives `optimizer.step` a closure that does all of a step up to clipping. To try a step again is to
call the closure again, so automatic optimisation, clipping, schedulers and hooks stay Lightning's.
A mixin for modules would have to take all of that over by manual optimisation. With Fabric no
adapter is needed: there the loop is the script's own, and the five lines of docs/training.md fit.

The loader gives one empty batch per step; `training_step` goes through all micro-batches that are
this worker's in that step and is Lightning's own for each of them. Lightning believes that it is
alone on one device. A worker that joins is set to the job's step and pass by the counters that
Lightning restores from its own checkpoints, so that all workers validate at the same steps. One
optimizer and at most one scheduler are looked after; checkpoints are Weft's.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LRScheduler

from weft.model.errors import SpecError
from weft.train import api
from weft.train.data.loader import Loader, MicroBatch
from weft.train.drive import Drive, be_alone, first_at_the_start
from weft.train.gradients.communication import Communication
from weft.train.gradients.level import Level

be_alone()

try:
    from lightning.pytorch.strategies import SingleDeviceStrategy
    from lightning.pytorch.utilities.rank_zero import rank_zero_only
except ImportError as error:
    raise ImportError(
        "weft.train.lightning needs lightning: in its checkout pip install '.[lightning]'"
    ) from error


Theirs: TypeAlias = Any  # what Lightning hands over; its types are not followed


class ElasticLoader(Loader):
    """Weft's loader, in which Lightning sees one empty batch per step."""

    def __len__(self) -> int:
        if self.steps_per_epoch is None:
            raise TypeError("a stream has no length")
        return self.steps_per_epoch

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        left = self.steps_per_epoch
        while left is None or left > 0:
            yield {}
            left = None if left is None else left - 1


class ElasticStrategy(SingleDeviceStrategy):  # type: ignore[misc] # its types are not followed
    """One device, among as many workers as there are at the time.

    Args:
        device: of this worker; else its GPU, or the processor.
        determinism: `same_math` or `bitwise` (see docs/training.md).
        logical: parts of a batch that the bitwise level computes and sums one by one.
        block: the layer that repeats, which a sharded plan gathers one at a time.
        communication: `weft`, or `ddp` for sums by torch's own DistributedDataParallel.
    """

    strategy_name = "weft"

    def __init__(
        self,
        device: torch.device | str | None = None,
        *,
        determinism: str = Level.SAME_MATH,
        logical: int = 8,
        block: type[nn.Module] | None = None,
        communication: str = Communication.WEFT,
        **named: Any,
    ) -> None:
        super().__init__(device or ("cuda" if torch.cuda.is_available() else "cpu"), **named)
        self._how: dict[str, Any] = {
            "determinism": determinism,
            "logical": logical,
            "block": block,
            "communication": communication,
        }
        self._drive: Drive | None = None
        rank_zero_only.rank = int(not first_at_the_start())

    # ------------------------------------------------------------------------ the start

    def setup(self, trainer: Theirs) -> None:
        _check(trainer, self.precision_plugin)
        self._trainer = trainer
        super().setup(trainer)

    def setup_optimizers(self, trainer: Theirs) -> None:
        """As Lightning's, in Weft's care; called when the module stands on its device."""
        set_up = super().setup_optimizers

        def make_optimizer(_: object) -> torch.optim.Optimizer:
            set_up(trainer)
            if len(self.optimizers) != 1 or len(self.lr_scheduler_configs) > 1:
                raise SpecError(
                    "configure_optimizers gives more than one optimizer or scheduler",
                    hint="combine schedulers by SequentialLR or ChainedScheduler",
                )
            return cast(torch.optim.Optimizer, self.optimizers[0])

        def make_scheduler(_: object) -> LRScheduler:
            found = [config.scheduler for config in self.lr_scheduler_configs]
            return cast(LRScheduler, found[0] if found else None)

        _, optimizer, *_ = api.prepare(self.model, make_optimizer, make_scheduler, **self._how)
        optimizer.step = self._vote  # type: ignore[assignment,method-assign]
        self._drive = Drive(api.current(), _loader_of(trainer), _total_of(trainer))

    # ------------------------------------------------------------------------- the step

    def training_step(self, *given: Any, **named: Any) -> Tensor:
        """All micro-batches of this worker in one step; the gradients are summed in the end."""
        run = partial(self._one_micro_batch, given[1:], named)
        loss = self._driving.compute(run)
        return torch.zeros((), device=self.root_device) if loss is None else loss

    def backward(self, closure_loss: Tensor, *_: Any, **__: Any) -> Tensor:
        """Nothing: it was done micro-batch by micro-batch."""
        return closure_loss

    def on_train_end(self) -> None:
        super().on_train_end()
        self._driving.finish()

    def _one_micro_batch(
        self, rest: tuple[Any, ...], named: dict[str, Any], micro: MicroBatch
    ) -> Tensor:
        batch = self.precision_plugin.convert_input(micro.data)
        batch = self.lightning_module._on_before_batch_transfer(batch, dataloader_idx=0)
        batch = self.batch_to_device(batch, dataloader_idx=0)
        self._trainer._logger_connector.on_batch_start(batch)
        output = super().training_step(batch, *rest, **named)
        loss: Tensor = output["loss"] if isinstance(output, Mapping) else output
        api.backward(loss)
        return loss.detach()

    def _vote(self, closure: Theirs, **_: Any) -> Theirs:
        """In place of the optimizer's own: the closure computes, and if need be computes again."""
        loss = closure()
        drive = self._driving
        drive.apply(closure)
        step = drive.total - 1 if drive.finished else drive.session.committed
        if self._trainer.global_step != step:
            _jump(self._trainer, step)
        rank_zero_only.rank = int(not drive.first)
        return loss

    # A scheduler of torch warns if the step that it counts was replaced by one that it cannot know.
    _vote._wrapped_by_lr_sched = True  # type: ignore[attr-defined]

    @property
    def is_global_zero(self) -> bool:
        """Whether this worker is the first, for whoever writes logs."""
        return self._drive.first if self._drive is not None else first_at_the_start()

    @property
    def _driving(self) -> Drive:
        if self._drive is None:
            raise SpecError("the Trainer is not fitting", hint="call trainer.fit(...)")
        return self._drive


def _jump(trainer: Theirs, step: int) -> None:
    """This worker has come to a job that has made so many steps; Lightning adds this one."""
    fitting, training = trainer.fit_loop, trainer.fit_loop.epoch_loop
    length = fitting._data_fetcher.length
    passes, within = divmod(step, length) if length else (0, step)
    _set_started(training.batch_progress.total, step)
    _set_started(training.batch_progress.current, within)
    _set_started(fitting.epoch_progress.current, passes)
    counted = training.automatic_optimization.optim_progress.optimizer.step.total
    counted.ready, counted.completed = step + 1, step
    training._batches_that_stepped = step
    fitting._data_fetcher.fetched = within + 1
    fitting._data_fetcher.done = training.batch_progress.is_last_batch = within + 1 == length


def _set_started(progress: Theirs, done: int) -> None:
    """So many are done, and one is under way."""
    progress.ready = progress.started = done + 1
    progress.processed = progress.completed = done


def _check(trainer: Theirs, precision: Theirs) -> None:
    """What cannot be honoured is refused, not ignored."""
    if trainer.checkpoint_callbacks or trainer.ckpt_path:
        raise SpecError(
            "Lightning would write or load checkpoints of its own",
            hint="write Trainer(enable_checkpointing=False), and no ckpt_path: Weft resumes itself",
        )
    if trainer.accumulate_grad_batches != 1:
        raise SpecError(
            f"accumulate_grad_batches is {trainer.accumulate_grad_batches}",
            hint="write ElasticLoader(..., micro=...): Weft cuts a step into micro-batches itself",
        )
    if getattr(precision, "scaler", None) is not None:
        raise SpecError("16-mixed scales gradients by what each step shows", hint="use bf16-mixed")
    if not trainer.lightning_module.automatic_optimization:
        raise SpecError(
            "the module optimises by hand", hint="use the five lines of docs/training.md in it"
        )


def _loader_of(trainer: Theirs) -> Loader:
    source = trainer.fit_loop._data_source.dataloader()
    if not isinstance(source, ElasticLoader):
        raise SpecError(
            f"the training data come by a {type(source).__name__}",
            hint="give trainer.fit() a weft.train.lightning.ElasticLoader(dataset, global_batch)",
        )
    return source


def _total_of(trainer: Theirs) -> int:
    steps = trainer.estimated_stepping_batches
    if steps == float("inf"):
        raise SpecError("nothing says when the training ends", hint="write Trainer(max_steps=...)")
    return int(steps)
