"""Short names of GPU products."""

import pytest

from weft.kube.gpu_names import short_name


@pytest.mark.parametrize(
    ("product", "short"),
    [
        ("NVIDIA-A100-SXM4-80GB", "A100"),
        ("NVIDIA-H100-80GB-HBM3", "H100"),
        ("Tesla-V100-SXM2-16GB", "V100"),
        ("NVIDIA-GeForce-RTX-4090", "RTX-4090"),
        ("NVIDIA-RTX-A6000", "RTX-A6000"),
        ("NVIDIA-L40S", "L40S"),
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "MIG-1g.5gb"),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "MIG-1g.5gb"),
        ("mig-3g.20gb", "MIG-3g.20gb"),
        ("AMD_Instinct_MI300X_OAM", "MI300X"),
        ("AMD-Radeon-Pro-W7900", "Pro"),
        ("my_gpu", "my_gpu"),
        ("A100", "A100"),
        ("gpu", "gpu"),
        ("NVIDIA", "NVIDIA"),
    ],
)
def test_the_model_is_what_people_say(product: str, short: str) -> None:
    assert short_name(product) == short
    assert short_name(short) == short
