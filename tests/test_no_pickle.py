"""Nothing that Weft reads is ever executed: no module may deserialise code or evaluate text.

Read from the syntax trees, so that a new module is covered on the day it is written.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "weft"
MODULES = sorted(SOURCE.rglob("*.py"))
FORBIDDEN_IMPORTS = frozenset(
    [
        "pickle",
        "_pickle",
        "cPickle",
        "pickletools",
        "dill",
        "cloudpickle",
        "shelve",
        "marshal",
        "joblib",
        "jsonpickle",
    ]
)
FORBIDDEN_MODULES = frozenset(["torch.serialization", "torch.distributed.checkpoint"])
FORBIDDEN_CALLS = frozenset(["eval", "exec", "compile", "__import__"])
TORCH_FILES = frozenset(["load", "save"])
# DCP describes itself in a pickle. One module reads it, with a list of the classes that it may name
# (`tests/train/test_exchange.py` holds a hostile one against it), and no job ever imports it.
READER_OF_DCP = Path("train/exchange/dcp.py")
MAY_READ_DCP = ("imports pickle", "imports torch.distributed.checkpoint", "calls torch.load")
UNSAFE_YAML = frozenset(["unsafe_load", "full_load", "unsafe_load_all", "full_load_all"])
SAFE_LOADERS = frozenset(["SafeLoader", "CSafeLoader"])


def faults(text: str) -> list[str]:
    """What a module does that none may, with the line."""
    tree = ast.parse(text)
    safe = SAFE_LOADERS | {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and {_last(base) for base in node.bases} & SAFE_LOADERS
    }
    return [
        f"line {line}: {what}" for node in ast.walk(tree) for line, what in _faults_of(node, safe)
    ]


def _faults_of(node: ast.AST, safe: frozenset[str] | set[str]) -> Iterator[tuple[int, str]]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        for name in _imported(node):
            roots = {name.partition(".")[0], name.rpartition(".")[2]}
            if roots & FORBIDDEN_IMPORTS or any(
                name == module or name.startswith(f"{module}.") for module in FORBIDDEN_MODULES
            ):
                yield node.lineno, f"imports {name}"
            if name in ("torch.load", "torch.save", "yaml.load", "yaml.load_all"):
                yield node.lineno, f"imports {name}"
    if isinstance(node, ast.Call):
        yield from ((node.lineno, what) for what in _called(node, safe))


def _imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]


def _called(call: ast.Call, safe: frozenset[str] | set[str]) -> Iterator[str]:
    name, owner = _last(call.func), _owner(call.func)
    if isinstance(call.func, ast.Name) and name in FORBIDDEN_CALLS:
        yield f"calls {name}"
    if owner == "torch" and name in TORCH_FILES:
        yield f"calls torch.{name}"
    plain_load = name.startswith("load") and not _safe(call, safe)
    if owner == "yaml" and (plain_load or name in UNSAFE_YAML):
        yield f"calls yaml.{name}"
    for keyword in call.keywords:
        if keyword.arg == "allow_pickle" and not _is(keyword.value, False):
            yield "allows pickle"
        if keyword.arg == "weights_only" and not _is(keyword.value, True):
            yield "loads more than weights"


def _safe(call: ast.Call, safe: frozenset[str] | set[str]) -> bool:
    loaders = [*call.args[1:], *(one.value for one in call.keywords if one.arg == "Loader")]
    return len(loaders) == 1 and _last(loaders[0]) in safe


def _is(node: ast.expr, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def _last(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _owner(node: ast.expr) -> str:
    return _last(node.value) if isinstance(node, ast.Attribute) else ""


def test_no_module_deserialises_code() -> None:
    found = {str(path.relative_to(SOURCE)): _faults_in(path) for path in MODULES}
    assert not {name: lines for name, lines in found.items() if lines}


def _faults_in(path: Path) -> list[str]:
    found = faults(path.read_text())
    if path.relative_to(SOURCE) == READER_OF_DCP:
        found = [one for one in found if not one.partition(": ")[2].startswith(MAY_READ_DCP)]
    return found


def test_what_trains_does_not_import_the_reader_of_dcp() -> None:
    name = ".".join(("weft", *READER_OF_DCP.with_suffix("").parts))
    rooms = [path for path in MODULES if path.parent.name != "exchange"]
    assert not [path for path in rooms if name in path.read_text()]


def test_all_modules_are_read() -> None:
    assert len(MODULES) > 100


UNSAFE = [
    "import pickle",
    "import pickle as harmless",
    "from pickle import loads",
    "from six.moves import cPickle",
    "import dill",
    "import cloudpickle",
    "import shelve",
    "import marshal",
    "import joblib",
    "def inner():\n    import pickle",
    "import torch\ntorch.load('x')",
    "import torch\ntorch.save({}, 'x')",
    "from torch import load",
    "import torch.distributed.checkpoint as dcp",
    "from torch.distributed import checkpoint",
    "numpy.load('x', allow_pickle=True)",
    "numpy.load('x', allow_pickle=flag)",
    "anything.load('x', weights_only=False)",
    "yaml.load(text)",
    "yaml.load(text, Loader=yaml.Loader)",
    "yaml.load(text, yaml.UnsafeLoader)",
    "yaml.unsafe_load(text)",
    "yaml.load_all(text)",
    "from yaml import load",
    "eval('1')",
    "exec('x = 1')",
    "compile('1', 'x', 'eval')",
    "__import__('os')",
]
HARMLESS = [
    "model.eval()",
    "re.compile('x')",
    "json.load(file)",
    "numpy.load('x', allow_pickle=False)",
    "yaml.safe_load(text)",
    "yaml.load(text, Loader=yaml.CSafeLoader)",
    "class Strict(yaml.SafeLoader): ...\nyaml.load(text, Strict)",
    "from weft.train.state.snapshot import load",
]


def test_each_way_is_noticed() -> None:
    assert not [text for text in UNSAFE if not faults(text)]


def test_what_is_harmless_is_let_pass() -> None:
    assert not {text: faults(text) for text in HARMLESS if faults(text)}
