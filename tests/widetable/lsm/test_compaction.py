"""Compaction: whatever is picked, whenever, the rows stay those of merging every commit from scratch."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from tests.faults import Fault, FaultyFileIO
from tests.model import Model
from tests.strategies import commits, keys_of, tables
from tests.table_files import BucketKey, TableFiles, with_more_options
from widetable.errors import StorageError
from widetable.lsm.compaction import compact_bucket, discard, merge_batch_rows, plan_bucket
from widetable.lsm.levels import Levels, levels_of
from widetable.lsm.sorted_run import sections
from widetable.lsm.universal_compaction import Choice, widen
from widetable.merge.engine import PartialMerge
from widetable.schema import TableSchema, new_schema
from widetable.storage.local import LocalFileIO
from widetable.types import DataType

PARTITION_TYPES = {"INT", "BIGINT", "VARCHAR", "BOOLEAN", "DATE", "DECIMAL"}
LAYOUTS = st.fixed_dictionaries(
    {
        "bucket": st.sampled_from(["1", "1", "3"]),
        "num-sorted-run.compaction-trigger": st.sampled_from(["1", "2", "3", "5"]),
        "target-file-size": st.sampled_from(["1b", "1500b", "128mb"]),
        "write-buffer-size": st.sampled_from(["1b", "2kb", "256mb"]),
        "widetable.level0-columns": st.sampled_from(["written", "all"]),
        "widetable.fsync": st.just("false"),
    }
)


@contextmanager
def directory() -> Iterator[Path]:
    """A fresh one for each example of a property."""
    with tempfile.TemporaryDirectory(prefix="widetable-test-") as name:
        yield Path(name)


def partitioned(schema: TableSchema) -> TableSchema:
    """The schema with its first key column as partition, where that leaves a key and has a directory text."""
    first = schema.primary_keys[0]
    if len(schema.primary_keys) < 2 or schema.field(first).type.root not in PARTITION_TYPES:
        return schema
    return replace(schema, partition_keys=(first,))


def any_choice(data: st.DataObject, levels: Levels) -> Choice | None:
    """Any number of the newest runs, to any level that keeps older runs below."""
    runs = levels.sorted_runs()
    count = data.draw(st.integers(1, len(runs)), "runs")
    files = tuple(file for run in runs[:count] for file in run.files)
    deepest = levels.max_level if count == len(runs) else runs[count].level - 1
    shallowest = max(file.level for file in files) or 1
    if deepest < shallowest:
        return None
    level = data.draw(st.integers(shallowest, deepest), "level")
    return Choice(files, level, drop_deletes=count == len(runs))


def compact_anything(data: st.DataObject, table: TableFiles, key: BucketKey) -> None:
    levels = levels_of(table.buckets[key], table.state.options)
    choice = any_choice(data, levels)
    if choice is None:
        return
    has_deletes = any(file.delete_row_count != 0 for file in choice.files)
    allowed = table.state.engine.partial_merge(table.schema, has_deletes=has_deletes)
    if allowed is PartialMerge.WITH_BASE:
        choice = widen(levels)
    if choice is not None:
        note(f"compact {len(choice.files)} files to level {choice.output_level}: {allowed}")
        message = compact_bucket(table.state, *key, table.schema.num_buckets, choice)
        table.apply([message])


@given(data=st.data())
def test_any_commits_and_any_compactions_give_the_model_s_rows(data: st.DataObject) -> None:
    schema = data.draw(tables(), "table")
    if data.draw(st.booleans(), "partitioned"):
        schema = partitioned(schema)
    schema = with_more_options(schema, data.draw(LAYOUTS, "layout"))
    keys = data.draw(keys_of(schema), "keys")
    model = Model(schema)
    with directory() as root:
        table = TableFiles(root, schema)
        for _ in range(data.draw(st.integers(1, 6), "commits")):
            commit = data.draw(commits(schema, keys), "commit")
            batch_rows = data.draw(st.sampled_from([1, 3, 1000]), "batch rows")
            table.write(commit.columns, commit.records, batch_rows)
            model.write(commit.records)
            for key in sorted(table.buckets):
                if table.buckets[key] and data.draw(st.booleans(), "compact"):
                    compact_anything(data, table, key)
            table.check()
            assert table.rows() == model.rows()
        assert table.live_names() <= table.names_on_disk()


@given(data=st.data())
def test_the_rules_picks_give_the_model_s_rows(data: st.DataObject) -> None:
    schema = with_more_options(data.draw(tables(), "table"), data.draw(LAYOUTS, "layout"))
    keys = data.draw(keys_of(schema), "keys")
    model = Model(schema)
    with directory() as root:
        table = TableFiles(root, schema)
        for _ in range(data.draw(st.integers(1, 8), "commits")):
            commit = data.draw(commits(schema, keys, max_records=4), "commit")
            table.write(commit.columns, commit.records)
            model.write(commit.records)
            for key in sorted(table.buckets):
                choice = plan_bucket(table.state, table.buckets[key], full=data.draw(st.booleans()))
                if choice is not None:
                    total = schema.num_buckets
                    table.apply([compact_bucket(table.state, *key, total, choice)])
            table.check()
            assert table.rows() == model.rows()
