"""What makes new rows of old ones: nothing for rows that stay, one record for each of the others."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.models.bit_patterns import FLAT, cells, draw_column, draw_type
from widetable.derive.changes.equal_keys import distinct_rows, rows_without
from widetable.derive.changes.row_difference import row_difference

KEY = ("k", "l")
Rows = dict[tuple[Any, ...], tuple[Any, ...]]


def by_key(table: pa.Table) -> Rows:
    columns = [cells(table.column(name).combine_chunks()) for name in table.column_names]
    rows = list(zip(*columns, strict=True))
    found = {row[: len(KEY)]: row for row in rows}
    assert len(found) == len(rows)
    return found


def drawn(rng: random.Random, nested: bool) -> tuple[pa.Table, pa.Table]:
    """Two tables of one pool of keys and one of values, so that rows meet, stay and change."""
    kinds = [rng.choice(FLAT) for _ in KEY] + [draw_type(rng) if nested else rng.choice(FLAT)]
    pool = pa.table(
        {
            name: draw_column(rng, kind, 12, nulls=name == "v")
            for name, kind in zip((*KEY, "v"), kinds, strict=True)
        }
    )
    keys = distinct_rows(pool.select(KEY))
    tables = []
    for _ in range(2):
        places = rng.sample(range(keys.num_rows), rng.randint(0, keys.num_rows))
        values = [rng.randrange(pool.num_rows) for _ in places]
        rows = keys.take(pa.array(places, pa.int64()))
        tables.append(
            rows.append_column("v", pool["v"].combine_chunks().take(pa.array(values, pa.int64())))
        )
    return tables[0], tables[1]


@given(st.integers(0, 2**32), st.booleans(), st.booleans())
def test_written_over_the_old_rows_it_gives_the_new_ones(
    seed: int, nested: bool, with_before: bool
) -> None:
    old, new = drawn(random.Random(seed), nested)
    before, after = by_key(old), by_key(new)
    written = row_difference(old, new, KEY, with_before=with_before)
    rows = dict(before)
    records = list(
        zip(
            written["_row_kind"].to_pylist(),
            zip(*(cells(written[name].combine_chunks()) for name in old.column_names), strict=True),
            strict=True,
        )
    )
    for kind, row in records:
        key = row[: len(KEY)]
        was = rows.get(key)
        assert (was is None) == (kind == "+I" or (kind == "+U" and with_before))
        if kind in ("-U", "-D"):
            assert rows.pop(key) == row
        else:
            assert was != row
            rows[key] = row
    assert rows == after
    others = [kind for kind, _ in records if kind != "-U"]
    assert len(others) == sum(before.get(k) != after.get(k) for k in before.keys() | after.keys())


@given(st.integers(0, 2**32))
def test_rows_without_the_keys_of_others(seed: int) -> None:
    old, new = drawn(random.Random(seed), nested=False)
    left = rows_without(old, KEY, new.select(KEY))
    assert by_key(left).keys() == by_key(old).keys() - by_key(new).keys()


def rows(*values: Any, kind: pa.DataType) -> pa.Table:
    return pa.table(
        {"k": pa.array(range(len(values))), "l": [0] * len(values), "v": pa.array(values, kind)}
    )


@pytest.mark.parametrize(
    ("old", "new", "kind", "changed"),
    [
        (float("nan"), -float("nan"), pa.float64(), False),
        (0.0, -0.0, pa.float64(), True),
        (None, None, pa.int32(), False),
        (None, 0, pa.int32(), True),
        ([1, None], [1, None], pa.list_(pa.int32()), False),
        ([1, None], [1], pa.list_(pa.int32()), True),
        (None, [], pa.list_(pa.int32()), True),
    ],
)
def test_equal_means_what_it_means_in_merges(
    old: Any, new: Any, kind: pa.DataType, changed: bool
) -> None:
    written = row_difference(rows(old, kind=kind), rows(new, kind=kind), KEY)
    assert written["_row_kind"].to_pylist() == ["+U"] * changed


def test_keys_that_differ_by_the_sign_of_zero_are_two() -> None:
    def of(zero: float) -> pa.Table:
        return pa.table({"k": [zero], "l": [0], "v": [1]})

    assert row_difference(of(0.0), of(-0.0), KEY)["_row_kind"].to_pylist() == ["-D", "+I"]
    assert row_difference(of(float("nan")), of(-float("nan")), KEY).num_rows == 0


def test_of_nothing_comes_nothing() -> None:
    assert row_difference(rows(kind=pa.int32()), rows(kind=pa.int32()), KEY).num_rows == 0
