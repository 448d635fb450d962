"""Streaming: keys are never split, memory stays bounded, order is checked, single runs pass through."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.models.model import Record
from tests.support.tables.bucket import row_batch
from widetable.errors import DamagedError
from widetable.format.row_budget import BATCH_BYTES
from widetable.merge.engine import engine_of
from widetable.merge.key_order import lanes_of_keys
from widetable.merge.sorted_merge import collapse, merge_runs
from widetable.schema.new_schema import new_schema
from widetable.schema.table_schema import TableSchema

PLAIN = new_schema(
    pa.schema([("k", pa.int64()), ("a", pa.int64()), ("b", pa.string())]), primary_key=["k"]
)
PARTIAL = new_schema(
    PLAIN.arrow_schema(), primary_key=["k"], options={"merge-engine": "partial-update"}
)


def run_of(
    schema: TableSchema, rows: Sequence[tuple[Any, ...]], first_number: int, batch_rows: int = 3
) -> Iterator[pa.RecordBatch]:
    records: list[Record] = [("+I", dict(zip(schema.names, row, strict=True))) for row in rows]
    for start in range(0, len(records), batch_rows):
        part = records[start : start + batch_rows]
        yield row_batch(schema, part, schema.names, first_number + start)


def merged(
    schema: TableSchema, runs: Sequence[Iterator[pa.RecordBatch]], batch_bytes: int = 100
) -> list[tuple[Any, ...]]:
    batches = merge_runs(
        runs, schema, engine_of(schema), schema.names, keep_deletes=False, batch_bytes=batch_bytes
    )
    return [
        tuple(row.get(name) for name in schema.names)
        for batch in batches
        for row in batch.to_pylist()
    ]


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)), max_size=40), max_size=4),
    st.integers(1, 400),
)
def test_runs_that_hold_a_key_several_times(
    keys: list[list[tuple[int, int]]], batch_bytes: int
) -> None:
    """A spilled run holds a key as often as it was written, also across its batches."""
    runs, expected, number = [], {}, 1
    for run in keys:
        rows = [(key, value, None) for key, value in sorted(run, key=lambda pair: pair[0])]
        runs.append(run_of(PLAIN, rows, number))
        expected.update({key: (key, value, None) for key, value, _ in rows})
        number += len(rows)
    assert merged(PLAIN, runs, batch_bytes) == [expected[key] for key in sorted(expected)]


def test_one_key_larger_than_every_head() -> None:
    rows = [(1, value, None) for value in range(5000)] + [(2, 0, None)]
    assert merged(PLAIN, [run_of(PLAIN, rows, 1, 100)], 300) == [(1, 4999, None), (2, 0, None)]


def test_memory_is_bounded_by_what_is_loaded() -> None:
    """When the first rows come out, no run was asked for more than two batches."""
    asked = [0, 0, 0]

    def counted(index: int) -> Iterator[pa.RecordBatch]:
        rows = [(key, key, "x") for key in range(index, 3000, 3)]
        for batch in run_of(PLAIN, rows, 1 + 10_000 * index, batch_rows=10):
            asked[index] += 1
            yield batch

    found = merge_runs(
        [counted(i) for i in range(3)],
        PLAIN,
        engine_of(PLAIN),
        PLAIN.names,
        keep_deletes=False,
        batch_bytes=900,
    )
    first = next(found)
    assert max(asked) <= 2
    assert first.num_rows + sum(batch.num_rows for batch in found) == 3000
    assert asked == [100, 100, 100]


def test_untouched_batches_are_not_copied() -> None:
    batches = list(run_of(PARTIAL, [(key, key, "x") for key in range(100)], 1, batch_rows=10))
    update = list(run_of(PARTIAL, [(5, 50, None)], 1000))
    found = list(
        merge_runs(
            [iter(batches), iter(update)],
            PARTIAL,
            engine_of(PARTIAL),
            PARTIAL.names,
            keep_deletes=False,
            batch_bytes=600,
        )
    )
    addresses = {batch.column("a").buffers()[1].address for batch in batches}
    copied = [batch for batch in found if batch.column("a").buffers()[1].address not in addresses]
    assert [batch.column("k").to_pylist() for batch in copied] == [list(range(10))]
    assert copied[0].to_pylist()[5]["a"] == 50
    assert copied[0].to_pylist()[5]["b"] == "x"


def test_a_run_out_of_order_is_damage() -> None:
    with pytest.raises(DamagedError, match="sorted run 1 of 2"):
        merged(
            PLAIN,
            [run_of(PLAIN, [(1, 1, None)], 1), run_of(PLAIN, [(2, 1, None), (1, 1, None)], 9)],
        )


def test_rows_of_a_key_may_be_in_any_order_within_a_run() -> None:
    """A spilled run is in the order of arrival, not of `sequence.field`."""
    schema = new_schema(PLAIN.arrow_schema(), primary_key=["k"], options={"sequence.field": "a"})
    rows = [(1, 9, "last"), (1, 3, "first"), (2, 1, None)]
    assert merged(schema, [run_of(schema, rows, 1), run_of(schema, [(1, 5, "x")], 9)]) == [
        (1, 9, "last"),
        (2, 1, None),
    ]


def test_nothing_in_nothing_out() -> None:
    assert merged(PLAIN, []) == []
    assert merged(PLAIN, [iter([]), run_of(PLAIN, [], 1)]) == []
    assert collapse([], PLAIN, engine_of(PLAIN)) == []
    empty = row_batch(PLAIN, [], PLAIN.names, 1)
    assert collapse([empty], PLAIN, engine_of(PLAIN)) == []
    assert merged(PLAIN, [iter([empty])]) == []


def test_no_columns_are_asked_for() -> None:
    batches = merge_runs(
        [run_of(PLAIN, [(1, 1, "x"), (2, 2, "y")], 1), run_of(PLAIN, [(2, 3, "z")], 9)],
        PLAIN,
        engine_of(PLAIN),
        (),
        keep_deletes=False,
        batch_bytes=BATCH_BYTES,
    )
    assert sum(batch.num_rows for batch in batches) == 2


def test_columns_of_several_files() -> None:
    """Runs that lack columns: other columns keep what older runs hold, and a column that no run has is absent."""
    narrow = [("k", "a"), ("k", "a"), ("k",)]
    runs = []
    for number, columns in enumerate(narrow):
        records: list[Record] = [
            ("+I", {"k": key, "a": 10 * number + key}) for key in range(number, 4)
        ]
        runs.append(iter([row_batch(PARTIAL, records, columns, 1 + 100 * number)]))
    assert merged(PARTIAL, runs) == [(0, 0, None), (1, 11, None), (2, 12, None), (3, 13, None)]


def test_equal_sequence_numbers_put_the_retraction_first() -> None:
    """Other clients' files can share numbers: the add wins, whichever run it is in."""
    add, delete = (
        row_batch(PLAIN, [(kind, {"k": 1, "a": 1, "b": None})], PLAIN.names, 7)
        for kind in ("+I", "-D")
    )
    for runs in ([add, delete], [delete, add]):
        assert merged(PLAIN, [iter([batch]) for batch in runs]) == [(1, 1, None)]


def test_retraction_first_also_where_numbers_are_huge() -> None:
    add, delete = (
        row_batch(PLAIN, [(kind, {"k": 1, "a": 1, "b": None})], PLAIN.names, 2**63 - 2)
        for kind in ("+I", "-D")
    )
    older = row_batch(PLAIN, [("+I", {"k": 1, "a": 0, "b": None})], PLAIN.names, 2**62)
    assert merged(PLAIN, [iter([add]), iter([older]), iter([delete])]) == [(1, 1, None)]


@pytest.mark.parametrize(
    "options",
    [
        {"merge-engine": "deduplicate"},
        {"merge-engine": "partial-update"},
        {"merge-engine": "partial-update", "fields.a.sequence-group": "b"},
    ],
)
def test_ignored_deletes_that_stand_in_files(options: dict[str, str]) -> None:
    """Files may be older than the option. A key that has nothing else stays invisible."""
    options = {**options, "ignore-delete": "true"}
    schema = new_schema(PLAIN.arrow_schema(), primary_key=["k"], options=options)
    kinds = [("+I", 1), ("-D", 1), ("-U", 1), ("-D", 2), ("-U", 2), ("-D", 3)]
    runs = []
    for number, (kind, key) in enumerate(kinds):
        record: Record = (kind, {"k": key, "a": number, "b": "x"})
        runs.append(iter([row_batch(schema, [record], schema.names, 1 + number)]))
    assert merged(schema, runs) == [(1, 0, "x")]


def test_collapse_sorts_and_numbers() -> None:
    records: list[Record] = [
        ("+I", {"k": key, "a": i, "b": None}) for i, key in enumerate([3, 1, 3, 2])
    ]
    [layer] = collapse([row_batch(PLAIN, records, PLAIN.names, 100)], PLAIN, engine_of(PLAIN))
    assert layer.column("k").to_pylist() == [1, 2, 3]
    assert layer.column("_SEQUENCE_NUMBER").to_pylist() == [101, 103, 102]
    assert layer.column("_VALUE_KIND").to_pylist() == [0, 0, 0]


def test_the_winner_keeps_its_sequence_number() -> None:
    """Else a row merged over a late record would win a tie against one that came between."""
    schema = new_schema(PLAIN.arrow_schema(), primary_key=["k"], options={"sequence.field": "a"})
    records: list[Record] = [("+I", {"k": 1, "a": a, "b": None}) for a in (5, 7, 6)]
    [layer] = collapse([row_batch(schema, records, schema.names, 100)], schema, engine_of(schema))
    assert layer.column("_SEQUENCE_NUMBER").to_pylist() == [101]


def test_kinds_of_collapsed_rows() -> None:
    """A single record keeps its kind, deduplicate the winner's; what partial-update merged is an insert."""
    records: list[Record] = [("+U", {"k": 1}), ("+I", {"k": 2}), ("+U", {"k": 2}), ("-U", {"k": 3})]
    kinds = {}
    for schema in (PLAIN, PARTIAL):
        [layer] = collapse([row_batch(schema, records, schema.names, 1)], schema, engine_of(schema))
        kinds[schema.options.get("merge-engine")] = layer.column("_VALUE_KIND").to_pylist()
    assert kinds == {None: [2, 2, 1], "partial-update": [2, 0, 1]}


@pytest.mark.parametrize("shift", range(3))
def test_wide_key_ranges(shift: int) -> None:
    """Larger windows, against numpy: three runs with many common keys, and batches that do not align."""
    rng = np.random.default_rng(shift)
    runs, expected, number = [], {}, 1
    for _ in range(3):
        keys = np.unique(rng.integers(0, 5000, 2000)).tolist()
        rows = [(key, int(rng.integers(100)), None) for key in keys]
        expected.update({row[0]: row for row in rows})
        runs.append(run_of(PLAIN, rows, number, 700 + 13 * shift))
        number += len(rows)
    assert merged(PLAIN, runs, 40_000) == [expected[key] for key in sorted(expected)]


RUNS = st.lists(
    st.tuples(st.integers(0, 200), st.lists(st.integers(0, 30), max_size=25, unique=True)),
    min_size=9,
    max_size=40,
)


@given(RUNS, st.sampled_from((1, 300, 100_000)))
def test_many_runs_that_begin_anywhere(
    drawn: list[tuple[int, list[int]]], batch_bytes: int
) -> None:
    runs: list[Iterator[pa.RecordBatch]] = []
    expected: dict[int, tuple[Any, ...]] = {}
    for number, (first, keys) in enumerate(drawn):
        rows = [(first + key, number, f"{number}") for key in sorted(keys)]
        runs.append(run_of(PLAIN, rows, number * 100 + 1))
        expected |= {key: (key, value, text) for key, value, text in rows}
    assert merged(PLAIN, runs, batch_bytes) == [expected[key] for key in sorted(expected)]


@pytest.mark.parametrize("step", [0, 1, 50, 100, 150])
def test_a_window_costs_what_the_runs_cost_that_meet_in_it(
    step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 200 runs each begins `step` keys behind the one before, and holds 100: so few rows are looked at, and so few
    windows are made, as if only those that meet were there.
    """
    looked_at = 0

    def counted(schema: TableSchema, batches: Sequence[pa.RecordBatch]) -> Any:
        nonlocal looked_at
        looked_at += sum(batch.num_rows for batch in batches)
        return lanes_of_keys(schema, batches)

    monkeypatch.setattr("widetable.merge.run_windows.lanes_of_keys", counted)
    runs = [
        run_of(PLAIN, [(n * step + key, n, "") for key in range(100)], n * 100 + 1, batch_rows=100)
        for n in range(200)
    ]
    rows = merged(PLAIN, runs, BATCH_BYTES)
    assert len(rows) == 100 + 199 * min(step, 100)
    meeting = 200 if step == 0 else min(100 // step + 1, 200)
    assert looked_at < 200 * 100 * 3 + 200 * (meeting * 100 + 200)
