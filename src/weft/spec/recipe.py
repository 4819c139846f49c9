"""A recipe as a person writes it: a name, a name with parameters, or an object of their own file.

    las
    tiresias(promote=8)
    path/to/mine.py:my_recipe
    path/to/mine.py:my_recipe(patience=60)

Parameters are literals and nothing else is evaluated: a recipe's text also comes back out of
journals, and reading a journal must not run what stands in it. Only the third form runs code, and
the file it names is the user's own.
"""

import ast
import inspect
import math
import re
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from functools import partial
from pathlib import Path

from weft.model.errors import SpecError, UnknownName
from weft.policy.recipe import Recipe
from weft.policy.recipes import RECIPES
from weft.spec.own_recipe import fault_in, own_maker, own_recipe
from weft.spec.recipe_parameters import REQUIRED, Parameter, fits, parameters_of

WRITTEN = re.compile(r"(?:(?P<file>.+\.py):)?(?P<name>[^()]+?)\s*(?:\((?P<given>.*)\))?", re.DOTALL)
WORDS: Mapping[str, object] = {"true": True, "false": False, "none": None}
EXAMPLE = "write las, tiresias(promote=8) or path/to/mine.py:my_recipe"


def make_recipe(text: str) -> Recipe:
    """The recipe that the text names."""
    file, name, given = _take_apart(text)
    if file is not None:
        return own_recipe(file, name, partial(_made_of_own, given=given, text=text))
    maker = RECIPES.get(name)
    if maker is None:
        raise UnknownName(f"no recipe '{name}'", hint=_nearest(name))
    return _made(maker, given, text, name=name)


def recipe_file(text: str) -> Path | None:
    """The user's own file that the text speaks of, if it does."""
    file = _take_apart(text)[0]
    return None if file is None else Path(file)


def blamed(error: Exception, text: str) -> SpecError | None:
    """The fault of the user's own file that the error came from, if it came from there."""
    file = recipe_file(text)
    return None if file is None else fault_in(error, file)


def findable(text: str) -> str:
    """The text with the whole path of a user's own file, so that it holds in any folder."""
    file, name, given = _take_apart(text)
    if file is None:
        return text
    return f"{Path(file).resolve()}:{name}" + (f"({given})" if given else "")


def explained(text: str) -> tuple[str, str, tuple[Parameter, ...]]:
    """Its name, what it does, and its parameters; of a recipe object, none can be set."""
    file, name, _ = _take_apart(text)
    maker = RECIPES.get(name) if file is None else own_maker(file, name)
    if maker is None:
        raise UnknownName(f"no recipe '{name}'", hint=_nearest(name))
    if isinstance(maker, Recipe) or not callable(maker):
        make_recipe(text)
        return text, f"the recipe '{name}' of {file}, as it stands there", ()
    knobs = _knobs(maker, "" if file else name, text)
    return (text if file else name), _first_part(inspect.getdoc(maker) or ""), knobs


def split_recipes(text: str) -> list[str]:
    """`fifo,tiresias(limits=(1, 2)),las`: commas between recipes, not those inside parentheses."""
    return [part for part in (part.strip() for part in _parts(text)) if part]


def _parts(text: str) -> Iterator[str]:
    depth, begin = 0, 0
    for position, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            yield text[begin:position]
            begin = position + 1
    yield text[begin:]


def _take_apart(text: str) -> tuple[str | None, str, str]:
    found = WRITTEN.fullmatch(text.strip())
    if found is None:
        raise SpecError(f"'{text}' is no recipe", hint=EXAMPLE)
    return found["file"], found["name"].strip(), found["given"] or ""


def _made(maker: Callable[..., Recipe], given: str, text: str, *, name: str = "") -> Recipe:
    values = _literals(given, text)
    _check(values, _knobs(maker, name, text), text)
    return maker(**values)


def _made_of_own(thing: object, given: str, text: str) -> object:
    if callable(thing):
        return _made(thing, given, text)
    if given:
        raise SpecError(
            f"'{text}': parameters are for a function, and this is none",
            hint="leave them out, or name a function that returns a Recipe",
        )
    return thing


def _knobs(maker: Callable[..., Recipe], name: str, text: str) -> tuple[Parameter, ...]:
    try:
        return parameters_of(maker, name)
    except (NameError, ValueError, TypeError) as error:
        raise SpecError(
            f"'{text}': its parameters cannot be read: {error}",
            hint="def my_recipe(*, hold: float = 60.0) -> Recipe: a kind and a default for each",
        ) from None


def _literals(given: str, text: str) -> dict[str, object]:
    """Keyword arguments whose values are literals."""
    try:
        call = ast.parse(f"recipe({given})", mode="eval").body
    except SyntaxError:
        raise SpecError(f"'{text}' cannot be read", hint=EXAMPLE) from None
    if not isinstance(call, ast.Call) or call.args:
        raise SpecError(f"'{text}': parameters are given by name", hint=EXAMPLE)
    values: dict[str, object] = {}
    for keyword in call.keywords:
        if keyword.arg is None:
            raise SpecError(f"'{text}': parameters are given by name", hint=EXAMPLE)
        if keyword.arg in values:
            raise SpecError(f"'{text}': {keyword.arg} is given twice", hint="keep one")
        values[keyword.arg] = _literal(keyword.arg, keyword.value)
    return values


def _literal(name: str, node: ast.expr) -> object:
    """A plain value; `true`, `false` and `none` in either spelling, as in a job file."""
    if isinstance(node, ast.Name) and node.id.lower() in WORDS:
        return WORDS[node.id.lower()]
    try:
        value: object = ast.literal_eval(node)
    except ValueError:
        raise _not_plain(name, node) from None
    if isinstance(value, float) and math.isinf(value):
        raise _not_plain(name, node)
    return value


def _not_plain(name: str, node: ast.expr) -> SpecError:
    return SpecError(
        f"parameter {name}={ast.unparse(node)} is not a plain value",
        hint="write a number, True, False, None or a tuple of numbers",
    )


def _check(values: Mapping[str, object], knobs: tuple[Parameter, ...], text: str) -> None:
    by_name = {knob.name: knob for knob in knobs}
    listed = ", ".join(knob.text for knob in knobs) or "none"
    for name, value in values.items():
        if name not in by_name:
            near = get_close_matches(name, by_name, n=1)
            meant = f"did you mean '{near[0]}'? " if near else ""
            raise UnknownName(
                f"'{text}': no parameter '{name}'", hint=f"{meant}parameters: {listed}"
            )
        knob = by_name[name]
        if not fits(value, knob.hint):
            raise SpecError(
                f"'{text}': {name}={value!r} is of the wrong kind",
                hint=f"it is {knob.kind}; parameters: {listed}",
            )
        if not knob.meaning.allows(value):
            raise SpecError(
                f"'{text}': {name}={value!r} is out of range",
                hint=f"it is {knob.meaning.range}: {knob.meaning.text}",
            )
    for knob in knobs:
        if knob.default is REQUIRED and knob.name not in values:
            raise SpecError(
                f"'{text}': parameter '{knob.name}' has no value",
                hint=f"give it as in …({knob.name}=1), or a default in the file",
            )


def _first_part(doc: str) -> str:
    return " ".join(doc.partition("\n\n")[0].split())


def _nearest(name: str) -> str:
    near = get_close_matches(name, RECIPES, n=1)
    return (f"did you mean '{near[0]}'? " if near else "") + f"recipes: {', '.join(RECIPES)}"
