"""How a training process finds its agent, and when it must not train under one."""

import pytest

from weft.model.errors import SpecError
from weft.train.membership.contact import find_contact


def test_outside_of_weft_there_is_no_agent() -> None:
    assert find_contact({"WEFT_GPUS": "2"}) is None


@pytest.mark.parametrize("gpus", ["1", "2"])
def test_a_process_with_all_gpus_of_its_node_is_refused(gpus: str) -> None:
    """It would train on one of them, or on all of them where chance placed it with one."""
    with pytest.raises(SpecError, match=r"weft\.prepare needs a process for each GPU") as found:
        find_contact({"WEFT_SOCKET": "/s", "WEFT_GPUS": gpus})
    assert "nproc_per_node: gpu" in found.value.hint
