"""A random table under two masters: both write to it, ours compacts, both must read the same rows.

Values that Python's dates cannot hold are brought into range for pypaimon, which plans and reads with them. Where the
other client is known to say something else, a property of the history says so, and why.
"""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import reject
from hypothesis import strategies as st

import widetable as wt
from tests.support.models.model import Row
from tests.support.models.plain_rows import plain, python_rows, row_texts
from tests.support.models.random_table import (
    NAME,
    TableSpec,
    column_changes,
    data_of,
    functions_of,
    make,
    stamped_commits,
    table_specs,
)
from tests.support.models.strategies import Commit
from widetable.operations.handle.compaction_threads import wait_for_compactions
from widetable.schema.table_schema import ROW_KIND_COLUMN, TableSchema
from widetable.storage.paths import table_root

TheirWrite = Callable[[wt.Table, pa.Table], None]
TheirCompact = Callable[[wt.Table, bool], None]
TheirAlter = Callable[[wt.Table, dict[str, Any]], None]
_FIRSTS: Final = "first_non_null_value", "first_not_null_value"
_DATES: Final = -719_162, 2_932_896
_SECONDS: Final = -62_135_596_800, 253_402_300_799
_UNITS: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@dataclass(frozen=True)
class OtherClient:
    """Who writes beside us. compact: its compaction, full or not. alter: its way of changing columns as
    `Catalog.alter_table` does; without it we change them. keeps_columns: nobody does. takes_kinds: rows may have
    `_row_kind`; others get the same rows as `+I`, unless a field of theirs says otherwise. writes_to: whether it writes
    to such tables. served_rows: rows with other times in the place of those that it cannot hold. serves: whether both
    say the same of a row of a table.
    """

    write: TheirWrite
    compact: TheirCompact | None = None
    alter: TheirAlter | None = None
    keeps_columns: bool = False
    takes_kinds: bool = False
    writes_to: Callable[[TableSchema], bool] = lambda _schema: True
    served_rows: Callable[[pa.Table], pa.Table] = lambda rows: in_range(rows)
    serves: Callable[[TableSchema, Row], bool] = lambda _schema, _row: True


@dataclass
class History:
    """A table and what happened to it. retracted: by key, how often a record was a -U or -D. has_befores: one was a -U.
    they_retract: the other client wrote one.
    """

    spec: TableSpec
    table: wt.Table
    client: OtherClient
    retracted: Counter[str] = field(default_factory=Counter)
    has_befores: bool = False
    they_retract: bool = False
    steps: list[str] = field(default_factory=list)

    def write(self, commit: Commit, *, by_them: bool) -> None:
        """One commit, by us or by the other client, which writes all columns."""
        kept = [record for record in commit.records if self.client.serves(self.schema, record[1])]
        takes_kinds = self.client.takes_kinds or "rowkind.field" in self.schema.options
        if by_them and not takes_kinds:
            kept = [("+I", row) for _, row in kept]
        if not kept:
            return
        commit = replace(commit, records=tuple(kept))
        self.has_befores |= any(kind == "-U" for kind, _ in kept)
        keys = self.schema.primary_keys
        self.retracted.update(
            repr([row[name] for name in keys]) for kind, row in kept if kind.startswith("-")
        )
        rows = self.client.served_rows(pa.table(data_of(self.schema, commit)))
        if not by_them:
            self.steps.append(f"write {commit}")
            self.table.write(rows)
            return
        if not takes_kinds:
            rows = rows.drop_columns(ROW_KIND_COLUMN)
        self.they_retract |= ROW_KIND_COLUMN in rows.column_names
        self.steps.append(f"they write {commit}")
        self.client.write(self.table, all_columns(rows, self.table.arrow_schema))

    def compact(self, *, full: bool, by_them: bool = False) -> None:
        self.steps.append(f"{'they' if by_them else 'we'} compact, full={full}")
        if by_them:
            assert self.client.compact is not None
            self.client.compact(self.table, full)
        else:
            self.table.compact(full=full)

    def alter(self, change: dict[str, Any], *, by_them: bool) -> None:
        self.steps.append(f"{'they' if by_them else 'we'} alter {change}")
        if by_them:
            assert self.client.alter is not None
            self.client.alter(self.table, change)
        else:
            wt.Catalog(str(Path(self.table.path).parents[1])).alter_table(NAME, **change)

    def go_on(self, data: st.DataObject) -> None:
        """Up to five commits of both, some of them compacted, with other columns in between."""
        client = self.client
        for _ in range(data.draw(st.integers(1, 5), label="commits")):
            by_them = data.draw(st.sampled_from([False, False, True]), label="theirs")
            commit = data.draw(stamped_commits(self.schema, self.spec.keys), label="commit")
            self.write(commit, by_them=by_them and client.writes_to(self.schema))
            if data.draw(st.integers(0, 2), label="compact") == 0:
                by_them = client.compact is not None and data.draw(st.booleans(), label="theirs")
                self.compact(full=data.draw(st.booleans(), label="full"), by_them=by_them)
            if not client.keeps_columns and data.draw(st.integers(0, 4), label="alter") == 0:
                by_them = client.alter is not None and data.draw(st.booleans(), label="theirs")
                change = data.draw(column_changes(self.schema), label="change")
                self.alter(change, by_them=by_them)

    @property
    def schema(self) -> TableSchema:
        return self.table.schema

    def rows(self) -> list[str]:
        return row_texts([plain(row) for row in python_rows(self.table.scan().to_arrow())])

    @property
    def has_retractions(self) -> bool:
        return bool(self.retracted)

    @property
    def has_vectors(self) -> bool:
        """Whether rows of older levels are deleted by vectors; until all levels become one."""
        return self.spec.options.get("deletion-vectors.enabled") == "true"

    @property
    def waits_for_compaction(self) -> bool:
        """Whether the other client sees our rows only behind a full compaction: it passes over level 0 of first-row
        tables and of those with deletion vectors, and over retractions alone in aggregation (differing_cases).
        """
        options = self.spec.options
        if options["merge-engine"] == "aggregation" and self.has_retractions:
            return True
        return options["merge-engine"] == "first-row" or self.has_vectors

    @property
    def stays_different(self) -> bool:
        """Where such a retraction is merged by readers only, for good, and where differing_cases has a case:
        `sequence.field` where it orders retractions that are merged, removed rows that are retracted once more or have
        a function in their group, -U next to removals, first values of groups.
        """
        if self.schema.sequence_groups and not functions_of(self.schema).isdisjoint(_FIRSTS):
            return True
        options = self.schema.options
        has_order = "sequence.field" in options and options["merge-engine"] != "deduplicate"
        if self.retracted and any("partial-update.remove-record" in name for name in options):
            has_functions = bool(self.schema.sequence_groups and functions_of(self.schema))
            if has_functions or self.has_befores or max(self.retracted.values()) > 1:
                return True
        return self.has_retractions and has_order


def may_lack_a_value(schema: TableSchema) -> bool:
    """Whether a fold may leave a NOT NULL column empty: the last record's value here, an error or another value there
    (differing_cases.without_a_value).
    """
    folded = {name for group in schema.sequence_groups for name in group.protected}
    if schema.options["merge-engine"] == "aggregation":
        folded = set(schema.names)
    return not folded.isdisjoint({*schema.required_names} - {*schema.primary_keys})


@contextlib.contextmanager
def table_folder() -> Iterator[str]:
    """A warehouse for one table, until all that is done behind its commits is done."""
    with TemporaryDirectory() as folder:
        try:
            yield folder
        finally:
            wait_for_compactions(table_root(folder, NAME, "table"))


def has_plain_keys(spec: TableSpec) -> bool:
    """No key with NaN or a zero of floats: neither Java nor pypaimon's native engine has these in one order."""
    values = [value for key in spec.keys for value in key.values()]
    return not any(isinstance(v, float) and (math.isnan(v) or v == 0) for v in values)


def history(
    data: st.DataObject,
    folder: str,
    client: OtherClient,
    specs: st.SearchStrategy[TableSpec] | None = None,
) -> History:
    """A drawn table, any or one of `specs`, with a few steps behind it."""
    spec = data.draw(table_specs() if specs is None else specs, label="table")
    if data.draw(st.integers(0, 2), label="dynamic buckets") == 0:
        spec = spec.with_options({"bucket": "-1", "dynamic-bucket.target-row-num": "2"})
    if may_lack_a_value(spec.schema):
        reject()
    found = History(spec, make(folder, spec), client)
    found.go_on(data)
    return found


def in_range(rows: pa.Table) -> pa.Table:
    """The same rows with dates and timestamps between the years 1 and 9999."""
    columns = [_in_range(column.combine_chunks()) for column in rows.columns]
    return pa.Table.from_arrays(columns, schema=rows.schema)


def _in_range(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_date32(kind):
        return clamped(column, pa.int32(), *_DATES)
    if not pa.types.is_timestamp(kind):
        return column
    lowest, highest = (seconds * _UNITS[kind.unit] for seconds in _SECONDS)
    return clamped(column, pa.int64(), max(lowest, -(2**62)), min(highest, 2**62))


def clamped(column: pa.Array, kind: pa.DataType, lowest: int, highest: int) -> pa.Array:
    numbers = pc.max_element_wise(column.cast(kind), pa.scalar(lowest, kind), skip_nulls=False)
    return pc.min_element_wise(numbers, pa.scalar(highest, kind), skip_nulls=False).cast(
        column.type
    )


def all_columns(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """With nulls in the columns that are not written, and row kinds as they are."""
    if ROW_KIND_COLUMN in rows.column_names:
        schema = schema.append(rows.schema.field(ROW_KIND_COLUMN))
    found: list[Any] = [
        rows.column(field.name).cast(field.type)
        if field.name in rows.column_names
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(found, schema=schema)
