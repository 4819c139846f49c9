"""Which modules of the project import which, read from their source.

Imports are found by parsing, so nothing is executed. Parsed files are remembered by size and time
of change in `build/imports.json`: a second look costs a fraction of a second.
"""

import ast
import json
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
CACHE = ROOT / "build" / "imports.json"
SOURCES = {"src": ROOT / "src", "tests": ROOT, "tools": ROOT, "benchmarks": ROOT}
"""Folders that hold modules, and the folder from which their names are counted."""


def module_of(path: Path, root: Path) -> str:
    """The dotted name of a file below the folder from which names are counted."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def files_by_module(root: Path = ROOT) -> dict[str, Path]:
    """Every module of the project, tests and tools among them."""
    found = {}
    for folder, base in SOURCES.items():
        below = root / base.relative_to(ROOT)
        top = below if folder == "src" else below / folder
        for path in sorted(top.rglob("*.py")):
            found[module_of(path, below)] = path
    return found


def imported_names(source: str, module: str, *, is_package: bool) -> set[str]:
    """Dotted names that the source imports; of `from a import b` both `a` and `a.b`."""
    package = module if is_package else module.rpartition(".")[0]
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *([base] if base else [])])
            names.add(base)
            names.update(f"{base}.{alias.name}" for alias in node.names)
    return names


def importers(files: Mapping[str, Path], cache: Path = CACHE) -> dict[str, set[str]]:
    """For each module, the modules that import it."""
    known = json.loads(cache.read_text()) if cache.is_file() else {}
    seen, reverse = {}, defaultdict(set)
    for module, path in files.items():
        stat = path.stat()
        key = [stat.st_size, stat.st_mtime_ns]
        entry = known.get(module)
        if entry is None or entry[0] != key:
            names = imported_names(
                path.read_text("utf-8"), module, is_package=path.name == "__init__.py"
            )
            entry = [key, sorted(names)]
        seen[module] = entry
        for name in entry[1]:
            if name in files and name != module:
                reverse[name].add(module)
    if seen != known:
        cache.parent.mkdir(parents=True, exist_ok=True)
        cache.write_text(json.dumps(seen))
    return reverse


def distances(changed: Iterable[str], reverse: Mapping[str, set[str]]) -> dict[str, int]:
    """How many imports each module is away from the nearest changed one."""
    found = dict.fromkeys(changed, 0)
    queue = deque(found)
    while queue:
        module = queue.popleft()
        for importer in sorted(reverse.get(module, ())):
            if importer not in found:
                found[importer] = found[module] + 1
                queue.append(importer)
    return found
