"""A Hugging Face `Trainer` whose job Weft can resize while it runs.

    from weft.train.huggingface import ElasticTrainer as Trainer
    trainer = Trainer(model=model, args=args, train_dataset=data, global_batch=64)

Import it before `TrainingArguments` are made: they look at torchrun's variables, and accelerate
would form a group of its own. The Trainer here believes that it is alone. Its dataloader gives one
empty item per step; `training_step` goes through all micro-batches that are this worker's in that
step, each with Trainer's own forward pass and Weft's backward pass; Trainer clips the summed
gradient, and `optimizer.step()` votes and, if need be, computes the step anew. So `global_step` is
Weft's step, also on a worker that has joined late or a job that has resumed.

What changes for the script: `global_batch` is the samples of a step over all workers, and
`per_device_train_batch_size` the most that a worker computes at once. Checkpoints are Weft's
(`save_strategy` is set to "no"), and so is the order of samples. Where Trainer counts the items of
a batch (tokens with a label), they weigh alike over the whole global batch; else samples do. The
loss in the log is that of the first worker's part. A Trainer of your own goes behind it:
`class Mine(ElasticTrainer, Its)`.
"""

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.data import SequentialSampler

from weft.model.errors import SpecError
from weft.train import api
from weft.train.data.loader import Loader, MicroBatch
from weft.train.data.loader_processes import ProcessOptions
from weft.train.drive import Drive, be_alone, first_at_the_start, in_a_world
from weft.train.gradients.communication import Communication
from weft.train.gradients.level import Level

be_alone()

try:
    from transformers import (
        PrinterCallback,
        ProgressCallback,
        Trainer,
        TrainerCallback,
        TrainingArguments,
    )
except ImportError as error:
    raise ImportError(
        "weft.train.huggingface needs transformers and accelerate: "
        "in its checkout pip install '.[huggingface]'"
    ) from error

Theirs: TypeAlias = Any  # what Trainer hands over; its types are not followed

NOTHING: Final[dict[str, Tensor]] = {}


class ElasticTrainer(Trainer):  # type: ignore[misc] # its types are not followed
    """Trainer, with as many workers as there are at the time.

    Args:
        global_batch: samples of one step over all workers; else what one device takes at once.
        determinism: `same_math` or `bitwise` (see docs/training.md).
        logical: parts of a batch that the bitwise level computes and sums one by one.
        block: the layer that repeats, which a sharded plan gathers one at a time.
        communication: `weft`, or `ddp` for sums by torch's own DistributedDataParallel.
    """

    def __init__(
        self,
        *given: Any,
        global_batch: int | None = None,
        determinism: str = Level.SAME_MATH,
        logical: int = 8,
        block: type[nn.Module] | None = None,
        communication: str = Communication.WEFT,
        **named: Any,
    ) -> None:
        self._drive: Drive | None = None
        self._samples: Loader | None = None
        self._items: float | None = None  # of the present micro-batch, where Trainer counts them
        self._how: dict[str, Any] = {
            "determinism": determinism,
            "logical": logical,
            "block": block,
            "communication": communication,
        }
        self._global_batch = global_batch
        super().__init__(*given, **named)
        _check(self.args)
        self.args.save_strategy = type(self.args.save_strategy)("no")
        if in_a_world() and self.pop_callback(ProgressCallback):
            self.add_callback(PrinterCallback)  # a bar cannot pass to another worker
        self.callback_handler.callbacks.insert(0, _Place(self))

    # ------------------------------------------------------------------------ the data

    def get_train_dataloader(self) -> "_StepByStep":
        """One empty item per step; the samples come by Weft's loader, collated as they were."""
        theirs = super().get_train_dataloader()
        args = self.args
        self._samples = api.loader(
            theirs.dataset,
            self.get_total_train_batch_size(args),
            seed=args.seed if args.data_seed is None else args.data_seed,
            shuffle=not isinstance(theirs.sampler, SequentialSampler),
            micro=args.per_device_train_batch_size,
            collate=theirs.collate_fn,
            **_reading(args),
        )
        return _StepByStep(self, self._samples.steps_per_epoch)

    def get_total_train_batch_size(self, args: TrainingArguments) -> int:
        """The global batch, at any width."""
        return self._global_batch or int(args.per_device_train_batch_size)

    # ------------------------------------------------------------------------ the state

    def create_optimizer_and_scheduler(self, num_training_steps: int) -> None:
        """Both, in Weft's care."""
        make_optimizer, make_scheduler = super().create_optimizer, super().create_scheduler
        _, optimizer, scheduler = api.prepare(
            self.model,
            lambda _: make_optimizer(),
            lambda made: make_scheduler(num_training_steps, made),
            **self._how,
        )
        assert self._samples is not None
        self._drive = Drive(api.current(), self._samples, num_training_steps)
        optimizer.step = self._vote  # type: ignore[assignment,method-assign]
        self.accelerator.backward = self._backward
        self.optimizer, self.lr_scheduler = optimizer, scheduler

    def create_optimizer(self, model: nn.Module | None = None) -> Theirs:
        """Newer Trainers ask for it first, and for the scheduler when all is prepared."""
        if self._drive is None:
            self.create_optimizer_and_scheduler(self.state.max_steps)
        return self.optimizer

    def create_scheduler(
        self, num_training_steps: int, optimizer: Optimizer | None = None
    ) -> Theirs:
        return self.lr_scheduler

    # ------------------------------------------------------------------------- the step

    def training_step(self, model: nn.Module, inputs: Theirs, *_: Any, **__: Any) -> Tensor:
        """All micro-batches of this worker in one step; the gradients are summed in the end."""
        self._trained = model
        return self._compute()

    def train(self, *given: Any, **named: Any) -> Theirs:
        """As Trainer's; where the job is resumed Weft goes on from its own checkpoint."""
        resume = named.get("resume_from_checkpoint", given[0] if given else None)
        if resume:
            raise SpecError(
                "resume_from_checkpoint is Trainer's own way to resume",
                hint="leave it out: Weft resumes by itself, at any width",
            )
        if self._drive is not None:
            raise SpecError("train() was called twice", hint="train once in a process")
        output = super().train(*given, **named)
        self._driving.finish()
        return output

    def _compute(self) -> Tensor:
        loss = self._driving.compute(self._one_micro_batch)
        if loss is not None:
            return loss
        self.state.global_step = self._driving.total - 1
        self.control.should_training_stop = True
        return torch.zeros((), device=self.args.device)

    def _one_micro_batch(self, micro: MicroBatch) -> Tensor:
        items = self._get_num_items_in_batch([micro.data], self.args.device)
        self._items = None if items is None else float(items)
        loss: Tensor = super().training_step(self._trained, micro.data, items)
        return loss

    def _backward(self, loss: Tensor, **_: Any) -> None:
        api.backward(loss, self._items)

    def _vote(self, closure: None = None) -> None:
        self._driving.apply(self._compute_again)
        session = self._driving.session
        if self._driving.finished:
            return
        if self.state.global_step != session.committed:
            self._jump(session.committed)
        self.state.is_world_process_zero = self.state.is_local_process_zero = self._driving.first

    # A scheduler of torch warns if the step that it counts was replaced by one that it cannot know.
    _vote._wrapped_by_lr_sched = True  # type: ignore[attr-defined]

    def _compute_again(self) -> None:
        self._compute()
        if self.args.max_grad_norm and self.args.max_grad_norm > 0:
            nn.utils.clip_grad_norm_(self._trained.parameters(), self.args.max_grad_norm)

    def _jump(self, step: int) -> None:
        """This worker has come to a job that has made so many steps; Trainer adds this one."""
        self.state.global_step = self._globalstep_last_logged = self._initial_global_step = step

    @property
    def _driving(self) -> Drive:
        if self._drive is None:
            raise SpecError("the Trainer is not training", hint="call trainer.train()")
        return self._drive

    # -------------------------------------------------------------------------- the log

    def is_world_process_zero(self) -> bool:
        return self._drive.first if self._drive is not None else first_at_the_start()

    def is_local_process_zero(self) -> bool:
        return self.is_world_process_zero()

    def log(self, logs: dict[str, float], *given: Any, **named: Any) -> None:
        """As Trainer's, and to whoever looks at the job."""
        super().log(logs, *given, **named)
        if self._drive is not None:
            api.metric(**{name: value for name, value in logs.items() if _is_number(value)})

    def save_model(self, *given: Any, **named: Any) -> None:
        """Only the first worker writes."""
        if self.is_world_process_zero():
            super().save_model(*given, **named)


class _StepByStep:
    """What Trainer takes for its dataloader: one empty item per step until a pass is over."""

    def __init__(self, trainer: ElasticTrainer, steps_per_pass: int | None) -> None:
        self.steps_per_pass = steps_per_pass
        self._trainer = trainer

    def __len__(self) -> int:
        if self.steps_per_pass is None:
            raise TypeError("a stream has no length")
        return self.steps_per_pass

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        while True:
            yield NOTHING
            drive = self._trainer._driving
            over = self.steps_per_pass and drive.session.step % self.steps_per_pass == 0
            if drive.finished or over:
                return


class _Place(TrainerCallback):  # type: ignore[misc] # its types are not followed
    """Trainer counts passes from its own first step: on a worker that has joined they are older."""

    def __init__(self, trainer: ElasticTrainer) -> None:
        self._trainer = trainer

    def on_step_end(self, args: Theirs, state: Theirs, control: Theirs, **_: Any) -> None:
        samples = self._trainer._samples
        if samples is not None and samples.steps_per_epoch:
            state.epoch = state.global_step / samples.steps_per_epoch


def _reading(args: TrainingArguments) -> ProcessOptions:
    """As Trainer's own DataLoader would be told; it pins memory without being asked to."""
    return {
        "num_workers": args.dataloader_num_workers,
        "pin_memory": args.dataloader_pin_memory and torch.accelerator.is_available(),
        "prefetch_factor": args.dataloader_prefetch_factor,
        "persistent_workers": args.dataloader_persistent_workers,
    }


def _check(args: TrainingArguments) -> None:
    """What cannot be honoured is refused, not ignored."""
    if args.world_size > 1:
        raise SpecError(
            "transformers has formed a group of its own",
            hint="import weft.train.huggingface before TrainingArguments are made",
        )
    if args.n_gpu > 1:
        raise SpecError(
            f"this worker sees {args.n_gpu} GPUs", hint="let CUDA_VISIBLE_DEVICES name its own"
        )
    if args.gradient_accumulation_steps != 1:
        raise SpecError(
            f"gradient_accumulation_steps is {args.gradient_accumulation_steps}",
            hint="write global_batch=...: Weft cuts it into micro-batches of at most "
            "per_device_train_batch_size",
        )
    if args.fp16:
        raise SpecError("fp16 scales gradients by what each step shows", hint="use bf16")
    for name in ("deepspeed", "fsdp", "auto_find_batch_size"):
        if getattr(args, name, None):
            raise SpecError(f"{name} cannot be used with Weft", hint=f"leave {name} out")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
