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

import widetable as wt
from tests.support.faults.faults import Fault, FaultyFileIO
from tests.support.models.model import Model
from tests.support.models.plain_rows import plain
from tests.support.models.strategies import commits, keys_of, tables
from tests.support.tables.table_files import TableFiles, with_more_options
from widetable.errors import StorageError
from widetable.format.bucket_id import BucketId
from widetable.format.data_file_meta import DataFileMeta
from widetable.lsm.bucket_plan import Expiry, Merge, Move, Plan, Scope, plan_bucket
from widetable.lsm.compaction import compact_bucket
from widetable.lsm.levels import Levels, levels_of
from widetable.merge.engine import PartialMerge
from widetable.schema.new_schema import new_schema
from widetable.schema.table_schema import TableSchema
from widetable.storage.local import LocalFileIO
from widetable.write.discard import discard

PARTITION_TYPES = {"INT", "BIGINT", "VARCHAR", "BOOLEAN", "DATE", "DECIMAL"}
LAYOUTS = st.fixed_dictionaries(
    {
        "bucket": st.sampled_from(["1", "1", "3"]),
        "num-sorted-run.compaction-trigger": st.sampled_from(["1", "2", "3", "5"]),
        "target-file-size": st.sampled_from(["1b", "1500b", "128mb"]),
        "write-buffer-size": st.sampled_from(["1kb", "2kb", "256mb"]),
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


def any_plan(data: st.DataObject, table: TableFiles, levels: Levels) -> Plan:
    """Any number of the newest runs, to any level that keeps older runs below; all where that must be."""
    runs = levels.sorted_runs()
    count = data.draw(st.integers(1, len(runs)), "runs")
    files = tuple(file for run in runs[:count] for file in run.files)
    deepest = levels.max_level if count == len(runs) else runs[count].level - 1
    shallowest = max(file.level for file in files) or 1
    if deepest < shallowest:
        return ()
    level = data.draw(st.integers(shallowest, deepest), "level")
    engine, schema = table.state.engine, table.schema
    has_deletes = any(file.delete_row_count != 0 for file in files)
    allowed = engine.partial_merge(schema, has_deletes=has_deletes)
    if allowed is PartialMerge.WITH_BASE:
        files, count, level = tuple(levels.files), len(runs), levels.max_level
    is_base = count == len(runs)
    keep_deletes = not is_base or engine.keeps_deletes(schema)
    movable = frozenset(f for f in files if keep_deletes or not f.delete_row_count)
    note(f"compact {len(files)} files to level {level}: {allowed}")
    if allowed is PartialMerge.NEVER:
        return (Move(files, level, movable),)
    number = 0 if is_base and engine.mixes_records else None
    return (Merge(files, level, movable, keep_deletes, number, Expiry.NONE),)


def compact_anything(data: st.DataObject, table: TableFiles, key: BucketId) -> None:
    """All rows of level 0 that are merged are said to be done, and no others."""
    plan = any_plan(data, table, levels_of(table.buckets[key], table.state.options))
    done: list[float] = []
    buckets = table.schema.num_buckets
    message = compact_bucket(table.state, key, buckets, plan, rows_done=done.append)
    table.apply([message])
    moved = {file.file_name for file in message.compact_after}
    merged = [f for f in message.compact_before if f.level == 0 and f.file_name not in moved]
    assert sum(done) == pytest.approx(sum(file.row_count for file in merged))


def planned(table: TableFiles, files: list[DataFileMeta], *, full: bool) -> Plan:
    scope = Scope.FULL if full else Scope.DUE
    return plan_bucket(table.schema, table.state.engine, files, scope)


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
                if bool(table.buckets[key]) and data.draw(st.booleans(), "compact"):
                    compact_anything(data, table, key)
            table.check()
            assert plain(table.rows()) == plain(model.rows())
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
                full = data.draw(st.booleans(), "full")
                plan = planned(table, table.buckets[key], full=full)
                table.apply([compact_bucket(table.state, key, schema.num_buckets, plan)])
            table.check()
            assert plain(table.rows()) == plain(model.rows())


NO_FSYNC = {"bucket": "1", "widetable.fsync": "false"}


def small_table(root: Path, options: dict[str, str], *columns: str) -> TableFiles:
    """Key k INT, and BIGINT columns."""
    arrow = pa.schema([("k", pa.int32()), *((name, pa.int64()) for name in columns)])
    schema = new_schema(arrow, primary_key=["k"], options={**NO_FSYNC, **options})
    return TableFiles(root, schema)


def compact_all(table: TableFiles, *, full: bool = True) -> None:
    for key, files in table.buckets.items():
        plan = planned(table, files, full=full)
        table.apply([compact_bucket(table.state, key, table.schema.num_buckets, plan)])
    table.check()


def levels_and_deletes(table: TableFiles) -> list[tuple[int, int, int | None]]:
    """(level, rows, deletes) of all files."""
    files = (file for files in table.buckets.values() for file in files)
    return sorted((file.level, file.row_count, file.delete_row_count) for file in files)


def test_deletes_by_arrival_go_when_nothing_older_is_left(tmp_path: Path) -> None:
    table = small_table(tmp_path, {}, "v")
    table.write(["k", "v"], [("+I", {"k": 1, "v": 1}), ("-D", {"k": 2, "v": 2})])
    compact_all(table)
    assert levels_and_deletes(table) == [(5, 1, 0)]


def test_a_file_of_deletes_alone_leaves_nothing(tmp_path: Path) -> None:
    table = small_table(tmp_path, {}, "v")
    table.write(["k", "v"], [("-D", {"k": 2, "v": 2})])
    compact_all(table)
    assert levels_and_deletes(table) == []
    assert table.rows() == []


def test_deletes_with_a_sequence_field_stay_and_block_what_comes_late(tmp_path: Path) -> None:
    table = small_table(tmp_path, {"sequence.field": "s"}, "s")
    table.write(["k", "s"], [("-D", {"k": 1, "s": 9})])
    compact_all(table)
    assert levels_and_deletes(table) == [(5, 1, 1)]
    table.write(["k", "s"], [("+I", {"k": 1, "s": 3})])
    assert table.rows() == []
    compact_all(table)
    assert table.rows() == []


def test_deletes_stay_while_older_runs_are_below(tmp_path: Path) -> None:
    options = {"num-sorted-run.compaction-trigger": "3"}
    table = small_table(tmp_path, options, "v")
    table.write(["k", "v"], [("+I", {"k": k, "v": k}) for k in range(20_000)])
    compact_all(table)
    table.write(["k", "v"], [("-D", {"k": 7, "v": 7})])
    table.write(["k", "v"], [("-D", {"k": 8, "v": 7})])
    compact_all(table, full=False)
    assert levels_and_deletes(table) == [(2, 2, 2), (3, 20_000, 0)]
    assert len(table.rows()) == 19_998


def test_a_removal_is_not_merged_without_its_base(tmp_path: Path) -> None:
    """-D and a later +I would become a +I that forgets the removal (decision 0002)."""
    options = {
        "merge-engine": "partial-update",
        "partial-update.remove-record-on-delete": "true",
        "num-sorted-run.compaction-trigger": "3",
    }
    table = small_table(tmp_path, options, "a", "b")
    table.write(["k", "a", "b"], [("+I", {"k": k, "a": 1, "b": 1}) for k in range(20_000)])
    compact_all(table)
    table.write(["k", "a", "b"], [("-D", {"k": 7})])
    table.write(["k", "a", "b"], [("+I", {"k": 7, "a": 2})])
    compact_all(table, full=False)
    assert levels_and_deletes(table) == [(3, 20_000, 0)]
    assert table.rows()[7] == {"k": 7, "a": 2, "b": None}


def test_partial_update_with_a_sequence_field_is_only_moved(tmp_path: Path) -> None:
    """a=1 at 5, b=3 at 7, then a=9 at 6: a merged row has one place in the order only."""
    options = {
        "merge-engine": "partial-update",
        "sequence.field": "s",
        "num-sorted-run.compaction-trigger": "2",
    }
    table = small_table(tmp_path, options, "s", "a", "b")
    table.write(["k", "s", "a"], [("+I", {"k": 1, "s": 5, "a": 1})])
    table.write(["k", "s", "b"], [("+I", {"k": 1, "s": 7, "b": 3})])
    table.write(["k", "s", "a", "b"], [("+I", {"k": 2, "s": 1, "a": 8, "b": 8})])
    compact_all(table, full=False)
    assert [level for level, _, _ in levels_and_deletes(table)] == [0, 0, 0]
    compact_all(table)
    table.write(["k", "s", "a"], [("+I", {"k": 1, "s": 6, "a": 9})])
    compact_all(table)
    assert table.rows()[0] == {"k": 1, "s": 7, "a": 9, "b": 3}
    assert [level for level, _, _ in levels_and_deletes(table)] == [0, 0, 0, 2]


@pytest.mark.parametrize("columns", [["k", "a", "b"], ["k", "a"]], ids=len)
@pytest.mark.parametrize("level0", ["written", "all"])
def test_a_large_file_is_moved_unless_old_readers_need_more_columns(
    columns: list[str], level0: str, tmp_path: Path
) -> None:
    options = {"merge-engine": "partial-update", "target-file-size": "1b"}
    table = small_table(tmp_path, options, "a", "b")
    messages = table.write(columns, [("+I", {"k": 1, "a": 1, "b": 1})])
    name = messages[0].new_files[0].file_name
    table.schema = with_more_options(table.schema, {"widetable.level0-columns": level0})
    compact_all(table)
    assert (table.live_names() == {name}) == (level0 == "written" or len(columns) == 3)
    assert levels_and_deletes(table) == [(5, 1, 0)]


def test_a_file_that_does_not_count_its_deletes_is_rewritten(tmp_path: Path) -> None:
    """Only files of other clients lack the count; raw readers would take its deletes for rows."""
    table = small_table(tmp_path, {}, "v")
    table.write(["k", "v"], [("-D", {"k": 1, "v": 1}), ("+I", {"k": 2, "v": 2})])
    (files,) = table.buckets.values()
    files[0] = files[0]._replace(delete_row_count=None)
    compact_all(table)
    assert levels_and_deletes(table) == [(5, 1, 0)]


def test_output_is_cut_into_files_of_the_target_size(tmp_path: Path) -> None:
    options = {"target-file-size": "64kb", "num-levels": "3"}
    table = small_table(tmp_path, options, "v", "w")
    for start in range(2):
        rows = [("+I", {"k": k, "v": k * 7919, "w": k}) for k in range(start, 60_000, 2)]
        table.write(["k", "v", "w"], rows, batch_rows=100_000)
    compact_all(table)
    (files,) = table.buckets.values()
    assert len(files) > 3
    assert {file.level for file in files} == {2}
    assert sum(file.row_count for file in files) == 60_000
    assert sorted(file.file_size for file in files)[-1] < 3 * 64 * 1024


def test_rows_far_apart_in_keys_are_sections_of_their_own(tmp_path: Path) -> None:
    """Old large files outside of what is touched keep their bytes: cost follows the keys touched."""
    table = small_table(tmp_path, {"target-file-size": "1b"}, "v")
    table.write(["k", "v"], [("+I", {"k": k, "v": k}) for k in range(3)])
    compact_all(table)
    (files,) = table.buckets.values()
    kept = [file.file_name for file in files if file.min_key == files[2].min_key]
    table.write(["k", "v"], [("+I", {"k": 0, "v": 5})])
    compact_all(table)
    assert set(kept) <= table.live_names()
    assert [row["v"] for row in table.rows()] == [5, 1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("new_key", [0, 19_999])
def test_what_is_done_grows_with_the_work(tmp_path: Path, new_key: int) -> None:
    """One row is new, before or behind all others: older rows are most of the work."""
    table = small_table(tmp_path, {"write-buffer-size": "64kb"}, "v")
    table.write(["k", "v"], [("+I", {"k": k, "v": k}) for k in range(20_000)], 100_000)
    compact_all(table)
    table.write(["k", "v"], [("+I", {"k": new_key, "v": 7})])
    key, plan = full_plan(table)
    done: list[float] = []
    table.apply([compact_bucket(table.state, key, 1, plan, rows_done=done.append)])
    assert sum(done) == pytest.approx(1)
    assert max(done) < 0.2


def full_plan(table: TableFiles) -> tuple[BucketId, Plan]:
    ((key, files),) = table.buckets.items()
    plan = planned(table, files, full=True)
    assert plan
    return key, plan


@pytest.mark.parametrize("operation", ["open_output", "sync", "open_input"])
def test_a_failed_compaction_leaves_nothing_behind(tmp_path: Path, operation: str) -> None:
    file_io = FaultyFileIO(LocalFileIO(fsync=False))
    table = small_table(tmp_path, {"target-file-size": "1b"}, "v")
    table.file_io = file_io
    for v in range(3):
        table.write(["k", "v"], [("+I", {"k": k, "v": v}) for k in range(5)])
    key, plan = full_plan(table)
    before = table.names_on_disk()
    file_io.fail(operation, Fault.FULL, skip=2)
    with pytest.raises(StorageError):
        compact_bucket(table.state, key, 1, plan)
    file_io.heal()
    assert table.names_on_disk() == before
    assert [row["v"] for row in table.rows()] == [2] * 5


def test_discard_deletes_what_was_written_and_not_what_was_moved(tmp_path: Path) -> None:
    table = small_table(tmp_path, {"target-file-size": "1b"}, "v")
    table.write(["k", "v"], [("+I", {"k": 9, "v": 9})])
    for v in range(2):
        table.write(["k", "v"], [("+I", {"k": 1, "v": v})])
    before = table.names_on_disk()
    key, plan = full_plan(table)
    message = compact_bucket(table.state, key, 1, plan)
    assert len(message.written_files()) == 1
    assert len(message.compact_after) == 2
    discard(table.state, [message])
    assert table.names_on_disk() == before


@pytest.mark.parametrize(
    ("merge_engine", "is_zero"), [("partial-update", True), ("deduplicate", False)]
)
def test_the_base_of_mixed_rows_is_older_than_everything(
    tmp_path: Path, merge_engine: str, is_zero: bool
) -> None:
    """docs/decisions/0007, rule 2; deduplicate keeps whole records, so it keeps their numbers."""
    schema = pa.schema([("k", pa.int64()), ("a", pa.int64())])
    options = {"merge-engine": merge_engine, "write-only": "true"}
    table = wt.Catalog(str(tmp_path)).create_table(
        "d.t", schema, primary_key=["k"], options=options
    )
    for value in range(2):
        table.write(pa.table({"k": [1, 2 + value], "a": [value, value]}))
    table.compact(full=True)
    ((file,),) = [split.files for split in table.scan().splits()]
    assert (file.min_sequence_number == 0, file.max_sequence_number == 0) == (is_zero, is_zero)
