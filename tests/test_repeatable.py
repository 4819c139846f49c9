"""The tests repeat themselves: no clock decides, and no seed is new.

This reads the source of the tests. A clock may give a timestamp that is passed on; a comparison
that ends a loop or decides an assertion may not follow from one. Waits have their guard against
hangs from `tests/waiting.py`.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]
TESTS: Final = ROOT / "tests"
CLOCKS: Final = frozenset({"monotonic", "perf_counter", "process_time", "thread_time", "time"})
MENTIONED: Final = re.compile(r"\b(?:monotonic|perf_counter|process_time|thread_time|time)\(\)")
#: The guard against hangs.
GUARDS: Final = "tests/waiting.py"
#: What compares with a clock and is not decided by how long anything takes.
ALLOWED: Final = {
    "tests/kube/client/elections.py": "virtual time",
    "tests/kube/client/test_lease.py": "virtual time",
    "tests/kube/weather.py": "delays that the proxy adds itself",
    "tests/local/jobs/staged.py": "a training script that computes for so long",
    "tests/train/jobs/turns.py": "a training script that computes for so long",
    "tests/local/machine/test_kernel_log.py": "the order of timestamps",
    "tests/realnodes/test_company.py": "the order of timestamps",
    "tests/train/data/test_stream_sharing.py": "the order of timestamps",
}
#: Each draws what the next run does not draw again.
FRESH: Final = re.compile(
    r"SystemRandom|\bRandom\(\)|random\.seed\(\)|default_rng\(\)|WEFT_THOROUGH"
)
RETRIES: Final = re.compile(r"--reruns|flaky")


def python_files() -> list[Path]:
    """All but this one."""
    return [path for path in sorted(TESTS.rglob("*.py")) if path.name != Path(__file__).name]


def is_clock(node: ast.AST) -> bool:
    """`time.monotonic()` and its like, or a monotonic clock of an event loop."""
    if not isinstance(node, ast.Call) or node.args:
        return False
    called = node.func
    if not isinstance(called, ast.Attribute) or called.attr not in CLOCKS:
        return False
    owner = ast.unparse(called.value)
    return owner == "time" or (called.attr == "time" and owner.endswith(("loop", "loop()")))


def depends(node: ast.AST, names: frozenset[str]) -> bool:
    """Whether the value of an expression follows from a clock, or from a name that does."""
    return any(
        is_clock(inner) or (isinstance(inner, ast.Name) and inner.id in names)
        for inner in ast.walk(node)
    )


def clocked_names(function: ast.AST) -> frozenset[str]:
    """Names that are assigned from a clock in this function."""
    assigned = [
        (target.id, node.value)
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    ]
    names: frozenset[str] = frozenset()
    for _ in range(3):  # a name may follow from another that is assigned later in a loop
        names |= {name for name, value in assigned if depends(value, names)}
    return names


def decided_by_a_clock(tree: ast.AST) -> Iterator[int]:
    """Lines of assertions and loops with a comparison that follows from a clock."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if not any(map(is_clock, ast.walk(function))):
            continue
        names = clocked_names(function)
        for node in ast.walk(function):
            if isinstance(node, ast.Assert | ast.While) and any(
                depends(inner, names)
                for inner in ast.walk(node.test)
                if isinstance(inner, ast.Compare)
            ):
                yield node.lineno


def test_no_assertion_and_no_wait_depends_on_elapsed_time() -> None:
    found = {
        name: lines
        for path in python_files()
        if MENTIONED.search(text := path.read_text(encoding="utf-8"))
        and (name := str(path.relative_to(ROOT))) != GUARDS
        and (lines := list(decided_by_a_clock(ast.parse(text))))
    }
    assert {name: lines for name, lines in found.items() if name not in ALLOWED} == {}
    assert found.keys() == ALLOWED.keys(), "take away what is allowed for nothing"


def test_no_seed_is_new() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in python_files()
        for match in FRESH.finditer(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_pytest_tries_nothing_again() -> None:
    configured = [ROOT / "pyproject.toml", ROOT / "tests" / "conftest.py"]
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in configured
        for match in RETRIES.finditer(path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    "body",
    [
        "began = time.monotonic()\n    work()\n    assert time.monotonic() - began < 1",
        "took = time.perf_counter() - began\n    assert 0 < took < bound",
        "end = time.monotonic() + 5\n    while time.monotonic() < end:\n        work()",
        "end = loop.time() + 5\n    while loop.time() < end:\n        work()",
    ],
)
def test_what_a_clock_decides_is_noticed(body: str) -> None:
    assert list(decided_by_a_clock(ast.parse(f"def test() -> None:\n    {body}\n")))


@pytest.mark.parametrize(
    "body",
    [
        "now = time.time()\n    send(now)\n    assert answer() == 3",
        "until(lambda: len(seen) > 3, 'three')\n    assert seen[0] < seen[1]",
    ],
)
def test_a_timestamp_that_is_passed_on_is_allowed(body: str) -> None:
    assert not list(decided_by_a_clock(ast.parse(f"def test() -> None:\n    {body}\n")))
