"""Rules of style that a linter does not know: sizes, names, what an __init__ holds, what may not be run."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.programs.parsed_source import parsed

ROOT = Path(__file__).resolve().parent.parent
FILE_LINES = 450
FUNCTION_LINES = 60
NAMELESS = {"utils", "util", "helpers", "helper", "common", "misc"}
EXECUTING_MODULES = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "marshal", "shelve"}
EXECUTING_CALLS = {"eval", "exec", "compile", "__import__"}

PACKAGES = (
    "widetable",
    "cdc/widetable_cdc",
    "ml/widetable_feast",
    "lookup/widetable_lookup",
    "meta/widetable_meta",
    "spark/widetable_spark",
    "spark/pyspark_widetable",
)
EVERYWHERE = (*PACKAGES, "tests", "benchmarks", "examples", "docs/site")

BREAKING: dict[tuple[str | None, str], str] = {
    ("functools", "cached_property"): "derived_value",
    ("concurrent.futures", ""): "worker_thread",
}

# What people read of. A number that stands as a constant is never one.
COUNTING = {
    "cli",
    "commit",
    "derive",
    "lsm",
    "merge",
    "meta",
    "topology",
    "operations",
    "read",
    "widetable_cdc",
    "widetable_feast",
    "widetable_spark",
}
COUNTED = re.compile(
    r"(?<!\{)\{(?!_?[A-Z][A-Z_]*\})[^{}]+\} (?:level-0 |commit |data |live |new |damaged |deleted )?(?:rows|files"
    r"|buckets|snapshots|commits|partitions|tables|columns|keys|records|compactions|findings|nulls|orphans|users)\b"
)

Rule = Callable[[str, Path], list[str]]


def file_too_long(source: str, path: Path) -> list[str]:
    lines = len(source.splitlines())
    if lines <= FILE_LINES:
        return []
    return [f"{path} has {lines} lines, at most {FILE_LINES}: split it by its nouns"]


def function_too_long(source: str, path: Path) -> list[str]:
    faults = []
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES:
                where = f"{path}:{node.lineno} {node.name}"
                faults.append(f"{where} has {lines} lines, at most {FUNCTION_LINES}")
    return faults


def name_says_nothing(source: str, path: Path) -> list[str]:
    parts = {part.removesuffix(".py").strip("_") for part in path.parts}
    return [f"{path}: name it after what it holds, not {name}" for name in sorted(parts & NAMELESS)]


def code_in_init(source: str, path: Path) -> list[str]:
    """An __init__ holds its docstring, imports, also such that only type checkers see, and `__all__`."""
    if path.name != "__init__.py":
        return []
    faults = []
    nodes = parsed(source).body
    for node in nodes:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "typing.TYPE_CHECKING":
            nodes += [*node.body, *node.orelse]
            continue
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        is_import = isinstance(node, ast.Import | ast.ImportFrom)
        if not (is_docstring or is_import or _assigned_name(node) == "__all__"):
            faults.append(f"{path}:{node.lineno} holds code")
    return faults


def no_module_docstring(source: str, path: Path) -> list[str]:
    return [] if ast.get_docstring(parsed(source)) else [f"{path} does not say what it holds"]


def executes_data(source: str, path: Path) -> list[str]:
    """Nothing read from disk is executed: no pickle, no eval."""
    faults = []
    for node in ast.walk(parsed(source)):
        found = _executing_name(node)
        if found:
            faults.append(f"{path}:{getattr(node, 'lineno', 0)} uses {found}")
    return faults


def breaks_at_fork_or_end(source: str, path: Path) -> list[str]:
    """Locks that a forked child inherits taken, and threads that take no work any more once the main thread ended."""
    faults = []
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.ImportFrom):
            found = {(node.module, alias.name) for alias in node.names} | {(node.module, "")}
            faults += [
                f"{path}:{node.lineno}: use {BREAKING[name]}" for name in found & BREAKING.keys()
            ]
    return faults


def logs_bare_units(source: str, path: Path) -> list[str]:
    """People read logs: `human_units` has sizes and times for them."""
    found = re.finditer(r"%[ds] (ms|millis|bytes)\b", source)
    return [f"{path}: a log line with {each[0]!r}" for each in found]


def counts_without_its_word(source: str, path: Path) -> list[str]:
    """`1 rows`: `counted` knows the word behind a number. Damage within a file's bytes is left alone."""
    if not set(path.parts[1:]) & COUNTING:
        return []
    return [f"{path}: {each[0]!r} may be one" for each in COUNTED.finditer(source)]


def asks_the_clock(source: str, path: Path) -> list[str]:
    """Python's clocks end in 2262 with a bare OverflowError; `machine_clock` says what is wrong."""
    found = re.finditer(r"\btime\.time(?:_ns)?\b|\bdate(?:time)?\.(?:now|utcnow|today)\b", source)
    return [
        f"{path}: ask `machine_clock`, not {each[0]}"
        for each in found
        if path.name != "machine_clock.py"
    ]


def _assigned_name(node: ast.stmt) -> str | None:
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        return getattr(node.targets[0], "id", None)
    return getattr(node.target, "id", None) if isinstance(node, ast.AnnAssign) else None


def _executing_name(node: ast.AST) -> str | None:
    if isinstance(node, ast.Import):
        names = {alias.name.split(".")[0] for alias in node.names}
    elif isinstance(node, ast.ImportFrom):
        names = {(node.module or "").split(".")[0]}
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id if node.func.id in EXECUTING_CALLS else None
    elif isinstance(node, ast.keyword):
        return node.arg if node.arg == "allow_pickle" else None
    else:
        return None
    return next(iter(sorted(names & EXECUTING_MODULES)), None)


RULES: dict[Rule, tuple[str, ...]] = {
    file_too_long: EVERYWHERE,
    function_too_long: (*PACKAGES, "benchmarks", "examples", "docs/site"),
    name_says_nothing: EVERYWHERE,
    code_in_init: EVERYWHERE,
    no_module_docstring: EVERYWHERE,
    executes_data: PACKAGES,
    breaks_at_fork_or_end: PACKAGES,
    logs_bare_units: PACKAGES,
    counts_without_its_word: PACKAGES,
    asks_the_clock: PACKAGES,
}


def sources(folders: tuple[str, ...]) -> Iterator[Path]:
    """Paths of the Python files below these folders, relative to the project."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path.relative_to(ROOT)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_rule_holds(rule: Rule) -> None:
    paths = list(sources(RULES[rule]))
    assert paths
    faults = []
    for path in paths:
        faults += rule((ROOT / path).read_text(encoding="utf-8"), path)
    assert faults == []


def class_names(source: str) -> list[str]:
    return [node.name for node in ast.walk(parsed(source)) if isinstance(node, ast.ClassDef)]


def test_a_class_name_stands_once_in_the_code_base() -> None:
    homes: dict[str, list[str]] = {}
    for path in sources((*PACKAGES, "benchmarks", "examples", "docs/site")):
        for name in class_names((ROOT / path).read_text(encoding="utf-8")):
            homes.setdefault(name, []).append(str(path))
    assert len(homes) > 200
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}


@pytest.mark.parametrize("folder", PACKAGES)
def test_package_says_that_it_is_typed(folder: str) -> None:
    assert (ROOT / folder / "py.typed").exists()


_BODY = "\n".join("    x = 1" for _ in range(FUNCTION_LINES))
BROKEN = [
    (file_too_long, "x = 1\n" * (FILE_LINES + 1), "widetable/merge/engine.py"),
    (function_too_long, f"def f():\n{_BODY}", "widetable/x.py"),
    (function_too_long, f"class C:\n  async def f():\n{_BODY}", "widetable/x.py"),
    (name_says_nothing, "", "widetable/utils.py"),
    (name_says_nothing, "", "widetable/format/_helpers.py"),
    (name_says_nothing, "", "widetable/common/x.py"),
    (code_in_init, "x = 1", "widetable/__init__.py"),
    (code_in_init, "def f(): ...", "widetable/__init__.py"),
    (code_in_init, "print()", "widetable/__init__.py"),
    (code_in_init, "if x: import a", "widetable/__init__.py"),
    (code_in_init, "if typing.TYPE_CHECKING: x = 1", "widetable/__init__.py"),
    (code_in_init, "if typing.TYPE_CHECKING: import a\nelse: print()", "widetable/__init__.py"),
    (no_module_docstring, "x = 1", "widetable/x.py"),
    (executes_data, "import pickle", "widetable/x.py"),
    (executes_data, "from cloudpickle import loads", "widetable/x.py"),
    (executes_data, "eval(text)", "widetable/x.py"),
    (executes_data, "np.load(f, allow_pickle=True)", "widetable/x.py"),
    (breaks_at_fork_or_end, "from functools import cached_property", "widetable/x.py"),
    (breaks_at_fork_or_end, "from concurrent.futures import Future", "widetable/x.py"),
    (logs_bare_units, '_log.info("%d bytes freed", size)', "widetable/x.py"),
    (asks_the_clock, "now = time.time()", "meta/widetable_meta/x.py"),
    (asks_the_clock, "now = datetime.now(zone)", "widetable/x.py"),
    (counts_without_its_word, 'f"{len(found)} level-0 files wait"', "widetable/cli/x.py"),
]


@pytest.mark.parametrize(("rule", "source", "path"), BROKEN)
def test_a_broken_rule_is_seen(rule: Rule, source: str, path: str) -> None:
    assert len(rule(source, Path(path))) == 1


def test_what_is_allowed_passes() -> None:
    assert file_too_long("x = 1\n" * FILE_LINES, Path("widetable/x.py")) == []
    assert function_too_long(f"def f():\n{_BODY[:-10]}", Path("widetable/x.py")) == []
    init = '"""Doc."""\nfrom a import b\nif typing.TYPE_CHECKING: import c\n__all__ = ["b"]'
    assert code_in_init(init, Path("widetable/__init__.py")) == []
    assert executes_data("import re\nre.compile('x')", Path("widetable/x.py")) == []


def test_the_engine_does_not_need_pandas() -> None:
    """Arrow's `to_pandas_dtype` imports pandas in some versions, which is no dependency."""
    sources = (ROOT / "widetable").rglob("*.py")
    assert [str(path) for path in sources if "to_pandas_dtype" in path.read_text()] == []
