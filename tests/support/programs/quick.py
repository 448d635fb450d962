"""`make quick`: the tests for every edit, in two minutes on two cores. Arguments go to pytest.

It runs the tests of the pure layers, the rules of style, and the tests that a change touches. A change is what differs
from the last commit, or the last commit itself if nothing does. `chosen` decides which tests that are. It does not run
tests that are marked slow, interop or wheel, and takes a third of the random cases. `make test` runs all.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from tests.support.programs.parsed_source import parsed

ROOT: Final = Path(__file__).resolve().parents[3]
PURE: Final = (
    *(
        f"tests/widetable/{layer}"
        for layer in ("messages", "runtime", "schema", "kernels", "format", "merge", "lsm")
    ),
    "tests/test_style.py",
    "tests/test_layers.py",
    "tests/test_glossary.py",
)
# Files besides the pure layers: a module that everybody imports touches hundreds.
MOST_TOUCHED: Final = 30
_SOURCES: Final = ("widetable/", "cdc/", "ml/", "lookup/", "meta/", "spark/")


class Choice(NamedTuple):
    """Test files besides the pure layers, nearest first, and how many more the change touches."""

    tests: tuple[str, ...]
    left_out_count: int


def chosen(changed: Iterable[str], imports: Mapping[str, frozenset[str]]) -> Choice:
    """Choose the tests that a change touches.

    Parameters
    ----------
    changed
        Paths of the files that differ, relative to the project.
    imports
        Test file to the modules that it imports, by their dotted names.

    Returns
    -------
    Choice
        First tests that were changed, then those that are named after a changed module, then those that import
        one; of these the ones that import least come first. Files of the pure layers are left out: they run anyway.
    """
    paths = sorted(set(changed))
    modules = {_module(path) for path in paths if path.endswith(".py")}
    names = {f"test_{name.rpartition('.')[2]}" for name in modules}
    own = [path for path in paths if path in imports]
    mirrors = [test for test in sorted(imports) if PurePosixPath(test).stem in names]
    users = sorted(
        (len(imports[test]), test) for test in imports if not modules.isdisjoint(imports[test])
    )
    ranked = dict.fromkeys([*own, *mirrors, *(test for _, test in users)])
    touched = [test for test in ranked if not test.startswith(PURE)]
    return Choice(tuple(touched[:MOST_TOUCHED]), max(len(touched) - MOST_TOUCHED, 0))


def imported(source: str) -> frozenset[str]:
    """Return the modules that a source imports, and the names that it takes from packages, dotted."""
    names: set[str] = set()
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(names)


def _module(path: str) -> str:
    inner = path
    for folder in ("cdc/", "ml/", "lookup/", "meta/", "spark/"):
        inner = inner.removeprefix(folder)
    return inner.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def _changed() -> list[str]:
    """Return the paths that differ from the last commit; of a clean tree, those that the last commit changed."""
    differing = [
        *_git("diff", "--name-only", "HEAD"),
        *_git("ls-files", "--others", "--exclude-standard"),
    ]
    return differing or _git("diff-tree", "--no-commit-id", "--name-only", "-r", "--root", "HEAD")


def _git(*words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def main(arguments: list[str]) -> int:
    """Run the tests; return pytest's exit status."""
    tests = {
        str(path.relative_to(ROOT)): imported(path.read_text(encoding="utf-8"))
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
    }
    choice = chosen(_changed(), tests)
    print(f"quick  the pure layers, and {len(choice.tests)} test files that the change touches")
    if choice.left_out_count:
        print(
            f"quick  left out: {choice.left_out_count} more files that import what changed (make test runs them)"
        )
    command = [sys.executable, "-m", "pytest", "--numprocesses", "2", "--dist", "worksteal", "-q"]
    marks = ["-m", "not slow and not interop and not wheel"]
    return subprocess.run(
        [*command, *marks, *PURE, *choice.tests, *arguments],
        cwd=ROOT,
        env={"HYPOTHESIS_PROFILE": "quick"} | os.environ,
        check=False,
    ).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
