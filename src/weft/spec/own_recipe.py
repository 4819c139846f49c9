"""A recipe that stands in a user's own file, and whose fault it is if something goes wrong there.

Whatever the file does wrong is told by its name and line: while it is read, while it makes the
recipe, and when one of its parts is called in the middle of a run. What it prints goes to standard
error, because standard output is data.
"""

import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from inspect import unwrap
from pathlib import Path
from types import CodeType

import weft
from weft.model.errors import SpecError, UnknownName
from weft.policy.recipe import Recipe
from weft.spec.recipe_contract import held_to_it

OURS = Path(weft.__file__).parent


@dataclass(frozen=True, slots=True)
class Where:
    """A function of the user's: its file, its first line and its name."""

    file: str
    line: int
    name: str

    def __str__(self) -> str:
        return f"{shown(self.file)} line {self.line}, in {self.name}"


@contextmanager
def blaming(file: Path, where: Where | None = None) -> Iterator[None]:
    """Tell what goes wrong inside as a fault of that file, or of the function that was called."""
    try:
        with redirect_stdout(sys.stderr):
            yield
    except SpecError:
        raise
    except (Exception, SystemExit) as error:
        fault = fault_in(error, file)
        if fault is None and where is not None:
            said = f"{where}: {_said(error)}"
            fault = SpecError(said, hint="it was called as a recipe calls it: see docs/recipes.md")
        raise fault or error from error


def fault_in(error: BaseException, file: Path) -> SpecError | None:
    """The same error by the line of the file that it came from, if it came from there."""
    if isinstance(error, SyntaxError) and error.filename and _same(error.filename, file):
        line = (error.text or "").strip()
        return SpecError(
            f"{shown(error.filename)} line {error.lineno}: {type(error).__name__}: {error.msg}",
            hint=f"it says there: {line}" if line else "",
        )
    own = [one for one in traceback.extract_tb(error.__traceback__) if _same(one.filename, file)]
    if not own:
        return None
    where = Where(own[-1].filename, own[-1].lineno or 0, own[-1].name)
    return SpecError(f"{where}: {_said(error)}", hint=f"it says there: {own[-1].line}")


def own_recipe(file: str, name: str, make: Callable[[object], object]) -> Recipe:
    """What `make` makes of that which the file calls `name`."""
    path = Path(file)
    contents = _contents(path)
    if name not in contents:
        raise UnknownName(f"{file} has no '{name}'", hint=_names(name, contents))
    thing = contents[name]
    with blaming(path):
        made = make(thing)
    if not isinstance(made, Recipe):
        raise SpecError(
            f"{file}: '{name}' is {_kind(made)}, not a recipe",
            hint="name a Recipe, or a function that returns one",
        )
    try:
        return held_to_it(made, partial(_calling, path))
    except SpecError as error:
        raise SpecError(f"{shown(file)}: {error}", hint=error.hint) from None


def own_maker(file: str, name: str) -> object:
    """What the file calls `name`, as it stands there."""
    contents = _contents(Path(file))
    if name not in contents:
        raise UnknownName(f"{file} has no '{name}'", hint=_names(name, contents))
    return contents[name]


def shown(file: str) -> str:
    """A path as short as it can be from here."""
    path = Path(file).absolute()
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def _calling(file: Path, part: Callable[..., object]) -> "Guard | None":
    """How to call a part of a recipe that is not Weft's own."""
    where = where_of(part)
    if where is None or Path(where.file).is_relative_to(OURS):
        return None
    return Guard(file, where)


@dataclass(frozen=True, slots=True)
class Guard:
    """Calls a function of the user's, and says where it stands."""

    file: Path
    where: Where

    def __str__(self) -> str:
        return str(self.where)

    def __call__(self, part: Callable[..., object], *given: object, **named: object) -> object:
        with blaming(self.file, self.where):
            return part(*given, **named)


def where_of(part: object) -> Where | None:
    """Where a function, or what makes an object callable, is written; None of what C is."""
    while isinstance(part, partial):
        part = part.func
    function = unwrap(part) if callable(part) else part
    code = getattr(function, "__code__", None)
    if code is None:
        code = getattr(unwrap(type(part).__call__), "__code__", None) if callable(part) else None
    return None if code is None else Where(code.co_filename, code.co_firstlineno, code.co_name)


class _AsWritten(SourceFileLoader):
    """Compiles what is in the file now.

    Python's own cache takes a file that was edited within a second, and is as long as before, for
    the same.
    """

    def get_code(self, fullname: str) -> CodeType:
        code: CodeType = self.source_to_code(self.get_data(self.path), self.path)
        return code


def _contents(path: Path) -> Mapping[str, object]:
    name = f"weft_recipe_{path.stem}"
    spec = spec_from_file_location(name, path, loader=_AsWritten(name, str(path)))
    if not path.is_file() or spec is None or spec.loader is None:
        raise SpecError(
            f"no recipe file {path}",
            hint=f"check the path before the colon, or: weft recipes new {path.stem}",
        )
    module = module_from_spec(spec)
    with blaming(path):
        spec.loader.exec_module(module)
    return vars(module)


def _names(name: str, contents: Mapping[str, object]) -> str:
    public = [
        key
        for key, thing in contents.items()
        if not key.startswith("_") and (isinstance(thing, Recipe) or _is_own(thing, contents))
    ]
    near = get_close_matches(name, public, n=1)
    meant = f"did you mean '{near[0]}'? " if near else ""
    return f"{meant}names there: {', '.join(public) or 'none'}"


def _is_own(thing: object, contents: Mapping[str, object]) -> bool:
    return callable(thing) and getattr(thing, "__module__", None) == contents.get("__name__")


def _same(filename: str, file: Path) -> bool:
    return Path(filename).resolve() == file.resolve()


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _kind(thing: object) -> str:
    return f"a {type(thing).__name__}" if thing is not None else "None"
