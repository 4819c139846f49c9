"""A recipe as a person writes it, and everything that can be wrong with it."""

from pathlib import Path

import pytest

from weft.model.errors import SpecError, UnknownName
from weft.policy.recipes import RECIPES, las
from weft.spec.recipe import findable, make_recipe, recipe_file, split_recipes

OWN = """
from weft.policy.recipes import las
READY = las(hold=5.0)
NUMBER = 7
def made(*, hold: float = 1.0):
    return las(hold=hold)
def wrong():
    return 3
"""


@pytest.fixture
def own_file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(OWN)
    return path


def test_every_recipe_answers_to_its_name() -> None:
    assert {name: make_recipe(name).name for name in RECIPES} == {name: name for name in RECIPES}


def test_parameters_reach_the_recipe() -> None:
    assert make_recipe("las(hold=30, min_run=0)") == las(hold=30.0, min_run=0.0)
    assert make_recipe(" tiresias( limits=(10, 20), promote=None ) ").name == "tiresias"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("lass", "no recipe 'lass'", "did you mean 'las'?"),
        ("las(hodl=3)", "no parameter 'hodl'", "did you mean 'hold'?"),
        ("las(q=3)", "no parameter 'q'", "parameters: hold=600.0"),
        ("muri-srtf(spacing=1)", "no parameter 'spacing'", "parameters: none"),
    ],
)
def test_an_unknown_name_comes_with_the_nearest_known(text: str, message: str, hint: str) -> None:
    with pytest.raises(UnknownName, match=message) as caught:
        make_recipe(text)
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "",
        "las(",
        "las(3)",
        "las(**{})",
        "las(hold=)",
        "las(hold='long')",
        "las(hold=True)",
        "las(hold=30, hold=60)",
        "las(hold=__import__('os').getcwd())",
        "las(hold=1)(2)",
        "tiresias(limits=3)",
        "backfill(reserve=1)",
    ],
)
def test_what_is_no_recipe_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(SpecError) as caught:
        make_recipe(text)
    assert caught.value.hint


def test_a_recipe_of_ones_own_file(own_file: Path) -> None:
    assert make_recipe(f"{own_file}:READY") == las(hold=5.0)
    assert make_recipe(f"{own_file}:made") == las(hold=1.0)
    assert make_recipe(f"{own_file}:made(hold=2)") == las(hold=2.0)


@pytest.mark.parametrize("name", ["NUMBER", "wrong", "absent", "made(speed=1)"])
def test_a_file_that_holds_no_such_recipe(own_file: Path, name: str) -> None:
    with pytest.raises(SpecError) as caught:
        make_recipe(f"{own_file}:{name}")
    assert caught.value.hint


def test_a_file_that_cannot_be_loaded(tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("1 / 0")
    with pytest.raises(SpecError, match="ZeroDivisionError"):
        make_recipe(f"{broken}:x")
    with pytest.raises(SpecError, match="no recipe file"):
        make_recipe(f"{tmp_path / 'none.py'}:x")


def test_a_file_is_findable_from_anywhere(own_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(own_file.parent)
    assert findable("./mine.py:made(hold=2)") == f"{own_file.resolve()}:made(hold=2)"
    assert findable("las") == "las"
    assert recipe_file("mine.py:made") == Path("mine.py")
    assert recipe_file("las(hold=1)") is None


def test_commas_inside_parentheses_do_not_separate() -> None:
    text = "fifo, tiresias(limits=(1, 2), promote=8),las"
    assert split_recipes(text) == ["fifo", "tiresias(limits=(1, 2), promote=8)", "las"]
