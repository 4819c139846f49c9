"""An agent's folders: one agent in each, a key for its owner alone, and nothing left behind."""

import json
import stat
from pathlib import Path

import pytest

from weft.agent import run_folder as run_folder_module
from weft.agent.run_folder import RunFolder
from weft.agent.wire.orders import CARD
from weft.model.errors import WorldError


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In place of shared memory."""
    path = tmp_path / "shm"
    path.mkdir()
    monkeypatch.setattr(run_folder_module, "SHARED_MEMORY", path)
    return path


def test_moving_in_and_out(tmp_path: Path, memory: Path) -> None:
    place = RunFolder(tmp_path / "run")
    place.open("job", 3)
    card = json.loads((place.path / CARD).read_text())
    assert card == {"job": "job", "incarnation": 3, "slots": str(place.slots)}
    assert place.key.read_text() == place.token
    for path, mode in ((place.path, 0o700), (place.slots, 0o700), (place.key, 0o400)):
        assert stat.S_IMODE(path.stat().st_mode) == mode
    (place.slots / "worker-0.0").write_bytes(b"state")
    place.close()
    assert list(memory.iterdir()) == []
    assert sorted(path.name for path in place.path.iterdir()) == [CARD, "logs"]


def test_each_agent_has_a_key_of_its_own(tmp_path: Path, memory: Path) -> None:
    assert RunFolder(tmp_path / "a").token != RunFolder(tmp_path / "a").token


def test_a_second_agent_is_kept_out_until_the_first_has_left(tmp_path: Path, memory: Path) -> None:
    first, second = RunFolder(tmp_path / "run"), RunFolder(tmp_path / "run")
    first.open("job", 1)
    with pytest.raises(WorldError, match="another agent"):
        second.open("job", 2)
    second.close()
    assert first.key.read_text() == first.token, "the one that was kept out took the key along"
    first.close()
    second.open("job", 2)
    second.close()


def test_what_a_killed_agent_left_in_memory_is_taken_away(tmp_path: Path, memory: Path) -> None:
    dead = RunFolder(tmp_path / "run")
    dead.open("job", 1)
    assert dead._card is not None
    dead._card.close()  # as the kernel does
    following = RunFolder(tmp_path / "run")
    following.open("job", 2)
    assert list(memory.iterdir()) == [following.slots]
    following.close()


@pytest.mark.parametrize(
    "card",
    [
        "",
        "no card",
        "[]",
        "{}",
        '{"slots": 7}',
        '{"slots": "precious"}',
        '{"slots": "../precious"}',
        '{"slots": "weft-0123456789abcdef/../precious"}',
    ],
)
def test_a_card_cannot_point_at_what_is_not_a_folder_of_slots(
    tmp_path: Path, memory: Path, card: str
) -> None:
    precious = [memory / "precious", tmp_path / "precious"]
    for path in precious:
        path.mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / CARD).write_text(card)
    place = RunFolder(tmp_path / "run")
    place.open("job", 1)
    place.close()
    assert all(path.exists() for path in precious)
