"""The phases of a write: a function that is renamed must be renamed there too."""

from __future__ import annotations

from functools import reduce
from importlib import import_module
from typing import Any

import pytest

from benchmarks import phases


@pytest.mark.parametrize(("module", "name"), [(module, name) for module, name, _ in phases._PHASES])
def test_a_phase_measures_a_function_that_is_there(module: str, name: str) -> None:
    owner: Any = import_module(module)
    assert callable(reduce(getattr, name.split("."), owner))
