"""`make test` finds the tests of what was edited, and runs the nearest first."""

from pathlib import Path

import pytest

from tools.import_graph import distances, files_by_module, imported_names, importers
from tools.nearest_tests import batches, changed_modules, nearest_tests


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A package of three modules in a row, and tests of the first and of the last."""
    root = tmp_path_factory.mktemp("project")
    sources = {
        "weft.model.first": "",
        "weft.policy.second": "from weft.model import first",
        "weft.policy.third": "from weft.policy.second import thing",
        "tests.model.test_first": "from weft.model.first import thing",
        "tests.policy.test_third": "import weft.policy.third",
        "tests.kube.test_first": "import weft.model.first",
    }
    files = {}
    for module, source in sources.items():
        files[module] = root / f"{module}.py"
        files[module].write_text(source)
    return files


def test_imports_are_read_in_every_form() -> None:
    source = "import a.b\nfrom c.d import e\nfrom . import f\nfrom ..g import h\n"
    found = imported_names(source, "weft.policy.order.x", is_package=False)
    assert {"a.b", "c.d.e", "weft.policy.order.f", "weft.policy.g.h"} <= found


def test_a_package_counts_its_own_level() -> None:
    assert "weft.policy.x" in imported_names("from . import x", "weft.policy", is_package=True)


def test_the_nearest_tests_come_first_and_only_computing_ones(
    project: dict[str, Path], tmp_path: Path
) -> None:
    reverse = importers(project, tmp_path / "imports.json")
    away = distances(["weft.model.first"], reverse)
    assert away["tests.model.test_first"] == 1 < away["tests.policy.test_third"]
    assert importers(project, tmp_path / "imports.json") == reverse, "what is remembered is alike"


def test_tests_of_this_project_are_found_by_their_imports() -> None:
    files = files_by_module()
    edited = changed_modules([files["weft.policy.order.expected"]], files)
    found = [path.name for path in nearest_tests(edited, files)]
    assert found[0] == "test_expected.py"
    assert "test_executor.py" not in found


def test_small_batches_come_first() -> None:
    files = [Path(f"test_{number}.py") for number in range(30)]
    sizes = [len(batch) for batch in batches(files)]
    assert sizes[:2] == sorted(sizes[:2])
    assert sizes[0] < 10
    assert sum(sizes) == 30
