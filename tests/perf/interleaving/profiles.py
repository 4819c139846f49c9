"""Profiles for tests: rows of the published table."""

from weft.model.stages import StageProfile


def measured(
    iteration: float, data: float, gpu: float, network: float = 0.0, *, gib: float | None = None
) -> StageProfile:
    """A row of the published table, in milliseconds."""
    return StageProfile(
        iteration_seconds=iteration / 1000,
        loading_seconds=data / 1000,
        gpu_seconds=gpu / 1000,
        network_seconds=network / 1000,
        gpu_memory_bytes=None if gib is None else int(gib * 2**30),
    )


DQN, GPT2 = measured(490, 446, 8), measured(426, 0.6, 410)
RESNET, VGG16 = measured(779, 711, 110), measured(107, 117, 68)
BERT, A2C = measured(178, 0.5, 160), measured(517, 514, 14)
