"""What a merge emits of changes: every pair of before and after, net effect, equal rows, order."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.models.model import Model, Record
from tests.support.tables.bucket import row_batch
from widetable.format.row_budget import BATCH_BYTES
from widetable.merge.engine import engine_of
from widetable.merge.sorted_merge import merge_with_changes
from widetable.schema.new_schema import new_schema
from widetable.schema.row_kind import TEXTS
from widetable.schema.table_schema import TableSchema

COLUMNS = pa.schema([("k", pa.int64()), ("g", pa.int64()), ("a", pa.int64()), ("b", pa.string())])
DEDUPLICATE = {"merge-engine": "deduplicate"}
GROUPED = {"merge-engine": "partial-update", "fields.g.sequence-group": "a"}
REMOVING = {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}
EQUAL_ROWS = {"changelog-producer.row-deduplicate": "true"}


def schema_of(options: dict[str, str]) -> TableSchema:
    return new_schema(COLUMNS, primary_key=["k"], options=options)


def row(k: int, g: int | None = None, a: int | None = None, b: str | None = None) -> dict[str, Any]:
    return {"k": k, "g": g, "a": a, "b": b}


def changes(
    schema: TableSchema,
    known: Sequence[Sequence[Record]],
    new: Sequence[Sequence[Record]],
    batch_bytes: int = BATCH_BYTES,
) -> list[Record]:
    """Of runs in key order, one record per key each, oldest first."""
    runs = [
        iter([row_batch(schema, run, schema.names, 1 + 1000 * number)] if run else [])
        for number, run in enumerate([*known, *new])
    ]
    emitted: list[Record] = []
    for merged in merge_with_changes(
        runs[: len(known)],
        runs[len(known) :],
        schema,
        engine_of(schema),
        keep_deletes=True,
        batch_bytes=batch_bytes,
    ):
        for each in chain.from_iterable(rows.to_pylist() for rows in merged.changes()):
            kind = TEXTS[each["_VALUE_KIND"]]
            emitted.append((kind, {name: each[name] for name in schema.names}))
    return emitted


@pytest.mark.parametrize(
    ("known", "new", "emitted"),
    [
        ([], [("+I", row(1, a=1))], [("+I", row(1, a=1))]),
        ([], [("+U", row(1, a=1))], [("+I", row(1, a=1))]),
        ([], [("-D", row(1))], []),
        ([("-D", row(1))], [("-D", row(1))], []),
        ([("-D", row(1))], [("+I", row(1, a=2))], [("+I", row(1, a=2))]),
        ([("+I", row(1, a=1))], [("-D", row(1))], [("-D", row(1, a=1))]),
        ([("+I", row(1, a=1))], [("-U", row(1))], [("-D", row(1, a=1))]),
        ([("+I", row(1, a=1))], [("+I", row(1, a=2))], [("-U", row(1, a=1)), ("+U", row(1, a=2))]),
        ([("+I", row(1, a=1))], [("+I", row(1, a=1))], [("-U", row(1, a=1)), ("+U", row(1, a=1))]),
        ([("+I", row(1, a=1))], [("+I", row(2, a=2))], [("+I", row(2, a=2))]),
    ],
)
def test_every_pair_of_before_and_after(
    known: list[Record], new: list[Record], emitted: list[Record]
) -> None:
    assert changes(schema_of(DEDUPLICATE), [known], [new]) == emitted


def test_only_the_net_effect_of_new_runs_is_emitted() -> None:
    schema = schema_of(DEDUPLICATE)
    new: list[list[Record]] = [[("+I", row(1, a=5))], [("-D", row(1))]]
    assert changes(schema, [], new) == []
    assert changes(schema, [[("+I", row(1, a=4))]], new) == [("-D", row(1, a=4))]
    again: list[list[Record]] = [*new, [("+I", row(1, a=6))]]
    emitted = changes(schema, [[("+I", row(1, a=4))]], again)
    assert emitted == [("-U", row(1, a=4)), ("+U", row(1, a=6))]


def test_rows_are_full_before_and_after() -> None:
    known: list[list[Record]] = [[("+I", row(1, 5, 7, "x"))], [("+I", row(1, b="y"))]]
    emitted = changes(schema_of(GROUPED), known, [[("+I", row(1, 6, None, None))]])
    assert emitted == [("-U", row(1, 5, 7, "y")), ("+U", row(1, 6, None, "y"))]


def test_a_late_record_shows_that_nothing_changed() -> None:
    known: list[list[Record]] = [[("+I", row(1, 5, 7, "x"))]]
    late: list[list[Record]] = [[("+I", row(1, 4, 9))]]
    pair = [("-U", row(1, 5, 7, "x")), ("+U", row(1, 5, 7, "x"))]
    assert changes(schema_of(GROUPED), known, late) == pair
    assert changes(schema_of(GROUPED | EQUAL_ROWS), known, late) == []


def test_a_removed_row_comes_back_without_its_past() -> None:
    known: list[list[Record]] = [[("+I", row(1, 5, 7, "x"))]]
    new: list[list[Record]] = [[("-D", row(1))], [("+I", row(1, a=8))]]
    emitted = changes(schema_of(REMOVING), known, new)
    assert emitted == [("-U", row(1, 5, 7, "x")), ("+U", row(1, a=8))]


def test_ignored_columns_do_not_make_an_update() -> None:
    ignoring = EQUAL_ROWS | {"changelog-producer.row-deduplicate-ignore-fields": "g,b"}
    schema = schema_of(DEDUPLICATE | ignoring)
    known: list[list[Record]] = [[("+I", row(1, 1, 7, "x")), ("+I", row(2, 1, 7, "x"))]]
    new: list[list[Record]] = [[("+I", row(1, 2, 7, None)), ("+I", row(2, 2, None, "x"))]]
    emitted = changes(schema, known, new)
    assert emitted == [("-U", row(2, 1, 7, "x")), ("+U", row(2, 2, None, "x"))]


@pytest.mark.parametrize(
    ("kind", "was", "now", "is_emitted"),
    [
        (pa.float64(), float("nan"), float("nan"), False),
        (pa.float32(), 0.0, -0.0, True),
        (pa.float64(), None, 0.0, True),
        (pa.list_(pa.int32()), [1, None], [1, None], False),
        (pa.list_(pa.int32()), [1, None], [1, 2], True),
        (pa.struct([("x", pa.string())]), {"x": "1"}, {"x": "2"}, True),
        (pa.binary(), b"", None, True),
        (pa.bool_(), True, True, False),
    ],
)
def test_values_are_compared_as_the_table_keeps_them(
    kind: pa.DataType, was: Any, now: Any, is_emitted: bool
) -> None:
    arrow = pa.schema([("k", pa.int64()), ("v", kind)])
    schema = new_schema(arrow, primary_key=["k"], options=EQUAL_ROWS)
    emitted = changes(schema, [[("+I", {"k": 1, "v": was})]], [[("+I", {"k": 1, "v": now})]])
    assert bool(emitted) == is_emitted


RECORDS = st.lists(
    st.tuples(
        st.sampled_from(["+I", "+U", "-D", "-U"]),
        st.builds(
            row,
            st.integers(0, 6),
            st.none() | st.integers(0, 3),
            st.none() | st.integers(0, 3),
            st.none() | st.sampled_from("xy"),
        ),
    ),
    max_size=12,
    unique_by=lambda record: record[1]["k"],
)


@given(
    st.sampled_from([DEDUPLICATE, GROUPED, REMOVING]),
    st.booleans(),
    st.lists(RECORDS, max_size=3),
    st.lists(RECORDS, min_size=1, max_size=3),
    st.sampled_from([1, 40, 100, 200, BATCH_BYTES]),
)
def test_any_runs_emit_what_folding_from_scratch_emits(
    options: dict[str, str],
    drops_equal_rows: bool,
    known: list[list[Record]],
    new: list[list[Record]],
    batch_bytes: int,
) -> None:
    schema = schema_of(options | (EQUAL_ROWS if drops_equal_rows else {}))
    ordered = [[sorted(run, key=lambda r: r[1]["k"]) for run in runs] for runs in (known, new)]
    before, after = Model(schema), Model(schema)
    for run in ordered[0]:
        before.write(run)
        after.write(run)
    for run in ordered[1]:
        after.write(run)
    if options == GROUPED:
        ordered = [[_normal(run) for run in runs] for runs in ordered]
    elif options == REMOVING:
        ordered = [[_keys_only(run) for run in runs] for runs in ordered]
    assert changes(schema, ordered[0], ordered[1], batch_bytes) == after.changes_since(before)


def _normal(run: list[Record]) -> list[Record]:
    """Normal form of a grouped table (docs/decisions/0001), as writers leave it."""
    rows = []
    for kind, r in run:
        clears_group = kind[0] == "-" or r["g"] is None
        values = row(
            r["k"], r["g"], None if clears_group else r["a"], None if kind[0] == "-" else r["b"]
        )
        rows.append((kind, values))
    return rows  # fmt: skip


def _keys_only(run: list[Record]) -> list[Record]:
    return [(kind, row(r["k"]) if kind == "-D" else r) for kind, r in run]
