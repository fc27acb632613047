"""How good the tests are: break one place of the code at a time, and count the breaks that no test notices.

    python benchmarks/mutants.py [--count 200] [--seed 0] [--only decoding] [--out mutants.json]

A mutant changes one operator, comparison, constant or condition. Places are drawn by the seed, shares by folder. Each
mutant is a copy of the package in a temporary folder. Tests run against it up to the first failure: those that execute
the changed line (one run of all of them with coverage tells which). Mutants that live meet the wider tests at the end.
A survivor is either equivalent (no input could tell it from the code) or a missing test: the list names each, to be
judged by hand. Results are added to `--out` as they come, so that a run that was stopped goes on; what coverage told is
kept beside it, so delete both after a change of code or tests.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "regard"
# What is broken, and the tests that should notice. Of these, a mutant meets those that execute its line.
TARGETS = {
    "attention": ["tests/mirror/attention", "tests/conformance/test_attend.py", "tests/conformance/test_positions.py",
                  "tests/mirror/test_canon.py"],
    "decoding": ["tests/mirror/decoding", "tests/conformance/test_company.py"],
    "training": ["tests/mirror/training"],
    "explain/nullspace.py": ["tests/mirror/explain/test_nullspace.py"],
    "explain/jacobian.py": ["tests/mirror/explain/test_attribute.py"],
}  # fmt: skip
SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And, ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
# Wider tests, which take minutes: a mutant that lives so far meets them too. Coverage does not follow their processes.
WIDER = {
    "attention": ["tests/conformance/test_models.py", "tests/conformance/test_checkpoint_models.py",
                  "tests/mirror/models/test_ntm.py", "tests/parity/test_transformers.py"],
    "decoding": ["tests/conformance/test_engines.py", "tests/system/test_translate.py"],
    "training": ["tests/conformance/test_word_vector_models.py", "tests/system/test_train.py",
                 "tests/system/test_resume.py", "tests/system/test_processes.py"],
}  # fmt: skip
_SECONDS = 600
_PYTEST = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", "-m", "not slow"]
# A mutant can make a loop endless: a single test that takes so many seconds ends the run, and counts as failed.
_ENDLESS = ["-o", "faulthandler_timeout=60", "-o", "faulthandler_exit_on_timeout=true"]

Reached = dict[str, dict[int, list[str]]]
"""The tests that execute a line, by file and line number."""


@dataclass(frozen=True)
class Mutant:
    target: str
    file: str
    line: int
    change: str
    source: str
    """The whole file, changed."""

    @property
    def name(self) -> str:
        return f"{self.file}:{self.line}  {self.change}"


def mutants_of(target: str, path: Path) -> Iterator[Mutant]:
    """Every mutant of a file; annotations and error texts are left alone."""
    text = path.read_text()
    count = sum(1 for _ in _places(ast.parse(text)))
    for number in range(count):
        tree = ast.parse(text)
        node, kind = next(place for index, place in enumerate(_places(tree)) if index == number)
        before = ast.unparse(node) if hasattr(node, "lineno") else type(node).__name__
        _apply(node, kind)
        after = ast.unparse(node)
        if before != after:
            name = str(path.relative_to(PACKAGE))
            yield Mutant(target, name, node.lineno, f"{before[:60]} → {after[:60]}", ast.unparse(tree))


def _places(tree: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    skipped = set[int]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise):  # what an error says is for people
            skipped |= {id(inner) for inner in ast.walk(node)}
        for field in ("annotation", "returns"):
            if (note := getattr(node, field, None)) is not None:
                skipped |= {id(inner) for inner in ast.walk(note)}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if (isinstance(node, ast.BinOp) and type(node.op) in SWAPS) or isinstance(node, ast.BoolOp):
            yield node, "operator"
        elif isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
            yield node, "comparison"
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float, bool):
            yield node, "constant"
        elif isinstance(node, (ast.If, ast.IfExp, ast.While)):
            yield node.test, "condition"
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub, ast.Invert)):
            yield node, "sign"


def _apply(node: ast.AST, kind: str) -> None:
    if kind == "operator":
        node.op = SWAPS[type(node.op)]()
    elif kind == "comparison":
        node.ops[0] = SWAPS[type(node.ops[0])]()
    elif kind == "constant":
        node.value = (not node.value) if isinstance(node.value, bool) else node.value + 1
    elif kind == "sign":
        node.op = ast.UAdd() if isinstance(node.op, ast.USub) else ast.USub()
    elif kind == "condition":
        inner = ast.copy_location(type(node)(**dict(ast.iter_fields(node))), node)
        node.__class__ = ast.UnaryOp
        node.op, node.operand = ast.Not(), inner


def reached(kept: Path) -> Reached:
    """Run all the tests once with coverage, or read what an earlier run told."""
    if not kept.exists():
        with tempfile.TemporaryDirectory() as temporary:
            data = Path(temporary) / "coverage"
            words = [word for word in _PYTEST if word != "-x"] + ["-n", "2", "--cov=regard", "--cov-context=test"]
            tests = sorted({test for tests in TARGETS.values() for test in tests})
            environment = {**os.environ, "COVERAGE_FILE": str(data), "OMP_NUM_THREADS": "1"}
            subprocess.run([*words, "--cov-report=", *tests], cwd=ROOT, env=environment, check=True)
            kept.write_text(json.dumps(_contexts(data)))
    return {
        file: {int(line): tests for line, tests in lines.items()}
        for file, lines in json.loads(kept.read_text()).items()
    }


def _contexts(data: Path) -> Reached:
    from coverage import CoverageData

    measured = CoverageData(str(data))
    measured.read()
    return {
        str(Path(file).relative_to(PACKAGE)): {
            line: sorted({context.split("|")[0] for context in contexts if context})
            for line, contexts in measured.contexts_by_lineno(file).items()
        }
        for file in measured.measured_files()
    }


def tests_of(mutant: Mutant, told: Reached) -> list[str]:
    """The tests of the mutant's target that execute its line; for a line that only an import executes, those that visit
    its file; all where there are none. Those of single files come first."""
    own = tuple(TARGETS[mutant.target])
    lines = {
        line: [test for test in tests if test.startswith(own)] for line, tests in told.get(mutant.file, {}).items()
    }
    first = max((line for line in lines if line <= mutant.line), default=None)  # a statement may take several lines
    at_line = lines[first] if first is not None else []
    tests = at_line or {test for tests in lines.values() for test in tests} or own
    return sorted(tests, key=lambda test: (not test.startswith("tests/mirror"), test))


def noticed(mutant: Mutant, tests: list[str]) -> bool:
    """Whether one of the tests fails, or does not end."""
    with tempfile.TemporaryDirectory() as temporary:
        shutil.copytree(PACKAGE, Path(temporary) / "regard", ignore=shutil.ignore_patterns("__pycache__"))
        (Path(temporary) / "regard" / mutant.file).write_text(mutant.source)
        (Path(temporary) / "tests.txt").write_text("\n".join(tests))
        environment = {**os.environ, "PYTHONPATH": temporary, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        words = [*_PYTEST, *_ENDLESS, f"@{temporary}/tests.txt"]
        try:
            done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            return True
        return done.returncode != 0


def drawn(count: int, seed: int, only: str | None) -> list[Mutant]:
    """So many mutants, each target's share by how many places it has."""
    every = [
        mutant
        for target in TARGETS
        if only in (None, target)
        for path in ([PACKAGE / target] if target.endswith(".py") else sorted((PACKAGE / target).rglob("*.py")))
        for mutant in mutants_of(target, path)
    ]
    return random.Random(seed).sample(every, min(count, len(every)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=TARGETS)
    parser.add_argument("--out", type=Path, default=Path("out/mutants.json"))
    arguments = parser.parse_args()
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    told = reached(arguments.out.with_suffix(".reached.json"))
    results = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    mutants = drawn(arguments.count, arguments.seed, arguments.only)
    for stage in ("near", "wider"):
        for number, mutant in enumerate(mutants, start=1):
            result = results.setdefault(mutant.name, {})
            tests = WIDER.get(mutant.target, []) if stage == "wider" else tests_of(mutant, told)
            if tests and stage not in result and not result.get("near"):
                result[stage] = noticed(mutant, tests)
                arguments.out.write_text(json.dumps(results, indent=1, ensure_ascii=False))
            survivors = [name for name, result in results.items() if not any(result.values())]
            print(f"{stage} {number}/{len(mutants)}: {len(survivors)} not noticed", end="\r", flush=True)
    print()
    print("\n".join(survivors))


if __name__ == "__main__":
    main()
