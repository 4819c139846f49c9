"""Every named recipe builds, says what it is, and can schedule a simple day."""

import inspect

import numpy as np
import pytest

from tests.builders import a_cluster, a_job, given, jobs
from weft.policy.order.attained import FeedbackLevels
from weft.policy.packing import Packing
from weft.policy.place.packing import packed_fit
from weft.policy.recipe import Passing, Recipe
from weft.policy.recipes import RECIPES, afs_l, afs_p, backfill, fair, fifo, tiresias, weave
from weft.policy.size.afs import Afs
from weft.policy.size.requested import NetworkPacked
from weft.policy.size.weave import Weave

ELASTIC = pytest.mark.parametrize(
    "name", ["even", "maxmin", "optimus", "afs", "afs-l", "afs-p", "aiturbo", "weave"]
)


def test_a_recipe_carries_the_name_it_is_called_by() -> None:
    for name in RECIPES:
        recipe = RECIPES[name]()
        assert isinstance(recipe, Recipe), name
        assert recipe.name == name


def test_a_recipe_says_in_one_sentence_what_it_is() -> None:
    for name in RECIPES:
        told = inspect.getdoc(RECIPES[name])
        assert told and told.endswith(".") and "\n\n" not in told, name


def test_all_parameters_have_names_and_defaults() -> None:
    for name in RECIPES:
        for parameter in inspect.signature(RECIPES[name]).parameters.values():
            assert parameter.kind is inspect.Parameter.KEYWORD_ONLY, f"{name}: {parameter}"
            assert parameter.default is not inspect.Parameter.empty, f"{name}: {parameter}"


@pytest.mark.parametrize("name", RECIPES)
def test_a_simple_day_ends_with_every_job_done(name: str) -> None:
    scene = given(a_cluster(nodes=2, gpus=8)).with_recipe(RECIPES[name]())
    scene.submit(*jobs(9, "small", 3, seconds=100.0), a_job("gang", 16, seconds=50.0))
    for _ in range(200):
        scene.wait(120.0)
        snapshot = scene.brain.state.snapshot(scene.now)
        for job, slot in list(scene.brain.state.slot_of.items()):
            one = np.array([slot])
            over = snapshot.work_done(one) >= snapshot.jobs.work_total[one]
            if job in scene.running() and over.all():
                scene.finish(job)
        if not scene.brain.state.slot_of:
            return
    pytest.fail(f"{len(scene.brain.state.slot_of)} jobs never ended")


def test_parameters_reach_their_part() -> None:
    assert backfill(reserve=False).passing is Passing.ANYBODY
    assert backfill(reserve=False).reserving is None
    reserving = backfill(reserve_after=60.0).reserving
    assert reserving is not None and reserving.after_seconds == 60.0
    assert fair(preempt=False).yielding is None
    assert fifo(spacing=7.0).rounds.spacing_seconds == 7.0
    assert tiresias(limits=(1.0,), promote=None).order == FeedbackLevels((1.0,), None)


def test_parameters_of_elastic_recipes_reach_their_part() -> None:
    made = weave(grain=2, hold=7.0, worth=3.0, min_run=11.0)
    assert made.size == Weave(grain_gpus=2, packing=Packing.WHOLE_NODES, anew=True)
    assert made.resizing is not None and made.yielding is not None
    assert (made.resizing.grain_gpus, made.resizing.hold_seconds) == (2, 7.0)
    assert (made.resizing.worth, made.yielding.min_run_seconds) == (3.0, 11.0)
    assert made.resizing.restarts and made.resizing.compact
    assert afs_l(hull=False).size == Afs(hull=False)
    assert afs_p().size == Afs(lengths_known=False, coarse=True)


def test_only_recipes_that_use_curves_explore() -> None:
    elastic = {name: RECIPES[name]().resizing for name in RECIPES}
    exploring = {name for name, found in elastic.items() if found is not None and found.explore}
    assert exploring >= {"optimus", "afs-l", "afs-p", "weave"}
    assert not exploring & {"even", "maxmin"}


@ELASTIC
@pytest.mark.parametrize("wanted", [True, False])
def test_every_elastic_recipe_can_be_compact_and_restart_or_not(name: str, wanted: bool) -> None:
    made = RECIPES[name](compact=wanted, restarts=not wanted, packed=wanted).resizing
    assert made is not None
    assert (made.compact, made.restarts, made.packing.packs) == (wanted, not wanted, wanted)


@ELASTIC
def test_placement_is_as_the_recipe_says_unless_it_is_told(name: str) -> None:
    plain = RECIPES[name]().resizing
    assert plain is not None
    assert plain.compact is plain.restarts is (name == "weave")
    only_compact = RECIPES[name](compact=True).resizing
    assert only_compact is not None and only_compact.restarts is plain.restarts


def test_a_recipe_of_fixed_widths_has_no_parameters_of_resizing() -> None:
    assert not {"compact", "restarts"} & set(inspect.signature(RECIPES["srtf"]).parameters)
    with pytest.raises(TypeError, match="compact"):
        RECIPES["srtf"](compact=True)


@ELASTIC
def test_packed_reaches_widths_places_and_growth(name: str) -> None:
    made = RECIPES[name](packed=True)
    packing = getattr(made.size, "packing", Packing.NONE)
    assert packing is Packing.NETWORK or isinstance(made.size, NetworkPacked)
    assert made.place is packed_fit
    assert made.resizing is not None and made.resizing.packing is Packing.NETWORK
    loose = RECIPES[name](packed=False).resizing
    assert loose is not None and not loose.packing.packs


def test_packed_leaves_fixed_widths_to_packed_requests() -> None:
    made = RECIPES["fifo"](packed=True)
    assert isinstance(made.size, NetworkPacked) and made.resizing is None
