"""A tiny transformers model from a configuration, trained by an elastic Trainer.

    python examples/huggingface_trainer.py                            # one process
    python -m weft.agent run -n 2 examples/huggingface_trainer.py     # two workers

Two lines differ from a script for `transformers.Trainer`: its import, and `global_batch`.
"""

import argparse
import tempfile
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import Dataset

from weft.train.huggingface import ElasticTrainer  # before TrainingArguments are made

from transformers import GPT2Config, GPT2LMHeadModel, TrainingArguments  # isort: skip

parser = argparse.ArgumentParser(description="GPT-2, very small, on its own source text.")
parser.add_argument("--steps", type=int, default=200, help="optimizer steps")
parser.add_argument("--batch", type=int, default=16, help="samples of a step, over all workers")
parser.add_argument("--micro", type=int, default=16, help="the most that a worker takes at once")
parser.add_argument("--context", type=int, default=32, help="bytes of a sample")
parser.add_argument("--width", type=int, default=32, help="of the model")
options = parser.parse_args()


class Windows(Dataset[dict[str, Tensor]]):
    """Windows of a text that follow each other."""

    def __init__(self, text: bytes, length: int) -> None:
        whole = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
        self.windows = whole[: len(whole) // length * length].view(-1, length)

    def __len__(self) -> int:
        return len(self.windows)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {"input_ids": self.windows[index], "labels": self.windows[index]}


config = GPT2Config(
    vocab_size=256,
    n_positions=options.context,
    n_embd=options.width,
    n_layer=2,
    n_head=2,
    resid_pdrop=0.0,
    embd_pdrop=0.0,
    attn_pdrop=0.0,
    bos_token_id=0,
    eos_token_id=0,
)
text = Windows(Path(__file__).read_bytes(), options.context)

trainer = ElasticTrainer(
    model=GPT2LMHeadModel(config),
    args=TrainingArguments(
        output_dir=tempfile.gettempdir(),
        max_steps=options.steps,
        per_device_train_batch_size=options.micro,
        learning_rate=3e-3,
        lr_scheduler_type="cosine",
        logging_steps=20,
        disable_tqdm=True,
        dataloader_pin_memory=False,
        report_to=[],
    ),
    train_dataset=text,
    eval_dataset=text,
    global_batch=options.batch,
)
trainer.train()
figures = trainer.evaluate()
if trainer.is_world_process_zero():
    print(f"loss {figures['eval_loss']:.4f} after {trainer.state.global_step} steps")
