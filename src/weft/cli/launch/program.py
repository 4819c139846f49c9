"""What `weft launch` is asked to run: a script, a module, a folder or a program.

Whatever Python could run is run by the interpreter of `weft` itself. What cannot be run is said
before anything is started, once and not once for each worker, with what to write instead.
"""

import ast
import os
import re
import shutil
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path, PurePath
from typing import Final

from weft.agent.workers.program import starts_its_own
from weft.agent.workers.spawn_pool import PYTHON
from weft.model.errors import SpecError

IMPORTS_WEFT: Final = re.compile(r"^\s*(?:import|from)\s+weft\b", re.MULTILINE)
PYTHON_SHEBANG: Final = re.compile(rb"#!.*\bpython")
MOST_BYTES: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Program:
    """A command, its short name, and the Python file that it begins with, if that is known."""

    command: tuple[str, ...]
    name: str
    file: Path | None = None

    @property
    def knows_weft(self) -> bool:
        """Whether it imports Weft by itself, as far as its first file tells."""
        if self.file is None:
            return False
        try:
            text = self.file.read_bytes()[:MOST_BYTES].decode(errors="replace")
        except OSError:
            return False
        return IMPORTS_WEFT.search(text) is not None

    @property
    def mistake(self) -> SyntaxError | None:
        """Why Python cannot read its first file: found before each of its workers finds it."""
        if self.file is None or self.command[0] != sys.executable:
            return None  # another interpreter may have another grammar
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ast.parse(self.file.read_bytes(), str(self.file))
        except SyntaxError as error:
            return error
        except (OSError, ValueError):
            return None
        return None


def program_of(words: Sequence[str], *, module: bool = False) -> Program:
    """What these words mean."""
    if starts_its_own(words):
        raise SpecError(
            f"'{words[0]}' starts processes by itself",
            hint="weft launch stands in its place: weft launch -n 4 train.py",
        )
    if module:
        return _module(words)
    if PYTHON.fullmatch(PurePath(words[0]).name):
        return _interpreted(words)
    path = Path(words[0])
    if path.is_dir():
        return _folder(path, words)
    if path.exists():
        return _file(path, words)
    return _elsewhere(words)


def _module(words: Sequence[str]) -> Program:
    name = words[0]
    found = _found(name)
    if found is None:
        file_hint = f"'{name}' is a file: leave -m out"
        hint = f"it is looked for in {Path.cwd()} and where {sys.executable} finds packages"
        raise SpecError(
            f"there is no module '{name}'", hint=file_hint if Path(name).exists() else hint
        )
    file = Path(found.origin) if found.origin and found.origin.endswith(".py") else None
    if found.submodule_search_locations is not None:
        main = [Path(where) / "__main__.py" for where in found.submodule_search_locations]
        file = next((path for path in main if path.exists()), None)
        if file is None:
            raise SpecError(
                f"'{name}' is a package that cannot be run",
                hint=f"name a module in it: -m {name}.train, or give it a __main__.py",
            )
    return Program((sys.executable, "-m", *words), name.rpartition(".")[2], file)


def _found(name: str) -> ModuleSpec | None:
    """As Python would find it, but without running any of its packages."""
    where: Sequence[str] | None = [str(Path.cwd()), *sys.path]
    found = None
    for part in name.split("."):
        found = PathFinder.find_spec(part, where) if where is not None else None
        if found is None:
            return None
        where = found.submodule_search_locations
    return found


def _interpreted(words: Sequence[str]) -> Program:
    """`python train.py`, as people write it: that interpreter, and whatever it is told."""
    script = next((word for word in words[1:] if not word.startswith("-")), None)
    if script is None:
        raise SpecError(f"'{words[0]}' without a script", hint="weft launch -n 4 train.py")
    if "-m" in words[1 : words.index(script)] or "-c" in words[1 : words.index(script)]:
        return Program(tuple(words), PurePath(words[0]).name)
    inner = program_of(words[words.index(script) :])
    return Program(tuple(words), inner.name, inner.file)


def _folder(path: Path, words: Sequence[str]) -> Program:
    main = path / "__main__.py"
    if main.exists():
        return Program((sys.executable, *words), path.resolve().name, main)
    scripts = sorted(file.name for file in path.glob("*.py"))
    near = get_close_matches("train.py", scripts, n=1) or scripts[:1]
    raise SpecError(
        f"'{words[0]}' is a folder without a __main__.py",
        hint=f"name a script in it: {path / near[0]}" if near else "name a script",
    )


def _file(path: Path, words: Sequence[str]) -> Program:
    if not os.access(path, os.R_OK):
        raise SpecError(f"'{path}' may not be read", hint=f"chmod +r {path}, or ask its owner")
    if path.suffix == ".ipynb":
        raise SpecError(
            f"'{path}' is a notebook",
            hint=f"make a script of it: jupyter nbconvert --to script {path}",
        )
    if path.suffix == ".py":
        return Program((sys.executable, *words), path.stem, path)
    if os.access(path, os.X_OK):
        named = words[0] if os.sep in words[0] else f".{os.sep}{words[0]}"
        return Program((named, *words[1:]), path.stem)
    with path.open("rb") as file:
        if PYTHON_SHEBANG.match(file.readline(200)):
            return Program((sys.executable, *words), path.stem, path)
    raise SpecError(
        f"'{path}' is neither a Python script nor executable",
        hint=f"chmod +x {path}, or name the program that runs it: bash {path}",
    )


def _elsewhere(words: Sequence[str]) -> Program:
    """Not a file here: a program of the PATH, or a mistake."""
    name = words[0]
    if not name.endswith(".py") and os.sep not in name and shutil.which(name):
        return Program(tuple(words), name)
    raise SpecError(f"there is no '{name}'", hint=_meant(name))


def _meant(name: str) -> str:
    path = Path(name)
    if not name.endswith(".py") and path.with_name(f"{path.name}.py").exists():
        return f"do you mean {name}.py?"
    folder = path.parent
    if not folder.is_dir():
        return f"there is no folder '{folder}'"
    alike = {p.stem: p for p in folder.iterdir() if p.suffix == path.suffix}
    for near in get_close_matches(path.stem, alike, n=1):
        return f"do you mean {alike[near]}?"
    if os.sep not in name and not name.endswith(".py") and _found(name) is not None:
        return f"it is a module: weft launch -m {name}"
    return f"it is looked for in {folder.resolve()}"
