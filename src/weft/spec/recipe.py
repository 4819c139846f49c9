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
import re
import traceback
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from weft.model.errors import SpecError, UnknownName
from weft.policy.recipe import Recipe
from weft.policy.recipes import RECIPES

WRITTEN = re.compile(r"(?:(?P<file>.+\.py):)?(?P<name>[^()]+?)\s*(?:\((?P<given>.*)\))?", re.DOTALL)
WORDS: Mapping[str, object] = {"true": True, "false": False, "none": None}
EXAMPLE = "write las, tiresias(promote=8) or path/to/mine.py:my_recipe"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One knob of a recipe."""

    name: str
    default: object
    hint: object

    @property
    def text(self) -> str:
        return f"{self.name}={self.default!r}"


def make_recipe(text: str) -> Recipe:
    """The recipe that the text names."""
    file, name, given = _take_apart(text)
    if file is not None:
        return _own_recipe(file, name, given, text)
    maker = RECIPES.get(name)
    if maker is None:
        raise UnknownName(f"no recipe '{name}'", hint=_nearest(name, list(RECIPES), "recipes"))
    return _made(maker, given, text)


def recipe_file(text: str) -> Path | None:
    """The user's own file that the text speaks of, if it does."""
    file = _take_apart(text)[0]
    return None if file is None else Path(file)


def blamed(error: Exception, text: str) -> SpecError | None:
    """The fault of the user's own file that the error came from, if it came from there."""
    file = recipe_file(text)
    frames = traceback.extract_tb(error.__traceback__) if file is not None else ()
    own = [frame for frame in frames if Path(frame.filename).resolve() == Path(str(file)).resolve()]
    if not own:
        return None
    where = f"{own[-1].filename} line {own[-1].lineno}, in {own[-1].name}"
    return SpecError(
        f"{where}: {type(error).__name__}: {error}", hint=f"it says there: {own[-1].line}"
    )


def findable(text: str) -> str:
    """The text with the whole path of a user's own file, so that it holds in any folder."""
    file, name, given = _take_apart(text)
    if file is None:
        return text
    return f"{Path(file).resolve()}:{name}" + (f"({given})" if given else "")


def parameters_of(maker: Callable[..., Recipe]) -> tuple[Parameter, ...]:
    """What can be set, from the function's own signature."""
    hints = typing.get_type_hints(maker)
    return tuple(
        Parameter(knob.name, knob.default, hints.get(knob.name, object))
        for knob in inspect.signature(maker).parameters.values()
    )


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


def _made(maker: Callable[..., Recipe], given: str, text: str) -> Recipe:
    values = _literals(given, text)
    _check(values, parameters_of(maker), text)
    return maker(**values)


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
        values[keyword.arg] = _literal(keyword.arg, keyword.value)
    return values


def _literal(name: str, node: ast.expr) -> object:
    """A plain value; `true`, `false` and `none` in either spelling, as in a job file."""
    if isinstance(node, ast.Name) and node.id.lower() in WORDS:
        return WORDS[node.id.lower()]
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise SpecError(
            f"parameter {name}={ast.unparse(node)} is not a plain value",
            hint="write a number, True, False, None or a tuple of numbers",
        ) from None


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
        if not _fits(value, by_name[name].hint):
            raise SpecError(
                f"'{text}': {name}={value!r} is of the wrong kind",
                hint=f"it is {_words(by_name[name].hint)}; parameters: {listed}",
            )


def _fits(value: object, hint: object) -> bool:
    """Whether a literal is of the kind that an annotation asks for; a float takes whole numbers."""
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return any(_fits(value, option) for option in typing.get_args(hint))
    if typing.get_origin(hint) is tuple:
        inner = typing.get_args(hint)[0]
        return isinstance(value, tuple | list) and all(_fits(part, inner) for part in value)
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return not isinstance(hint, type) or isinstance(value, hint)


def _words(hint: object) -> str:
    if hint is float:
        return "a number"
    return hint.__name__ if isinstance(hint, type) and not typing.get_args(hint) else str(hint)


def _own_recipe(file: str, name: str, given: str, text: str) -> Recipe:
    contents = _contents(Path(file))
    if name not in contents:
        public = [key for key in contents if not key.startswith("_")]
        raise UnknownName(f"{file} has no '{name}'", hint=_nearest(name, public, "names there"))
    thing = contents[name]
    if isinstance(thing, Recipe) and not given:
        return thing
    made = _made(thing, given, text) if callable(thing) else thing
    if not isinstance(made, Recipe):
        raise SpecError(
            f"'{text}' is {type(made).__name__}, not a recipe",
            hint="name a Recipe, or a function that returns one",
        )
    return made


def _contents(path: Path) -> Mapping[str, object]:
    spec = spec_from_file_location(f"weft_recipe_{path.stem}", path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise SpecError(f"no recipe file {path}", hint="check the path before the colon")
    module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise SpecError(
            f"{path} cannot be loaded: {type(error).__name__}: {error}",
            hint=f"python {path} shows where",
        ) from error
    return vars(module)


def _nearest(name: str, known: list[str], called: str) -> str:
    near = get_close_matches(name, known, n=1)
    return (f"did you mean '{near[0]}'? " if near else "") + f"{called}: {', '.join(known)}"
