"""A first job file, with comments: what `weft spec init` writes."""

from typing import Final

DEFAULT_NAME: Final = "my-job"


def job_template(name: str = DEFAULT_NAME, *, local: bool = False) -> str:
    """A file that runs as it is; what is commented out can be used by removing the mark.

    What only a cluster knows is left out of a file for one machine.
    """
    parts = [HEAD, *(() if local else (IMAGE,)), RESOURCES]
    parts += [LOCAL_SAVING] if local else [QUEUE, SAVING]
    return "".join([*parts, REST if local else REST + KEPT]).replace(DEFAULT_NAME, name)


HEAD: Final = """\
# A job file of Weft. `weft spec explain` tells about every field.
name: my-job
# Your command, such as: torchrun train.py
run: echo hello from rank $RANK of $WORLD_SIZE
"""
IMAGE: Final = """
# The container image; without it, the one that the cluster's operator sets.
#image: registry.example.com/team/train:1.0
#workdir: /workspace
"""
RESOURCES: Final = """
resources:
  gpus: 1                # 4..16 lets it run on any number from 4 to 16; 0 is a job without GPUs
  #gpu_type: [H100, A100]
  #cpus_per_gpu: 8
  #memory_per_gpu: 64GB

#priority: 0             # higher goes first within the queue
#duration: 2h            # how long it will take, if you know: an estimate, not a limit
"""
QUEUE: Final = """\
#queue: default
"""
SAVING: Final = """
# Saving often makes preemption cheap. The path has to be on a volume.
#checkpoint: {path: /ckpt/my-job, every: 10m}
#volumes: [{claim: ckpt, path: /ckpt}]
"""
LOCAL_SAVING: Final = """
# Saving often makes an interruption cheap. Without a path, Weft chooses a folder.
#checkpoint: {every: 10m}
"""
REST: Final = """\
#grace: 30s              # time to save after SIGTERM

#env: {WANDB_PROJECT: my-project}
#retry: {limit: 3}
#ttl: 7d
"""
KEPT: Final = """\
#keep_on_failure: 30m
"""
