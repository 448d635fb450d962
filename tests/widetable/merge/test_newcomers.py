"""A function is one record and one row, an engine is one object and one row: both are added here, from outside, and
everything that a table does works with them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import widetable as wt
from widetable.errors import InvalidError
from widetable.kernels.aggregate import SKIP
from widetable.kernels.arrow_buffers import valid_of
from widetable.kernels.partial_update import last_marked
from widetable.merge.aggregate_function import (
    Aggregate,
    AggregateColumn,
    Grouping,
    Retraction,
    never,
    none,
    of_roots,
)
from widetable.merge.aggregate_functions import AGGREGATES
from widetable.merge.engine import ENGINES
from widetable.merge.fold import Fold, spans
from widetable.merge.merge_engine import MergeEngine, RowOrigin
from widetable.merge.normal_form import first_retraction
from widetable.merge.partial_merge import PartialMerge
from widetable.merge.plan import Computed, MergePlan, SourceList
from widetable.merge.window import Window
from widetable.schema import options as opt
from widetable.schema.row_kind import INSERT
from widetable.schema.table_schema import TableSchema

SCHEMA = pa.schema({"k": pa.int64(), "a": pa.int64(), "b": pa.int64()})
LOOKUP = {"bucket": "1", "changelog-producer": "lookup"}


def _bit_or(fold: Fold, column: AggregateColumn) -> Computed:
    values, steps = fold.column(column.name).to_pylist(), fold.steps.tolist()
    results = []
    for first, end in spans(fold):
        records = [at for at in range(first, end) if steps[at] != SKIP and values[at] is not None]
        results.append(reduce(or_, (values[at] for at in records)) if records else None)
    merged = pa.array(results, pa.int64())
    return fold.computed(column.name, merged, or_last=not column.field.type.nullable)


BIT_OR = Aggregate(
    column_type=of_roots("BIGINT", "BIGINT"),
    aggregate=_bit_or,
    grouping=lambda column: Grouping.ADDS,
    retraction=Retraction.REFUSED,
    by_order=never,
    nulls_count=False,
    counts_again=never,
    tells_apart=never,
    normal_form=none,
    boundaries=None,
)


def _no_sequence(schema: TableSchema) -> None:
    if schema.sequence_fields:
        raise InvalidError(
            "merge engine fill", found="an order", expected="none", action="Drop it."
        )


class Fill(MergeEngine):
    """Each column has its last value that is not null. Nothing is deleted."""

    name = "fill"
    rules = (_no_sequence,)
    origin = RowOrigin.COLUMNS
    merges_retractions = False
    stores_keys_once = False
    has_groups = False

    def normal_form(self, schema: TableSchema, row_batch: pa.RecordBatch) -> pa.RecordBatch:
        if first_retraction(schema, row_batch) is not None:
            raise InvalidError("merge engine fill", found="-D", expected="+I", action="Leave it.")
        return row_batch

    def plan(self, window: Window, columns: Sequence[str]) -> MergePlan:
        sources = SourceList()
        for name in columns:
            rows = window.last_rows
            if name not in window.schema.primary_keys and window.holders(name):
                valid = valid_of(window.take(name, window.order))
                last = last_marked(window.starts, np.full(len(rows), -1, np.int64), valid)
                rows = np.where(last >= 0, window.order[last], -1)
            sources.add(name, rows)
        kinds = np.full(len(window.last_rows), INSERT, np.int8)
        return MergePlan(kinds, window.sequence_numbers[window.first_rows], sources.sources())

    def partial_merge(self, schema: TableSchema, *, has_deletes: bool) -> PartialMerge:
        return PartialMerge.ALWAYS

    def keeps_deletes(self, schema: TableSchema) -> bool:
        return False

    def deletes_remove(self, schema: TableSchema) -> bool:
        return False

    def effective_nulls(self, schema: TableSchema, columns: Collection[str]) -> frozenset[str]:
        return frozenset()


@pytest.fixture(autouse=True)
def sources() -> None:
    """Leave the plans of engines alone, which other tests of this folder take apart."""


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[wt.Catalog]:
    monkeypatch.setitem(AGGREGATES, "bit_or", BIT_OR)
    monkeypatch.setitem(ENGINES, Fill.name, Fill())
    choices = opt.MERGE_ENGINE.choices
    object.__setattr__(opt.MERGE_ENGINE, "choices", tuple(ENGINES))  # what an option's line adds
    yield wt.Catalog(tmp_path)
    object.__setattr__(opt.MERGE_ENGINE, "choices", choices)


def or_of(before: int | None, value: int | None) -> int | None:
    return before if value is None else value if before is None else before | value


def last_of(before: int | None, value: int | None) -> int | None:
    return before if value is None else value


# Of each commit: the columns that it writes, and its rows. A key may come twice in a commit.
COMMITS: list[tuple[str, list[tuple[int | None, ...]]]] = [
    ("kab", [(1, 1, 1), (2, 4, None), (1, 2, None)]),
    ("ka", [(1, 8), (3, None)]),
    ("kb", [(3, 16), (1, None)]),
    ("kab", [(2, 1, 2), (4, None, None), (3, 32, 64)]),
    ("ka", [(4, 5), (4, None), (2, 4)]),
]
Rule = Callable[[int | None, int | None], int | None]
State = dict[int | None, dict[str, int | None]]


def states(rule: Rule) -> list[State]:
    """Return the rows after each commit, by key: each value is merged with the one before by the rule."""
    state: State = {}
    made = []
    for columns, rows in COMMITS:
        for key, *values in rows:
            row = dict(state.get(key, {"a": None, "b": None}))
            for name, value in zip(columns[1:], values, strict=True):
                row[name] = rule(row[name], value)
            state = {**state, key: row}
        made.append(state)
    return made


def write(table: wt.Table, columns: str, rows: list[tuple[int | None, ...]]) -> None:
    table.write(
        pa.table([pa.array(each, pa.int64()) for each in zip(*rows, strict=True)], list(columns))
    )


def rows_of(table: wt.Table) -> State:
    return {row.pop("k"): row for row in table.scan().to_arrow().to_pylist()}


NEWCOMERS: dict[str, tuple[dict[str, str], Rule]] = {
    "function": (
        {"merge-engine": "aggregation", "fields.default-aggregate-function": "bit_or"},
        or_of,
    ),
    "engine": ({"merge-engine": "fill"}, last_of),
}


@pytest.mark.parametrize("write_only", [True, False])
@pytest.mark.parametrize("newcomer", NEWCOMERS)
def test_a_newcomer_is_written_compacted_scanned_and_audited(
    catalog: wt.Catalog, newcomer: str, write_only: bool
) -> None:
    options, rule = NEWCOMERS[newcomer]
    more = {"write-only": str(write_only).lower()}
    table = catalog.create_table(
        "db.t", SCHEMA, primary_key=["k"], options={**LOOKUP, **options, **more}
    )
    for (columns, rows), state in zip(COMMITS, states(rule), strict=True):
        write(table, columns, rows)
        assert rows_of(table) == state
    table.compact()
    assert rows_of(table) == states(rule)[-1]
    assert table.audit().ok


@pytest.mark.parametrize("newcomer", NEWCOMERS)
def test_the_changelog_of_a_newcomer_gives_its_rows(catalog: wt.Catalog, newcomer: str) -> None:
    options, rule = NEWCOMERS[newcomer]
    table = catalog.create_table("db.t", SCHEMA, primary_key=["k"], options={**LOOKUP, **options})
    for columns, rows in COMMITS:
        write(table, columns, rows)
    table.compact()
    followed: State = {}
    for change in table.changes(0, table.snapshots()[-1].id).to_pylist():
        kind, key = change.pop("_row_kind"), change.pop("k")
        if kind in ("-U", "-D"):
            assert followed.pop(key) == change
        else:
            assert key not in followed
            followed[key] = change
    assert followed == states(rule)[-1]


@pytest.mark.parametrize("newcomer", NEWCOMERS)
def test_explain_says_what_a_newcomer_did(catalog: wt.Catalog, newcomer: str) -> None:
    options, rule = NEWCOMERS[newcomer]
    made = {"write-only": "true", "bucket": "1", **options}
    table = catalog.create_table("db.t", SCHEMA, primary_key=["k"], options=made)
    for columns, rows in COMMITS:
        write(table, columns, rows)
    column: Any = next(each for each in table.explain(2).columns if each.name == "a")
    assert column.value == states(rule)[-1][2]["a"]
    reasons = [event.why for event in column.events]
    if newcomer == "function":
        assert reasons[-1] == "bit_or merges 4 into 5"
    else:
        assert reasons[-1] == "the last value that is not null"


def test_a_newcomer_fills_a_column_of_a_sequence_group(catalog: wt.Catalog) -> None:
    options = {
        "merge-engine": "partial-update",
        "fields.b.sequence-group": "a",
        "fields.a.aggregate-function": "bit_or",
    }
    table = catalog.create_table("db.t", SCHEMA, primary_key=["k"], options={**LOOKUP, **options})
    for value, sequence in ((1, 5), (2, 3), (4, None), (8, 7)):
        write(table, "kab", [(1, value, sequence)])
    assert rows_of(table) == {1: {"a": 1 | 2 | 8, "b": 7}}
    assert table.audit().ok


def test_what_a_newcomer_cannot_do_is_refused(catalog: wt.Catalog) -> None:
    options = {"bucket": "1", "merge-engine": "fill"}
    with pytest.raises(wt.InvalidError, match="merge engine fill"):
        catalog.create_table(
            "db.s", SCHEMA, primary_key=["k"], options={**options, "sequence.field": "a"}
        )
    table = catalog.create_table("db.t", SCHEMA, primary_key=["k"], options=options)
    with pytest.raises(wt.InvalidError, match="merge engine fill"):
        table.write(pa.table({"k": [1], "a": [1], "b": [1], "_row_kind": ["-D"]}))
    with pytest.raises(wt.UnsupportedError, match="merge engine 'fill'"):
        table.delete("k = 1")
    summed = {"merge-engine": "aggregation", "fields.a.aggregate-function": "bit_or"}
    text = pa.schema({"k": pa.int64(), "a": pa.string()})
    with pytest.raises(wt.InvalidError, match="BIGINT"):
        catalog.create_table("db.u", text, primary_key=["k"], options=summed)
    table = catalog.create_table("db.v", SCHEMA, primary_key=["k"], options=summed)
    with pytest.raises(wt.InvalidError, match="bit_or"):
        table.write(pa.table({"k": [1], "a": [1], "_row_kind": ["-D"]}))
