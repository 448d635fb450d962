"""When a kernel is compiled, and that its two tiers give the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import FunctionType
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest

from tests.patience import PATIENCE_SECONDS
from widetable.kernels.jit import ITEMS, ITEMS_OF_A_CALL, Kernel, items_of, kernel

ROOT = Path(__file__).resolve().parents[3]
Words = npt.NDArray[np.uint64]


@kernel
def _twice(word: np.uint64) -> np.uint64:
    return word * np.uint64(2)


@kernel
def _sum_of_doubles(words: Words) -> tuple[np.uint64, bool]:
    total = np.uint64(0)
    for i in range(len(words)):
        total += _twice(words[i])
    return total, bool(total > np.uint64(7))


def fresh() -> Kernel:
    """A kernel that was not called yet."""
    return Kernel(cast("Kernel", _sum_of_doubles)._function)


def tier_of(called: Kernel) -> str:
    return "interpreted" if called._compiled is None else "compiled"


def words(count: int) -> Words:
    return np.full(count, 2**63 + 1, np.uint64)


@pytest.fixture
def both_tiers() -> None:
    """These tests choose the tier by themselves."""


def test_small_calls_are_interpreted_and_large_ones_compiled() -> None:
    called = fresh()
    assert called(words(ITEMS_OF_A_CALL)) == (2 * ITEMS_OF_A_CALL, True)
    assert tier_of(called) == "interpreted"
    assert called(words(ITEMS_OF_A_CALL + 1)) == (2 * ITEMS_OF_A_CALL + 2, True)
    assert tier_of(called) == "compiled"


def test_many_small_calls_are_compiled_in_the_end() -> None:
    called = fresh()
    for _ in range(ITEMS // 512):
        called(words(512))
    assert tier_of(called) == "interpreted"
    called(words(512))
    assert tier_of(called) == "compiled"
    called(words(1))
    assert tier_of(called) == "compiled", "it stays so"


def test_scalars_count_as_one_item() -> None:
    assert items_of((np.zeros((3, 4)), 7, np.uint64(1))) == 14


@pytest.mark.parametrize("count", [0, 1, 5])
def test_results_have_the_same_python_types_in_both_tiers(count: int) -> None:
    called = fresh()
    interpreted, compiled = called.interpret(words(count)), called.compile(words(count))
    assert interpreted == compiled
    assert [type(value) for value in interpreted] == [type(value) for value in compiled]


def test_a_kernel_calls_others_in_its_own_tier(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise AssertionError("it went round by the decision")

    monkeypatch.setattr(Kernel, "__call__", fail)
    assert fresh().interpret(words(2)) == (4, False)
    assert fresh().compile(words(2)) == (4, False)


def test_what_callers_see_is_the_function() -> None:
    seen = cast("FunctionType", _sum_of_doubles)
    assert (seen.__name__, seen.__module__) == ("_sum_of_doubles", __name__)


def test_the_first_write_read_and_lookup_of_a_process_compile_nothing(tmp_path: Path) -> None:
    program = """
import sys, pyarrow as pa, widetable as wt
schema = pa.schema([("k", pa.int64()), ("a", pa.string()), ("g", pa.int64())])
options = {"merge-engine": "partial-update", "changelog-producer": "lookup", "fields.g.sequence-group": "a"}
table = wt.Catalog(sys.argv[1]).create_table("d.t", schema, primary_key=["k"], options=options)
for number in range(3):
    table.write(pa.table({"k": [1, 2], "a": ["x", None], "g": [number, 5]}))
assert table.scan().to_arrow().num_rows == table.lookup([1, 2]).num_rows == 2
assert table.changes(0, table.snapshots()[-1].id).num_rows
assert "numba" not in sys.modules, "a kernel was compiled"
"""
    command = [sys.executable, "-c", program, str(tmp_path)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
