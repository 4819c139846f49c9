"""The contest's record: outcomes as lines of JSON, each with a digest of the code it came from.

An outcome counts only beside outcomes of the same code. The digest is over everything that decides
an outcome: what the simulated world, the brain and the recipes import of the rooms that decide and
simulate, and what makes the jobs. Comments and docstrings are left out of it, and so are modules
that none of these reaches: neither a better word nor a new room costs a week of trials.
"""

import ast
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from functools import cache
from hashlib import sha256
from pathlib import Path

import weft
from benchmarks.elastic.trials import Outcome

ROOMS = ("model", "perf", "policy", "brain", "sim")
DECIDES = ("weft.sim.world", "weft.brain.brain", "weft.policy.recipes")
MAKERS_OF_JOBS = ("trace/generator.py", "trace/mix.py", "trace/philly_mix.py")
HERE = ("fairness.py", "mixes.py", "scaling.py", "settings.py", "trials.py", "workloads.py")
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
DIGITS = 12


@cache
def code() -> str:
    """The digest of the present code."""
    digest = sha256()
    for file in _files():
        digest.update(file.name.encode())
        digest.update(_meaning(file.read_text()).encode())
    return digest.hexdigest()[:DIGITS]


def kept(file: Path) -> dict[str, list[Outcome]]:
    """All outcomes in the file by code, the code that was run last at the end."""
    found: dict[str, list[Outcome]] = {}
    for line in file.read_text().splitlines() if file.exists() else ():
        fields = json.loads(line)
        digest = fields.pop("code")
        found[digest] = [*found.pop(digest, []), Outcome(**fields)]
    return found


def of_present_code(file: Path) -> list[Outcome]:
    return kept(file).get(code(), [])


def latest(file: Path) -> tuple[str, list[Outcome]]:
    """The code that was run last, and its outcomes."""
    return next(reversed(kept(file).items()), (code(), []))


def keep(file: Path, outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
    """Hand the outcomes on, each after it was written down."""
    with file.open("a") as lines:
        for outcome in outcomes:
            print(json.dumps({"code": code(), **asdict(outcome)}), file=lines, flush=True)
            yield outcome


def _files() -> Iterator[Path]:
    source = Path(weft.__file__).parent
    yield from sorted(_reached(source.parent))
    yield from (source / name for name in MAKERS_OF_JOBS)
    yield from (Path(__file__).with_name(name) for name in HERE)


def _reached(source: Path) -> set[Path]:
    """The modules of the rooms that are imported from where decisions are made, and so on."""
    found: set[Path] = set()
    waiting = [_module(source, name) for name in DECIDES]
    while waiting:
        file = waiting.pop()
        if file is not None and file not in found:
            found.add(file)
            waiting += [_module(source, name) for name in _imported(file)]
    return found


def _imported(file: Path) -> Iterator[str]:
    """Dotted names that may be modules of the rooms."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{one.name}" for one in node.names)


def _module(source: Path, name: str) -> Path | None:
    """Its file, if it is a module of one of the rooms."""
    first, *rest = name.split(".")
    file = source.joinpath(first, *rest).with_suffix(".py")
    return file if first == "weft" and rest[:1] and rest[0] in ROOMS and file.exists() else None


def _meaning(text: str) -> str:
    """The code without comments, docstrings and layout."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:]
    return ast.dump(tree)
