"""When a kernel is compiled, and that its two tiers give the same."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from types import FunctionType
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest

from tests.support.faults.patience import PATIENCE_SECONDS
from widetable.kernels.compiler import COMPILER
from widetable.kernels.jit import (
    ITEMS,
    ITEMS_OF_A_CALL,
    ITEMS_WHILE_OTHERS_WAIT,
    Kernel,
    compiled_afterwards,
    items_of,
    kernel,
)

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


def test_a_kernel_that_is_due_while_others_wait_is_compiled_afterwards() -> None:
    called, late = fresh(), fresh()
    with compiled_afterwards():
        assert called(words(ITEMS_OF_A_CALL + 1)) == (2 * ITEMS_OF_A_CALL + 2, True)
        assert tier_of(called) == "interpreted"
        with compiled_afterwards():
            assert called(words(ITEMS_OF_A_CALL + 1)) == (2 * ITEMS_OF_A_CALL + 2, True)
        assert tier_of(called) == "interpreted"
        assert late(words(ITEMS_OF_A_CALL)) == (2 * ITEMS_OF_A_CALL, True)
    assert (tier_of(called), tier_of(late)) == ("compiled", "interpreted")
    assert called(words(3)) == (6, False)
    assert late(words(ITEMS_OF_A_CALL + 1)) == (2 * ITEMS_OF_A_CALL + 2, True)
    assert tier_of(late) == "compiled"


def test_one_with_very_many_items_is_compiled_while_others_wait() -> None:
    called = fresh()
    with compiled_afterwards():
        called(words(ITEMS_WHILE_OTHERS_WAIT + 1))
        assert tier_of(called) == "compiled"


def test_other_threads_compile_while_one_puts_it_off() -> None:
    called = fresh()
    with compiled_afterwards():
        thread = threading.Thread(target=called, args=[words(ITEMS_OF_A_CALL + 1)])
        thread.start()
        thread.join()
        assert tier_of(called) == "compiled"


def test_what_was_put_off_is_not_compiled_after_an_error() -> None:
    called = fresh()

    def fail() -> None:
        called(words(ITEMS_OF_A_CALL + 1))
        raise KeyError

    with pytest.raises(KeyError), compiled_afterwards():
        fail()
    assert tier_of(called) == "interpreted"
    assert called(words(ITEMS_OF_A_CALL + 1)) == (2 * ITEMS_OF_A_CALL + 2, True)
    assert tier_of(called) == "compiled"


def test_what_was_published_is_not_failed_by_a_compiler_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    called = fresh()

    def refuse(function: object) -> None:
        raise OSError("no room")

    with monkeypatch.context() as broken:
        broken.setattr(COMPILER, "compile", refuse)
        with compiled_afterwards():
            called(words(ITEMS_OF_A_CALL + 1))
        assert tier_of(called) == "interpreted"
    assert called(words(ITEMS_OF_A_CALL + 1)) == (2 * ITEMS_OF_A_CALL + 2, True)
    assert tier_of(called) == "compiled"


def test_a_commit_compiles_nothing_while_it_has_its_turn(tmp_path: Path) -> None:
    """One writer took 143 s there on a machine with much to do, and all others of the table waited. Who was overtaken
    writes its rows again in its turn.
    """
    program = """
import sys, contextlib
import widetable as wt
from widetable.kernels import jit
from widetable.kernels.compiler import COMPILER
from widetable.storage.local import LocalFileIO

turns, compiled, real_turn, real_compile = [], [], LocalFileIO.turn, COMPILER.compile

@contextlib.contextmanager
def turn(self, path):
    with real_turn(self, path):
        turns.append(path)
        jit.ITEMS_OF_A_CALL = 0  # nothing is cheap here
        yield
        jit.ITEMS_OF_A_CALL = 4096
        turns.pop()

def compile(function):
    compiled.append(bool(turns))
    return real_compile(function)

LocalFileIO.turn, COMPILER.compile = turn, compile
table = wt.Catalog(sys.argv[1]).create_table(
    "d.t", {"k": "BIGINT", "v": "STRING"}, primary_key=["k"], options={"write-only": "true"}
)
begun = []
for number in range(3):
    writer = table.new_writer(["k", "v"])
    writer.write([{"k": key, "v": f"{number}"} for key in range(9)])
    begun.append(writer.finish())
for messages in reversed(begun):
    table.commit_append(messages)
assert turns == [] and compiled and not any(compiled), compiled
assert set(table.scan().to_arrow()["v"].to_pylist()) == {"0"}
"""
    command = [sys.executable, "-c", program, str(tmp_path)]
    subprocess.run(command, check=True, cwd=ROOT, timeout=PATIENCE_SECONDS)


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
