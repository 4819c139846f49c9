"""Every parameter of every recipe is explained, and its range is held."""

from pathlib import Path

import pytest

from weft.model.errors import SpecError
from weft.policy.recipes import RECIPES
from weft.spec.recipe import explained, make_recipe
from weft.spec.recipe_page import page
from weft.spec.recipe_parameters import COMMON, OF_ONE, parameters_of


def test_every_parameter_is_explained_and_allows_its_default() -> None:
    for name in RECIPES:
        for knob in parameters_of(RECIPES[name], name):
            assert knob.meaning.text.endswith("."), f"{name}: {knob.name}"
            assert knob.meaning.allows(knob.default), f"{name}: {knob.name}"
            assert knob.kind, f"{name}: {knob.name}"


def test_nothing_is_explained_that_does_not_exist() -> None:
    taken = {(name, knob.name) for name in RECIPES for knob in parameters_of(RECIPES[name])}
    assert set(COMMON) <= {knob for _, knob in taken}
    assert set(OF_ONE) <= taken


@pytest.mark.parametrize(
    "text",
    ["weave(grain=0)", "las(hold=-1)", "tiresias(limits=(10, -2))", "fifo(period=0)"],
)
def test_a_number_out_of_range_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match="is out of range") as caught:
        make_recipe(text)
    assert "it is ≥ " in caught.value.hint


def test_one_name_may_mean_two_things() -> None:
    told = {
        name: dict((k.name, k.meaning) for k in explained(name)[2]) for name in ("las", "weave")
    }
    assert told["las"]["hold"] != told["weave"]["hold"]


def test_the_page_tells_what_the_recipes_take() -> None:
    kept = Path(__file__).parents[2] / "docs" / "recipe-parameters.md"
    remedy = "python -m weft.spec.recipe_page > docs/recipe-parameters.md"
    assert kept.read_text() == page(), remedy
