"""A first job file, with comments: what `weft spec init` writes."""

from typing import Final

DEFAULT_NAME: Final = "my-job"


def job_template(name: str = DEFAULT_NAME) -> str:
    """A file that works as it is; what is commented out can be used by removing the mark."""
    return TEMPLATE.replace(DEFAULT_NAME, name)


TEMPLATE: Final = """\
# A job file of Weft. `weft spec explain` tells about every field.
name: my-job
run: torchrun train.py

# The container image; without it, the one that the cluster's operator sets.
#image: registry.example.com/team/train:1.0
#workdir: /workspace

resources:
  gpus: 1                # 4..16 lets it run on any number from 4 to 16; 0 is a job without GPUs
  #gpu_type: [H100, A100]
  #cpus_per_gpu: 8
  #memory_per_gpu: 64GB

#queue: default
#priority: 0             # higher goes first within the queue
#duration: 2h            # how long it will take, if you know: an estimate, not a limit

# Saving often makes preemption cheap. The path has to be on a volume.
#checkpoint: {path: /ckpt/my-job, every: 10m}
#volumes: [{claim: ckpt, path: /ckpt}]
#grace: 30s              # time to save after SIGTERM

#env: {WANDB_PROJECT: my-project}
#retry: {limit: 3}
#keep_on_failure: 30m
#ttl: 7d
"""
