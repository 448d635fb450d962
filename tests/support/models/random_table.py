"""Random tables through the public API: what they are made of, what is written to them, what they must hold.

`table_specs` draws schema, options, buckets and partitions; `make` creates the table; `stamped_commits` draws what one
writer writes; `data_of` gives it as users do; `texts` is the one form in which rows are compared.
"""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count, pairwise
from typing import Any, Final

import pyarrow as pa
from hypothesis import strategies as st

import widetable as wt
from tests.support.models.aggregates import function_of
from tests.support.models.model import ADDS, Model, Record, Row
from tests.support.models.plain_rows import plain, python_rows
from tests.support.models.strategies import Commit, commits, keys_of, tables, values_of
from widetable.commit.transaction.committer import Committer
from widetable.format.bucket_id import BucketId, by_bucket
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.data_file_reader import open_data_file
from widetable.format.snapshot import Snapshot
from widetable.lsm.sorted_run import key_types, sort_key
from widetable.schema.new_schema import new_schema
from widetable.schema.row_kind import TEXTS
from widetable.schema.table_schema import ROW_KIND_COLUMN, SEQUENCE_NUMBER, VALUE_KIND, TableSchema
from widetable.storage.local import LocalFileIO
from widetable.storage.paths import TablePaths
from widetable.write.bucket_split import split_by_bucket
from widetable.write.commit_message import CommitMessage
from widetable.write.table_state import TableState

NAME: Final = "db.t"
_ROW_KIND_FIELD: Final = "rk"
_PAD: Final = "pad"
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

# How compactions delete what is below them; where `may_have_vectors` says so.
VECTORS: Final[tuple[Mapping[str, str], ...]] = (
    {},
    {"deletion-vectors.enabled": "true"},
    {"deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": "true"},
)

# What may be another for every commit, without a word of it in the changelog.
CHANGELOG_LAYOUT: Final[Mapping[str, tuple[str, ...]]] = {
    "widetable.lookup-strategy": ("scan", "lookup", "lookup", "auto"),
    "widetable.inline-compaction-size": ("0 b", "16 mb"),
    "lookup-compact": ("radical", "radical", "gentle"),
    "lookup-compact.max-interval": ("2", "3"),
    "compaction.max-size-amplification-percent": ("200", "1000000", "1000000"),
    **{name: values for name, values in LAYOUT.items() if name != "bucket"},
    "num-sorted-run.compaction-trigger": ("2", "5", "5"),
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
def table_specs(draw: st.DrawFn, engine: str | None = None) -> TableSpec:
    """Any table that can be made: options of `strategies.tables`, row kinds in a field, partitions, any layout. engine:
    None for any.
    """
    schema = draw(tables(engine))
    columns = schema.arrow_schema()
    options = dict(schema.options)
    if draw(st.integers(0, 5)) == 0:
        columns = columns.append(pa.field(_ROW_KIND_FIELD, pa.string(), nullable=False))
        options["rowkind.field"] = _ROW_KIND_FIELD
    may_part = [n for n in schema.primary_keys[1:] if columns.field(n).type in _PARTITION_TYPES]
    options |= {key: draw(st.sampled_from(values)) for key, values in LAYOUT.items()}
    if may_have_vectors(schema):
        options |= draw(st.sampled_from(VECTORS))
    return TableSpec(
        columns,
        schema.primary_keys,
        tuple(draw(st.lists(st.sampled_from(may_part), unique=True)) if may_part else ()),
        {**options, "widetable.fsync": "false"},
        tuple(draw(keys_of(schema))),
    )


@st.composite
def changelog_specs(draw: st.DrawFn, producer: str) -> TableSpec:
    """Any table that can have this producer of changelogs, with a column `pad` for what makes files large."""
    spec = draw(table_specs().filter(lambda spec: may_have_changelog(spec.schema, producer)))
    spec = replace(spec, columns=spec.columns.append(pa.field(_PAD, pa.binary())))
    names = [name for name in spec.columns.names if name not in spec.primary_key]
    options = {"changelog-producer": producer}
    if producer == "full-compaction":
        options["deletion-vectors.enabled"] = "false"
    options |= {key: draw(st.sampled_from(values)) for key, values in CHANGELOG_LAYOUT.items()}
    levels = draw(st.sampled_from([None, "2", "4", "6"]))
    if (
        levels is not None
    ):  # else there are more for a larger compaction trigger, which may be altered
        options["num-levels"] = levels
    if producer in ("lookup", "full-compaction") and draw(st.booleans()):
        options["changelog-producer.row-deduplicate"] = "true"
        ignored = draw(st.lists(st.sampled_from(names), max_size=2, unique=True))
        if ignored:
            options["changelog-producer.row-deduplicate-ignore-fields"] = ",".join(ignored)
    return spec.with_options(options)


@st.composite
def base_commits(draw: st.DrawFn, spec: TableSpec) -> Commit:
    """A row of each key, too large to be compacted together with what comes later."""
    schema = spec.schema
    names = [name for name in schema.names if name not in schema.primary_keys]
    values = {name: values_of(schema, name) for name in names}
    values[_PAD] = st.builds(random.Random, st.integers(0, 1000)).map(lambda r: r.randbytes(20_000))
    if "rowkind.field" in schema.options:
        values[_ROW_KIND_FIELD] = st.just("+I")
    rows = [key | draw(st.fixed_dictionaries(values)) for key in spec.keys]
    return Commit(schema.names, tuple(("+I", row) for row in rows))


def functions_of(schema: TableSchema) -> set[str]:
    """The functions that fill columns."""
    found = (function_of(schema, name) for name in schema.names)
    return {function for function in found if function is not None}


def may_have_changelog(schema: TableSchema, producer: str) -> bool:
    """Whether a table with this producer can be made: rows that are merged when they are read only have no images."""
    engine = schema.options.get("merge-engine")
    if engine == "first-row":
        return producer == "lookup"
    by_order = {"max", "min", "bool_and", "bool_or", "last_value"}
    values = [
        name for name in schema.names if name not in (*schema.primary_keys, *schema.sequence_fields)
    ]
    is_free = (
        engine == "aggregation"
        and all(function_of(schema, name) is not None for name in values)
        and functions_of(schema) <= by_order
    )
    is_ordered = bool(schema.sequence_fields) and engine != "deduplicate" and not is_free
    return not is_ordered or producer == "input"


def may_have_vectors(schema: TableSchema) -> bool:
    """Whether rows above level 0 can be whole rows, each key in one of them."""
    is_first_row = schema.options.get("merge-engine") == "first-row"
    return not is_first_row and may_have_changelog(schema, "lookup")


def make(warehouse: str, spec: TableSpec, name: str = NAME) -> wt.Table:
    return wt.Catalog(warehouse).create_table(
        name,
        spec.columns,
        primary_key=spec.primary_key,
        partition_by=spec.partition_by,
        options=spec.options,
    )


@st.composite
def stamped_commits(
    draw: st.DrawFn,
    schema: TableSchema,
    keys: Iterable[Row],
    max_records: int = 6,
    min_records: int = 0,
    owned: tuple[str, ...] | None = None,
) -> Commit:
    """`strategies.commits`, with the row kind in its field where the table has one."""
    commit = draw(commits(schema, list(keys), max_records, min_records, owned))
    if "rowkind.field" not in schema.options:
        return commit
    stamped = [
        (kind, {**row, _ROW_KIND_FIELD: draw(st.sampled_from([kind, kind.lower()]))})
        for kind, row in commit.records
    ]
    return replace(commit, records=tuple(stamped))


@st.composite
def column_changes(draw: st.DrawFn, schema: TableSchema) -> dict[str, Any]:
    """What `Catalog.alter_table` gets to add, rename, drop or widen a column."""
    named = set(re.findall(r"\w+", " ".join([*schema.options, *schema.options.values()])))
    others = [name for name in schema.names if name not in schema.primary_keys]
    plain_ones = [n for n in others if n not in named and schema.field(n).type.nullable]
    narrow = [n for n in others if schema.arrow_schema([n]).field(0).type == pa.int32()]
    new = next(name for name in map("new{}".format, count()) if name not in schema.names)
    choices: list[st.SearchStrategy[dict[str, Any]]] = [
        st.sampled_from([pa.int32(), pa.string(), pa.float64()]).map(
            lambda kind: {"add_columns": [pa.field(new, kind)]}
        )
    ]
    fixed = schema.options.get("partial-update.remove-record-on-sequence-group", "").split(",")
    renamed = [name for name in others if name not in (*fixed, _ROW_KIND_FIELD)]
    if renamed:
        choices.append(st.sampled_from(renamed).map(lambda n: {"rename_columns": {n: new}}))
    if plain_ones and len(others) > 1:
        choices.append(st.sampled_from(plain_ones).map(lambda n: {"drop_columns": [n]}))
    if narrow:
        choices.append(st.sampled_from(narrow).map(lambda n: {"change_types": {n: pa.int64()}}))
    return draw(st.one_of(choices))


def data_of(schema: TableSchema, commit: Commit) -> pa.Table:
    """The records as a user gives them: owned columns, and row kinds unless a field holds them."""
    rows = [row for _, row in commit.records]
    data = pa.Table.from_pylist(rows, schema=schema.arrow_schema(commit.columns))
    if "rowkind.field" not in schema.options:
        kinds = pa.array([kind for kind, _ in commit.records], pa.string())
        data = data.append_column(ROW_KIND_COLUMN, kinds)
    # In batches of two rows: a writer with a small buffer may spill after each.
    return pa.Table.from_batches(data.to_batches(max_chunksize=2), data.schema)


def has_effect(model: Model, records: Iterable[Record]) -> bool:
    """Whether any record is written."""
    return any(model.keeps(record) for record in records)


def texts(rows: Iterable[Row], names: Iterable[str] | None = None) -> list[str]:
    """Rows in any order, of all or some columns, in one comparable form."""
    wanted = None if names is None else list(names)
    chosen = (row if wanted is None else {name: row[name] for name in wanted} for row in rows)
    return sorted(json.dumps(plain(row), sort_keys=True) for row in chosen)


def rows_of(table: wt.Table, **how: Any) -> list[str]:
    return texts(python_rows(table.scan(**how).to_arrow()))


def in_two_tasks(table: wt.Table, rows: pa.Table, cut: int) -> list[CommitMessage]:
    """The messages of two writers of one commit, of which the second gets the rows from `cut` on. The numbers of a
    second task run ahead of the clock by 1 ms: who writes something else next waits as long.
    """
    base = table.sequence_base()
    messages: list[CommitMessage] = []
    for task, part in enumerate((rows[:cut], rows[cut:])):
        writer = table.new_writer(rows.column_names, task=task, tasks=2, sequence_base=base)
        writer.write(part)
        messages += writer.finish()
    return messages


def check_levels(path: str, schema: TableSchema) -> None:
    """Files of a level >= 1 of a bucket do not overlap; with deletion vectors no key is there twice."""
    types = key_types(schema)
    if schema.options.get("deletion-vectors.enabled") == "true":
        keys = [key for key, _, _ in rows_above_level_0(path)]
        assert len(set(keys)) == len(keys), "a key that several rows above level 0 have"
    for files in live_files(path).values():
        for level in {file.level for file in files} - {0}:
            ranges = sorted(
                (sort_key(file.min_key, types), sort_key(file.max_key, types))
                for file in files
                if file.level == level
            )
            assert all(a[1] < b[0] for a, b in pairwise(ranges))


def live_files(path: str, snapshot: Snapshot | None = None) -> dict[BucketId, list[DataFileMeta]]:
    """The files of each bucket at a snapshot, the newest by default."""
    committer = Committer(LocalFileIO(), TablePaths(path))
    entries = committer.live_files.live_entries(snapshot or committer.snapshots.latest())
    return {bucket: [entry.file for entry in held] for bucket, held in by_bucket(entries).items()}


def place_of(schema: TableSchema, row: Row) -> BucketId:
    """Where a row with this key lies."""
    names = schema.primary_keys
    key = {name: math.nan if row[name] != row[name] else row[name] for name in names}  # one NaN
    keys = pa.RecordBatch.from_pylist([key], schema.arrow_schema(names))
    ((place, _),) = split_by_bucket(keys, schema)
    return place


def rows_above_level_0(path: str) -> Iterator[tuple[str, int, Row]]:
    """Bucket and key, level, and row of every row above level 0 that no vector deletes; nothing is merged."""
    file_io, paths = LocalFileIO(), TablePaths(path)
    committer = Committer(file_io, paths)
    schema = committer.schemas.latest()
    state = TableState(file_io, paths, schema, committer.schemas.load)
    for place, files in live_files(path).items():
        for file in (file for file in files if file.level > 0):
            where = state.data_file(place, file.file_name)
            with open_data_file(
                file_io, where, file, schema, committer.schemas.load(file.schema_id)
            ) as data:
                for batch in data.batches():
                    for row in python_rows(batch):
                        (key,) = texts([row], schema.trimmed_primary_key)
                        yield f"{place} {key}", file.level, dict.fromkeys(schema.names) | row


def stored_rows(path: str) -> Iterator[Row]:
    """Each key as the newest level >= 1 that has it says, unless that is a retraction; nothing is merged."""
    newest: dict[str, tuple[int, Row]] = {}
    for key, level, row in rows_above_level_0(path):
        if key not in newest or level < newest[key][0]:
            newest[key] = level, row
    for _, row in newest.values():
        kind = row.pop(VALUE_KIND)
        del row[SEQUENCE_NUMBER]
        if TEXTS[kind] in ADDS:
            yield row
