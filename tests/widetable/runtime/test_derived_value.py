"""Attributes that are computed once, without any lock."""

from __future__ import annotations

import pickle
import threading
from dataclasses import dataclass, replace

import pytest

from tests.support.faults.patience import PATIENCE_SECONDS
from widetable.merge.engine import engine_of
from widetable.runtime.derived_value import derived_value, once_per_object
from widetable.schema.table_schema import TableSchema
from widetable.schema.types import DataField, DataType


@dataclass(frozen=True)
class Square:
    side: int

    @derived_value
    def area(self) -> list[int]:
        """A new list each time it is computed."""
        if self.side < 0:
            raise ValueError(self.side)
        return [self.side * self.side]


@once_per_object
def perimeter(square: Square) -> list[int]:
    if square.side < 0:
        raise ValueError(square.side)
    return [4 * square.side]


class Slow:
    """Its value is computed by as many threads as wait at the barrier, all at the same time."""

    def __init__(self, threads: int) -> None:
        self.barrier = threading.Barrier(threads)

    @derived_value
    def value(self) -> object:
        self.barrier.wait(PATIENCE_SECONDS)
        return object()


def test_it_is_computed_once_for_each_object() -> None:
    one, other = Square(3), Square(3)
    assert one.area == [9]
    assert one.area is one.area
    assert one.area is not other.area
    assert Square.area.__doc__ == "A new list each time it is computed."


def test_equality_copies_and_pickles_are_those_of_the_object() -> None:
    one = Square(3)
    assert one.area
    assert one == Square(3)
    assert replace(one, side=4).area == [16]
    assert pickle.loads(pickle.dumps(one)).area == [9]


def test_an_error_is_raised_and_not_kept() -> None:
    one = Square(-1)
    for _ in range(2):
        with pytest.raises(ValueError, match="-1"):
            _ = one.area
    assert "area" not in vars(one)


def test_threads_compute_side_by_side_and_get_the_same_object() -> None:
    slow, found = Slow(8), []
    threads = [threading.Thread(target=lambda: found.append(slow.value)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(map(id, found))) == 1


def test_a_function_is_called_once_for_each_object() -> None:
    one, other = Square(3), Square(3)
    assert perimeter(one) == [12]
    assert perimeter(one) is perimeter(one)
    assert perimeter(one) is not perimeter(other)
    assert perimeter(replace(one, side=4)) == [16]


def test_an_object_that_was_refused_is_refused_again() -> None:
    one = Square(-1)
    for _ in range(2):
        with pytest.raises(ValueError, match="-1"):
            perimeter(one)


def test_a_schema_is_sent_without_what_was_derived_from_it() -> None:
    schema = TableSchema(0, (DataField(0, "k", DataType("INT", False)),), 0, (), ("k",))
    before = pickle.dumps(schema)
    assert schema.arrow_schema().names == ["k"]
    assert engine_of(schema).name == "deduplicate"
    assert pickle.dumps(schema) == before
    assert pickle.loads(before) == schema
