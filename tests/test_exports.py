"""`widetable.__all__` is the public surface: complete, sorted, and every name says it is of widetable."""

from __future__ import annotations

import inspect
from types import ModuleType, SimpleNamespace

import pytest

import widetable

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
    """What a module holds without an underscore, but its submodules."""
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and not inspect.ismodule(value) and name != "annotations"
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


def test_a_missing_name_and_a_stranger_are_seen() -> None:
    made_up = SimpleNamespace(_private=1, os=inspect, Stranger=ModuleType, Number=3)
    assert public_names(made_up) == {"Stranger", "Number"}
    assert strangers(made_up, "widetable") == ["Stranger"]
