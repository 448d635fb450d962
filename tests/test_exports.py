"""`widetable.__all__` is the public surface: complete, sorted, and every name says it is of widetable."""

from __future__ import annotations

import ast
import inspect
import pickle
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import widetable
from tests.support.programs.parsed_source import parsed
from widetable.public_names import HOMES, UNLISTED

# The names that scripts outside the project rely on: more may come, these stay.
PROMISED = {"Catalog", "Table"}
ERRORS = {
    "ConflictError",
    "DamagedError",
    "InvalidError",
    "NotFoundError",
    "StorageError",
    "UnsupportedError",
    "WidetableError",
}


def public_names(module: ModuleType | SimpleNamespace) -> set[str]:
    """What a module lists without an underscore, but its submodules."""
    return {
        name
        for name in dir(module)
        if not name.startswith("_")
        and not inspect.ismodule(getattr(module, name))
        and name != "annotations"
    }


def strangers(module: ModuleType | SimpleNamespace, own: str) -> list[str]:
    """Exported classes and functions that name another module as their home."""
    return [
        name
        for name in sorted(public_names(module))
        if (inspect.isclass(value := getattr(module, name)) or inspect.isfunction(value))
        and value.__module__ != own
    ]


def test_all_is_what_the_module_holds() -> None:
    assert set(widetable.__all__) == public_names(widetable)
    assert len(widetable.__all__) == len(set(widetable.__all__))


def test_all_is_sorted() -> None:
    assert list(widetable.__all__) == sorted(widetable.__all__)


def test_promised_names_are_there() -> None:
    assert set(widetable.__all__) >= PROMISED | ERRORS


def test_exported_classes_say_they_are_of_widetable() -> None:
    assert strangers(widetable, "widetable") == []


@pytest.mark.parametrize("name", sorted(ERRORS - {"WidetableError"}))
def test_errors_have_one_root(name: str) -> None:
    assert issubclass(getattr(widetable, name), widetable.WidetableError)


def test_whatever_says_that_it_is_of_the_package_is() -> None:
    root = Path(widetable.__file__).parent
    homeless = [
        f"{path.relative_to(root)}: {node.name}"
        for path in sorted(root.rglob("*.py"))
        for node in ast.walk(parsed(path.read_text()))
        if isinstance(node, ast.ClassDef) and _claims(node) and node.name not in HOMES
    ]
    assert homeless == []


def _claims(node: ast.ClassDef) -> bool:
    """That the class sets `__module__` to the package."""
    return any(ast.unparse(part) == "__module__ = 'widetable'" for part in node.body)


# Names are imported when they are first asked for.


def in_a_new_process(program: str, given: bytes = b"") -> str:
    command = [sys.executable, "-c", program]
    root = Path(__file__).parent.parent
    answer = subprocess.run(command, cwd=root, input=given, capture_output=True, check=False)
    assert answer.returncode == 0, answer.stderr.decode()
    return answer.stdout.decode().strip()


def test_names_for_type_checkers_are_those_that_are_imported() -> None:
    seen = {
        alias.name: node.module
        for node in ast.walk(parsed(inspect.getsource(widetable)))
        if isinstance(node, ast.ImportFrom) and node.module != "widetable.public_names"
        for alias in node.names
    }
    homes = {**HOMES, **UNLISTED}
    assert seen == {name: f"widetable.{home}" for name, home in homes.items()}
    assert sorted(HOMES) == widetable.__all__


def test_names_are_listed_before_they_are_imported() -> None:
    program = "import sys, widetable; print(*dir(widetable)); assert 'numba' not in sys.modules"
    assert set(widetable.__all__) <= set(in_a_new_process(program).split())


def test_a_star_imports_all_of_them() -> None:
    program = "from widetable import *; print(*(n for n in dir() if n[0] != '_'))"
    assert in_a_new_process(program).split() == widetable.__all__


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'widetable' has no attribute 'Tabel'") as raised:
        widetable.Tabel  # type: ignore[attr-defined]  # noqa: B018
    assert (raised.value.name, raised.value.obj) == ("Tabel", widetable)
    with pytest.raises(ImportError):
        from widetable import Tabel  # type: ignore[attr-defined]  # noqa: F401


@pytest.mark.parametrize("name", widetable.__all__)
def test_a_name_is_the_same_wherever_it_comes_from(name: str) -> None:
    assert pickle.loads(pickle.dumps(getattr(widetable, name))) is getattr(widetable, name)


def test_values_travel_to_a_process_that_has_imported_nothing() -> None:
    sent = widetable.NotFoundError("a", found="b", expected="c", action="d"), widetable.Table
    program = "import pickle, sys; e, t = pickle.load(sys.stdin.buffer); print(repr(e), t)"
    reported = in_a_new_process(program, pickle.dumps(sent))
    assert reported == f"{sent[0]!r} {widetable.Table}"


def test_a_missing_name_and_a_stranger_are_seen() -> None:
    made_up = SimpleNamespace(_private=1, os=inspect, Stranger=ModuleType, Number=3)
    assert public_names(made_up) == {"Stranger", "Number"}
    assert strangers(made_up, "widetable") == ["Stranger"]
