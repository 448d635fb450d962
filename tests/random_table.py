"""Random tables through the public API: what they are made of, what is written to them, what they must hold.

`table_specs` draws schema, options, buckets and partitions; `make` creates the table; `stamped_commits` draws what one
writer writes; `data_of` gives it as users do; `texts` is the one form in which rows are compared.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa
from hypothesis import strategies as st

import widetable as wt
from tests.model import Model, Record, Row
from tests.plain_rows import plain
from tests.strategies import Commit, commits, keys_of, tables
from widetable.commit.committer import Committer
from widetable.lsm.sorted_run import key_types, sort_key
from widetable.merge.engine import engine_of
from widetable.paths import TablePaths
from widetable.schema import TableSchema, new_schema
from widetable.storage.local import LocalFileIO
from widetable.write.write_batch import ROW_KIND_COLUMN

NAME: Final = "db.t"
_ROW_KIND_FIELD: Final = "rk"
_PARTITION_TYPES: Final = (pa.int32(), pa.int64(), pa.string(), pa.bool_(), pa.date32())

# How a table is laid out on disk; its rows must not depend on any of it. Small on purpose.
LAYOUT: Final[Mapping[str, tuple[str, ...]]] = {
    "bucket": ("1", "2", "3"),
    "widetable.level0-columns": ("written", "all"),
    "write-buffer-size": ("1 kb", "16 kb", "256 mb"),
    "target-file-size": ("1 kb", "128 mb"),
    "num-sorted-run.compaction-trigger": ("2", "3", "5"),
    "manifest.merge-min-count": ("2", "30"),
    "write-only": ("true", "false", "false"),
}


@dataclass(frozen=True)
class TableSpec:
    """What `Catalog.create_table` gets, and the few keys that all records have."""

    columns: pa.Schema
    primary_key: tuple[str, ...]
    partition_by: tuple[str, ...]
    options: Mapping[str, str]
    keys: tuple[Row, ...]

    @property
    def schema(self) -> TableSchema:
        return new_schema(
            self.columns,
            primary_key=self.primary_key,
            partition_by=self.partition_by,
            options=self.options,
        )

    def with_options(self, options: Mapping[str, str]) -> TableSpec:
        return replace(self, options={**self.options, **options})


@st.composite
def table_specs(draw: st.DrawFn) -> TableSpec:
    """Any table that can be made: options of `strategies.tables`, row kinds in a field, partitions, any layout."""
    schema = draw(tables())
    columns = schema.arrow_schema()
    options = dict(schema.options)
    if draw(st.integers(0, 5)) == 0:
        columns = columns.append(pa.field(_ROW_KIND_FIELD, pa.string(), nullable=False))
        options["rowkind.field"] = _ROW_KIND_FIELD
    may_part = [n for n in schema.primary_keys[1:] if columns.field(n).type in _PARTITION_TYPES]
    options |= {key: draw(st.sampled_from(values)) for key, values in LAYOUT.items()}
    return TableSpec(
        columns,
        schema.primary_keys,
        tuple(draw(st.lists(st.sampled_from(may_part), unique=True)) if may_part else ()),
        {**options, "widetable.fsync": "false"},
        tuple(draw(keys_of(schema))),
    )


def make(warehouse: str, spec: TableSpec) -> wt.Table:
    return wt.Catalog(warehouse).create_table(
        NAME,
        spec.columns,
        primary_key=spec.primary_key,
        partition_by=spec.partition_by,
        options=spec.options,
    )


@st.composite
def stamped_commits(
    draw: st.DrawFn, schema: TableSchema, keys: Iterable[Row], max_records: int = 6
) -> Commit:
    """`strategies.commits`, with the row kind in its field where the table has one."""
    commit = draw(commits(schema, list(keys), max_records))
    if "rowkind.field" not in schema.options:
        return commit
    stamped = [
        (kind, {**row, _ROW_KIND_FIELD: draw(st.sampled_from([kind, kind.lower()]))})
        for kind, row in commit.records
    ]
    return replace(commit, records=tuple(stamped))


def data_of(schema: TableSchema, commit: Commit) -> pa.Table:
    """The records as a user gives them: owned columns, and row kinds unless a field holds them."""
    rows = [row for _, row in commit.records]
    data = pa.Table.from_pylist(rows, schema=schema.arrow_schema(commit.columns))
    if "rowkind.field" in schema.options:
        return data
    kinds = pa.array([kind for kind, _ in commit.records], pa.string())
    return data.append_column(ROW_KIND_COLUMN, kinds)


def has_effect(model: Model, records: Iterable[Record]) -> bool:
    """Whether any record is written."""
    return any(model.keeps(record) for record in records)


def texts(rows: Iterable[Row], names: Iterable[str] | None = None) -> list[str]:
    """Rows in any order, of all or some columns, in one comparable form."""
    wanted = None if names is None else list(names)
    chosen = (row if wanted is None else {name: row[name] for name in wanted} for row in rows)
    return sorted(json.dumps(plain(row), sort_keys=True) for row in chosen)


def rows_of(table: wt.Table, **how: Any) -> list[str]:
    return texts(table.scan(**how).to_arrow().to_pylist())


def takes_late_records(schema: TableSchema) -> bool:
    """Whether a commit that was overtaken, and then compacted past, still comes where it belongs.

    What compaction merges keeps one sequence number (docs/decisions/0007), so writers of the same columns
    are then ordered by their commits; only an order by `sequence.field`, or whole rows without deletes,
    stay in the order of the starts.
    """
    keeps_deletes = engine_of(schema).keeps_deletes(schema)
    if schema.options.get("merge-engine") == "deduplicate":
        return keeps_deletes or schema.options.get("ignore-delete") == "true"
    return bool(schema.sequence_fields)


def check_levels(path: str, schema: TableSchema) -> None:
    """Files of a level >= 1 of a bucket do not overlap."""
    committer = Committer(LocalFileIO(), TablePaths(path))
    types = key_types(schema)
    levels: dict[tuple[bytes, int, int], list[tuple[Any, Any]]] = {}
    for entry in committer.live_files.live_entries(committer.snapshots.latest()):
        file = entry.file
        if file.level > 0:
            bounds = sort_key(file.min_key, types), sort_key(file.max_key, types)
            levels.setdefault((entry.partition, entry.bucket, file.level), []).append(bounds)
    for ranges in levels.values():
        assert all(a[1] < b[0] for a, b in pairwise(sorted(ranges)))
