"""The design, kept by tests: imports point one way, files stay short, names stay nouns."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "regard"
FILES = sorted(SOURCE.rglob("*.py"))
MODULE = re.compile(r"regard\.(\w+)[\w.]*")

# The lower half: each room sees only what it is built from.
LOWER = {
    "core": set(),
    "attention": {"core"},
    "layers": {"core", "attention"},
    "models": {"core", "attention", "layers"},
    "data": {"core"},
    "tasks": {"core", "data"},
    "training": {"core"},
    "decoding": {"core"},
    "views": {"core"},
    "explain": {"core", "views"},
    "runtime": {"core", "attention", "layers", "models", "decoding"},
    "store": {"core", "models", "data.text"},
}
# The upper half puts it together, in a strict order: a room sees the lower half and the rooms before it.
UPPER = ["pipelines", "evaluation", "runs", "story", "api"]
ALLOWED: dict[str, set[str]] = {
    **LOWER,
    **{room: {*LOWER, *UPPER[:place]} for place, room in enumerate(UPPER)},
    "cli": {"core", "api"},
    "server": {"core", "api"},
}
# `import regard` alone, and what it gives, is the public face; it may be used by whoever may use the api.
IN_THE_ROOT = {"__init__.py": "api", "api.py": "api", "__main__.py": "cli"}


def room_of(path: Path) -> str:
    first = path.relative_to(SOURCE).parts[0]
    return IN_THE_ROOT[first] if first.endswith(".py") else first


def imported(path: Path) -> set[str]:
    """The modules of regard that a file imports, inside functions too, or names in a string for a later import."""
    modules = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            modules |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and (name := MODULE.fullmatch(node.value)):
            modules |= {node.value} if name[1] in ALLOWED else set()  # others name a file's format
    return {module for module in modules if module.split(".")[0] == "regard"}


def wrong_imports(own: str, modules: set[str]) -> list[str]:
    """Those that point the wrong way. A room may be allowed whole ("data") or in part ("data.text")."""

    def allowed(module: str) -> bool:
        name = module.removeprefix("regard").removeprefix(".")
        if name.split(".")[0] not in ALLOWED:
            name = "api"
        return any(f"{name}.".startswith(f"{room}.") for room in {own, *ALLOWED[own]})

    return sorted(module for module in modules if not allowed(module))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_one_way(path):
    own = room_of(path)
    wrong = wrong_imports(own, imported(path))
    assert not wrong, f"{own} must not import {', '.join(wrong)}"


def test_the_import_test_can_fail(tmp_path):
    bad = tmp_path / "bad.py"
    bad.write_text("def f():\n    from regard.layers.block import stack\n")
    assert wrong_imports("attention", imported(bad)) == ["regard.layers.block.stack"]
    assert not wrong_imports("models", imported(bad))
    bad.write_text("import regard\nfrom regard import api, cli\nJOBS = 'regard.runs.jobs'\n")
    assert wrong_imports("api", imported(bad)) == ["regard.cli"]
    assert wrong_imports("runs", imported(bad)) == ["regard", "regard.api", "regard.cli"]
    assert wrong_imports("evaluation", imported(bad)) == ["regard", "regard.api", "regard.cli", "regard.runs.jobs"]
    bad.write_text("from regard.data import images\nfrom regard.data.text import Tokenizer\n")
    assert wrong_imports("store", imported(bad)) == ["regard.data.images"]


def test_the_upper_rooms_stand_in_a_strict_order():
    for place, room in enumerate(UPPER):
        assert not ALLOWED[room] & set(UPPER[place:])
        assert not any(room in allowed for allowed in LOWER.values())


def test_every_room_is_known():
    rooms = {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert rooms <= ALLOWED.keys()
    assert {path.name for path in SOURCE.glob("*.py")} == IN_THE_ROOT.keys()


@pytest.mark.parametrize("name", ["src", "tests", "benchmarks"])
def test_no_file_over_300_lines(name):
    long = {str(path): n for path in (ROOT / name).rglob("*.py") if (n := len(path.read_text().splitlines())) > 300}
    assert not long


def test_no_function_over_80_lines():
    assert not [
        f"{path.name}:{node.name}"
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and node.end_lineno - node.lineno >= 80
    ]


def test_at_most_ten_constructor_arguments():
    wide = []
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                count = len(node.args.args) + len(node.args.kwonlyargs) - 1
                if count > 10:
                    wide.append(f"{path.name}:{node.lineno} has {count}")
    assert not wide


def test_files_are_nouns():
    assert not [path for path in FILES if path.stem in {"utils", "helpers", "common", "misc", "base"}]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_every_file_says_what_it_is(path):
    text = path.read_text()
    assert not text.strip() or ast.get_docstring(ast.parse(text)), "a module docstring is missing"


def test_nothing_is_loaded_that_can_execute():
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {"pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"} & set(names), path
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in {
                    "torch.load",
                    "eval",
                    "exec",
                    "np.load",
                    "numpy.load",
                    "yaml.unsafe_load",
                    "yaml.full_load",
                }, path


@pytest.mark.parametrize("page", ["docs/canon.md", "CONTRIBUTING.md"])
def test_files_that_a_page_names_exist(page):
    named = set(re.findall(r"`((?:[a-z_0-9]+/)+[a-z_0-9]+\.py)`", (ROOT / page).read_text()))
    assert named
    assert not [name for name in named if not (SOURCE / name).is_file() and not (ROOT / name).is_file()]
