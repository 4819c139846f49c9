"""The parameters of recipes: what each means, what it is if nobody sets it, and what it may be.

Names, kinds and defaults are those of the function that makes the recipe. What they mean to a
person, and the numbers that make sense, stand here; a test holds the two together.
"""

import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf, isnan

from weft.policy.recipe import Recipe

REQUIRED = inspect.Parameter.empty
NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a parameter does, and from where to where a number may go."""

    text: str
    least: float | None = None
    most: float | None = None

    @property
    def range(self) -> str:
        """As it is shown; empty where the kind says it all."""
        if self.least is None:
            return ""
        return f"≥ {self.least:g}" if self.most is None else f"{self.least:g} to {self.most:g}"

    def allows(self, value: object) -> bool:
        values = value if isinstance(value, tuple | list) else (value,)
        numbers = [one for one in values if isinstance(one, int | float)]
        if self.least is None or any(isinstance(one, bool) for one in values):
            return True
        most = inf if self.most is None else self.most
        return all(not isnan(one) and self.least <= one <= most for one in numbers)


COMMON: Mapping[str, Meaning] = {
    "packed": Meaning(
        "Only widths and places that leave a network card to one job: parts of a node that divide "
        "it, or whole nodes. None leaves it to the recipe."
    ),
    "patience": Meaning(
        "The longest wait in seconds for a tighter placement than there is now; 0 takes what there "
        "is.",
        0,
    ),
    "period": Meaning(
        "Rounds every so many seconds, as some published schedulers hold them. None holds them "
        "when something happens.",
        1e-3,
    ),
    "host": Meaning("Hand out cores and memory by what they bring each job, not only by GPUs."),
    "interleave": Meaning(
        "Let jobs that agreed to it, and whose stages are known, take turns on the same GPUs when "
        "there are too few. None leaves it to the recipe."
    ),
    "defragment": Meaning(
        "Move small jobs that save together for a gang to which enough GPUs are free, but not "
        "side by side, once its wait has cost twice what the moves do; nobody more than once an "
        "hour."
    ),
    "cap": Meaning("How much slower company may make a job, times its speed alone.", 1),
    "ratios": Meaning("Let jobs with short iterations do several while others do one."),
    "longest_wait": Meaning(
        "Seconds after which a job goes before all others of its priority, unless ten times what "
        "its fair share would take is longer.",
        0,
    ),
    "compact": Meaning(
        "Begin narrower rather than spread over nodes, and grow to another node only for a clear "
        "gain. None leaves it to the recipe."
    ),
    "restarts": Meaning(
        "Stop and start a job anew at a better width or place where that pays, also one that "
        "cannot be resized live. None leaves it to the recipe."
    ),
    "spacing": Meaning(
        "The least time between two rounds in seconds: what comes in between is decided together.",
        0,
    ),
    "min_run": Meaning(
        "Seconds that a job keeps its GPUs after each start before it may be preempted.", 0
    ),
    "reserve": Meaning("Keep nodes for the first gang that has been blocked for long."),
    "reserve_after": Meaning("Seconds of being blocked after which a gang gets a reservation.", 0),
    "reserve_gpus": Meaning("The narrowest gang that gets a reservation, in GPUs.", 1),
    "limits": Meaning(
        "Attained service, in GPU-seconds, at which a job falls to the next feedback level.", 0
    ),
    "promote": Meaning(
        "A job that has waited so many times as long as it has run goes back to the first level; "
        "None: never.",
        0,
    ),
    "make_way": Meaning(
        "Whether a lower priority makes way for a higher one; who loses least by it goes first."
    ),
    "preempt": Meaning("Whether a tenant's surplus is taken back while its jobs run."),
    "grain": Meaning("GPUs by which a job grows and shrinks: those of one worker.", 1),
    "hold": Meaning("Seconds after a start or a resize in which a job does not grow.", 0),
    "worth": Meaning(
        "A resize must save so many times what it has been measured to cost; 0: any saving does.",
        0,
    ),
    "hull": Meaning(
        "Climb along the concave hull of a job's curve, so that a dip never holds it back; false "
        "climbs step by step, as published."
    ),
    "again": Meaning("Seconds after which the ballots are counted anew.", 1e-3),
    "fill": Meaning("Hand out GPUs that would be idle too; false is the published rule."),
    "plans": Meaning(
        "Lay jobs that tell their model's shape out by the best plan on the GPUs that they get."
    ),
    "prior": Meaning(
        "Seconds, at the speed that was asked for, that a job of unknown length is expected to "
        "take at the least.",
        0,
    ),
    "gate": Meaning(
        "A restart for another width or plan must save so many times what it costs.", 0
    ),
    "budget": Meaning("The part of all GPU time that restarts may take.", 0, 1),
    "yields_after": Meaning("Seconds after which a running job may be stopped for others.", 0),
    "exact": Meaning(
        "Look for the best choice by an integer program (needs SciPy); false takes the greedy one."
    ),
}
BY_SERVICE = Meaning(
    "A running job is ranked as if it had had so many seconds less, so that jobs of nearly equal "
    "service do not take turns.",
    0,
)
OF_ONE: Mapping[tuple[str, str], Meaning] = {
    (name, "hold"): BY_SERVICE for name in ("las", "gittins", "sensitivity")
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a recipe."""

    name: str
    default: object
    hint: object
    meaning: Meaning = Meaning("")

    @property
    def text(self) -> str:
        return self.name if self.default is REQUIRED else f"{self.name}={self.default!r}"

    @property
    def kind(self) -> str:
        return words(self.hint)

    @property
    def default_text(self) -> str:
        """As one would write it; nothing where there is none."""
        text = self.text.partition("=")[2]
        return {"None": "none", "True": "true", "False": "false"}.get(text, text)

    @property
    def may_be(self) -> str:
        """Kind and range in few words."""
        reach = self.meaning.range
        if not reach:
            return self.kind.removesuffix(" or none")
        return f"{reach} or none" if self.kind.endswith(" or none") else reach


def parameters_of(maker: Callable[..., Recipe], recipe: str = "") -> tuple[Parameter, ...]:
    """What can be set, from the function's own signature; `recipe` is the name of one of ours."""
    hints = typing.get_type_hints(maker)
    told = _told_in(maker)
    return tuple(
        Parameter(
            knob.name,
            knob.default,
            hints.get(knob.name, object),
            _meaning(recipe, knob.name) if recipe else Meaning(told.get(knob.name, "")),
        )
        for knob in inspect.signature(maker).parameters.values()
        if knob.kind in NAMED
    )


def fits(value: object, hint: object) -> bool:
    """Whether a literal is of the kind that an annotation asks for; a float takes whole numbers."""
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return any(fits(value, option) for option in typing.get_args(hint))
    if typing.get_origin(hint) is tuple:
        inner = typing.get_args(hint)[0]
        return isinstance(value, tuple | list) and all(fits(part, inner) for part in value)
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return not isinstance(hint, type) or isinstance(value, hint)


def words(hint: object) -> str:
    """A kind as a person calls it."""
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return " or ".join(words(option) for option in typing.get_args(hint))
    if typing.get_origin(hint) is tuple:
        return "numbers in parentheses"
    known = {float: "number", int: "whole number", bool: "true or false", type(None): "none"}
    if isinstance(hint, type) and hint in known:
        return known[hint]
    return "" if hint is object else getattr(hint, "__name__", str(hint))


def _meaning(recipe: str, name: str) -> Meaning:
    return OF_ONE.get((recipe, name)) or COMMON.get(name, Meaning(""))


def _told_in(maker: Callable[..., Recipe]) -> dict[str, str]:
    """Lines `name: what it means` of a docstring, with those that are indented below each."""
    found = re.findall(
        r"^ *(\w+): (.+(?:\n {4,}(?!\w+: ).+)*)", inspect.getdoc(maker) or "", re.MULTILINE
    )
    return {name: " ".join(text.split()) for name, text in found}
