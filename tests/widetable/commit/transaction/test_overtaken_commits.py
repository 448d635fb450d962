"""Commits that others overtook: what was committed later is later, and who does not meet them keeps its files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.faults.faults import Fault, FaultyFileIO
from tests.support.models.changelog_follower import Follower, changes_of
from tests.support.models.overtaken import (
    PARTIAL,
    SCHEMA,
    SHAPES,
    Overtaken,
    Row,
    Shape,
    rows,
    written,
)
from tests.support.models.plain_rows import python_rows
from tests.support.tables.barrier_tables import new_table
from widetable.commit.snapshots.manifest_cache import MANIFEST_CACHE
from widetable.errors import StorageError
from widetable.operations.barriers.barrier_writer import BarrierWriter
from widetable.storage.local import LocalFileIO
from widetable.write.commit_message import CommitMessage

IO = LocalFileIO(fsync=False)
WRITE_ONLY = {"write-only": "true"}
# Who compacts between the commits of B and A: the options of the table, and what is done there.
COMPACTORS: dict[str, tuple[dict[str, str], Callable[[wt.Table], None]]] = {
    "nobody": (WRITE_ONLY, lambda table: None),
    "its own writers": ({"num-sorted-run.compaction-trigger": "2"}, lambda table: None),
    "the other's handle": (WRITE_ONLY, lambda table: compact(table, full=False)),
    "a compactor": (WRITE_ONLY, lambda table: compact(wt.Table.open(table.path), full=True)),
}


def compact(table: wt.Table, *, full: bool) -> None:
    table.compact(full=full)


def found_in(table: wt.Table) -> list[Row]:
    table.wait_for_compactions()
    found: list[Row] = table.scan().to_arrow().to_pylist()
    return found


@pytest.mark.parametrize("compactor", COMPACTORS)
@pytest.mark.parametrize("shape", SHAPES)
def test_rows_are_those_of_the_order_of_commits(tmp_path: Path, shape: str, compactor: str) -> None:
    options, between = COMPACTORS[compactor]
    played = Overtaken(SHAPES[shape], wt.Catalog(str(tmp_path), file_io=IO), between, options)
    table = played.play()
    if "first-row" in shape:
        table.compact(full=True)  # Paimon's readers see only what is compacted
    assert found_in(table) == played.expected()
    table.compact(full=True)
    assert found_in(table) == played.expected()
    report = table.audit()
    assert report.ok, report


@pytest.mark.parametrize("compactor", COMPACTORS)
@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_changelog_makes_the_same_rows(
    tmp_path: Path, shape: str, producer: str, compactor: str
) -> None:
    if "first-row" in shape and producer != "lookup":
        return  # the engine takes no other producer
    options, between = COMPACTORS[compactor]
    options = {**options, "changelog-producer": producer}
    played = Overtaken(SHAPES[shape], wt.Catalog(str(tmp_path), file_io=IO), between, options)
    table = played.play()
    table.compact(full=True)
    table.wait_for_compactions()
    follower = Follower(table.schema)
    for snapshot in table.snapshots():
        follower.apply(changes_of(table, snapshot.id - 1, snapshot.id))
    follower.check(python_rows(table.scan().to_arrow()))
    assert found_in(table) == played.expected()


# Who does not depend on the order keeps its files.

KEPT: dict[str, tuple[Shape, int]] = {
    "own columns": (Shape(PARTIAL, {"a": 1}, {"b": 2}, {"a": 1, "b": 2}), 1),
    "another key": (Shape({}, {"a": 1}, {"a": 2}, {"a": 1}), 2),
    "sums": (
        Shape(
            {"merge-engine": "aggregation", "fields.a.aggregate-function": "sum"},
            {"a": 1},
            {"a": 2},
            {"a": 3},
        ),
        1,
    ),
    "the largest one of a group": (
        Shape(
            PARTIAL | {"fields.s.sequence-group": "a", "fields.a.aggregate-function": "max"},
            {"s": 1, "a": 1},
            {"s": 2, "a": 2},
            {"s": 2, "a": 2},
        ),
        1,
    ),
}


@pytest.mark.parametrize("kept", KEPT)
def test_files_whose_order_does_not_count_are_not_written_again(tmp_path: Path, kept: str) -> None:
    shape, key = KEPT[kept]
    file_io = FaultyFileIO(IO)
    table = wt.Catalog(str(tmp_path), file_io=file_io).create_table(
        "db.t", SCHEMA, primary_key=["k"], options={**WRITE_ONLY, **shape.options}
    )
    late = written(table, rows(shape.late, key))
    table.write(rows(shape.overtaking))
    before = file_io.count("open_output", "/data-")
    table.commit_append(late)
    assert file_io.count("open_output", "/data-") == before
    if key == 1:
        assert found_in(table) == [dict.fromkeys(SCHEMA.names) | {"k": 1} | (shape.expected or {})]


def test_a_commit_that_nobody_overtook_reads_nothing_of_others(tmp_path: Path) -> None:
    file_io = FaultyFileIO(IO)
    table = wt.Catalog(str(tmp_path), file_io=file_io).create_table(
        "db.t", SCHEMA, primary_key=["k"], options=WRITE_ONLY
    )
    table.write(rows({"a": 1}))
    late = written(table, rows({"a": 2}))
    file_io.log.clear()
    table.commit_append(late)
    assert file_io.count("open_input", "/data-") == 0
    assert file_io.count("open_output", "/data-") == 0


@pytest.mark.parametrize(("column", "reads"), [("b", False), ("a", True)])
def test_snapshots_alone_say_that_others_wrote_other_columns(
    tmp_path: Path, column: str, reads: bool
) -> None:
    file_io = FaultyFileIO(IO)
    catalog = wt.Catalog(str(tmp_path), file_io=file_io)
    options = {**WRITE_ONLY, **PARTIAL}
    table = catalog.create_table("db.t", SCHEMA, primary_key=["k"], options=options)
    table.write(rows({"a": 0}))
    late = written(table, rows({"a": 1}))
    other = wt.Catalog(str(tmp_path), file_io=IO).table("db.t")
    for value in range(3):
        other.write(rows({column: value}))
    other.compact(full=True)
    file_io.log.clear()
    MANIFEST_CACHE.clear()
    table.commit_append(late)
    assert bool(file_io.count("read", "/manifest-") - file_io.count("read", "-list-")) == reads


# What is left on disk.


def live_names(table: wt.Table) -> set[str]:
    latest = table._committer.snapshots.latest()
    entries = table._committer.live_files.live_entries(latest)
    return {entry.file.file_name for entry in entries}


def data_names(table: wt.Table) -> set[str]:
    return {path.name for path in Path(table.path).glob("bucket-*/*")}


def test_the_given_files_go_when_the_copies_are_in(tmp_path: Path) -> None:
    played = Overtaken(
        SHAPES["deduplicate, upserts"], wt.Catalog(str(tmp_path), file_io=IO), options=WRITE_ONLY
    )
    table = played.play()
    assert data_names(table) == live_names(table)


def raced(tmp_path: Path, losses: int) -> tuple[wt.Table, FaultyFileIO, list[CommitMessage]]:
    """An overtaken commit that loses its first races to others of the same key."""
    file_io = FaultyFileIO(IO)
    played = Overtaken(
        SHAPES["deduplicate, upserts"],
        wt.Catalog(str(tmp_path), file_io=file_io),
        options=WRITE_ONLY,
    )
    table = played.begin()
    other = wt.Catalog(str(tmp_path), file_io=IO).table("db.t")
    file_io.run_before("publish", lambda: other.write(rows({"a": 7})), "snapshot-", times=losses)
    return table, file_io, list(played.late)


def test_the_copies_of_lost_attempts_go(tmp_path: Path) -> None:
    table, _, late = raced(tmp_path, losses=3)
    result = table.commit_append(late)
    assert result.retries == 3
    assert [row["a"] for row in found_in(table)] == [1]
    assert data_names(table) == live_names(table)


def test_the_copies_of_a_refused_commit_go_and_the_given_files_stay(tmp_path: Path) -> None:
    table, file_io, late = raced(tmp_path, losses=0)
    before = data_names(table)
    file_io.fail("write_new", Fault.BEFORE, "/manifest-")
    with pytest.raises(StorageError):
        table.commit_append(late)
    assert data_names(table) == before
    table.commit_append(late)
    assert [row["a"] for row in found_in(table)] == [1]


@pytest.mark.parametrize("went_through", [True, False])
def test_a_commit_whose_answer_was_lost_is_found_again_by_content(
    tmp_path: Path, went_through: bool
) -> None:
    """Though its numbers, and with them its files, are others than the caller's."""
    table, file_io, late = raced(tmp_path, losses=0)
    fault = Fault.AFTER if went_through else Fault.BEFORE
    file_io.fail("publish", fault, "snapshot-")
    file_io.fail("read", Fault.BEFORE, "snapshot-2", times=100)
    with pytest.raises(StorageError, match="same user and identifier"):
        table.commit_append(late, "job", 1, digest="d")
    file_io.heal()
    again = wt.Catalog(str(tmp_path), file_io=IO).table("db.t")
    result = again.commit_append(late, "job", 1, digest="d")
    assert result.committed is not went_through
    assert [row["a"] for row in found_in(again)] == [1]
    again.remove_orphan_files(older_than_millis=0)
    assert data_names(again) == live_names(again)


def test_a_column_that_was_renamed_meanwhile_is_still_the_same_one(tmp_path: Path) -> None:
    catalog = wt.Catalog(str(tmp_path), file_io=IO)
    table = catalog.create_table(
        "db.t", SCHEMA, primary_key=["k"], options={**WRITE_ONLY, **PARTIAL}
    )
    late = written(table, rows({"a": 1}))
    altered = catalog.alter_table("db.t", rename_columns={"a": "x"})
    altered.write(pa.table({"k": [1], "x": [2]}))
    altered.commit_append(late)
    assert [row["x"] for row in found_in(altered)] == [1]
    altered.compact(full=True)
    assert [row["x"] for row in found_in(altered)] == [1]


def test_what_another_client_published_counts_as_any_column(tmp_path: Path) -> None:
    """Its snapshots do not say which columns they hold."""
    file_io = FaultyFileIO(IO)
    played = Overtaken(
        Shape(PARTIAL, {"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
        wt.Catalog(str(tmp_path), file_io=file_io),
        options=WRITE_ONLY,
    )
    table = played.begin()
    snapshot = Path(table.path, "snapshot", "snapshot-1")
    snapshot.write_text(snapshot.read_text().replace('"widetable.columns"', '"theirs"'))
    before = file_io.count("open_output", "/data-")
    wt.Catalog(str(tmp_path), file_io=file_io).table("db.t").commit_append(played.late)
    assert file_io.count("open_output", "/data-") == before + 1
    assert found_in(table) == played.expected()


def test_where_older_snapshots_have_expired_all_live_files_are_looked_at(tmp_path: Path) -> None:
    catalog = wt.Catalog(str(tmp_path), file_io=IO)
    table = catalog.create_table("db.t", SCHEMA, primary_key=["k"], options=WRITE_ONLY)
    late = written(table, rows({"a": 1}))
    for value in range(2, 6):
        table.write(rows({"a": value}))
    table.expire_snapshots(num_retained_min=1, time_retained_millis=0)
    assert [snapshot.id for snapshot in table.snapshots()] == [4]
    table.commit_append(late)
    assert [row["a"] for row in found_in(table)] == [1]


# Where the chain of snapshots is another one by the time of the commit.


def test_what_came_by_a_fast_forward_is_earlier(tmp_path: Path) -> None:
    catalog = wt.Catalog(str(tmp_path), file_io=IO)
    table = catalog.create_table("db.t", SCHEMA, primary_key=["k"], options=WRITE_ONLY)
    table.write(rows({"a": 0}))
    table.create_tag("start")
    table.create_branch("b", tag="start")
    late = written(table, rows({"a": 1}))
    branch = wt.Table.open(table.path, branch="b", file_io=IO)
    branch.write(rows({"a": 2}))
    table.fast_forward("b")
    table.commit_append(late)
    assert [row["a"] for row in found_in(table)] == [1]
    assert [row["a"] for row in found_in(branch)] == [2]


def test_writers_of_a_branch_do_not_overtake_those_of_main(tmp_path: Path) -> None:
    file_io = FaultyFileIO(IO)
    catalog = wt.Catalog(str(tmp_path), file_io=file_io)
    table = catalog.create_table("db.t", SCHEMA, primary_key=["k"], options=WRITE_ONLY)
    table.write(rows({"a": 0}))
    table.create_tag("start")
    table.create_branch("b", tag="start")
    late = written(table, rows({"a": 1}))
    wt.Table.open(table.path, branch="b", file_io=file_io).write(rows({"a": 2}))
    before = file_io.count("open_output", "/data-")
    table.commit_append(late)
    assert file_io.count("open_output", "/data-") == before
    assert [row["a"] for row in found_in(table)] == [1]


def test_what_a_rollback_put_back_is_earlier(tmp_path: Path) -> None:
    catalog = wt.Catalog(str(tmp_path), file_io=IO)
    table = catalog.create_table("db.t", SCHEMA, primary_key=["k"], options=WRITE_ONLY)
    late = written(table, rows({"a": 1}))
    table.write(rows({"a": 2}))
    table.write(rows({"a": 3}))
    table.rollback(1)
    table.commit_append(late)
    assert [row["a"] for row in found_in(table)] == [1]


def test_rows_that_were_moved_to_other_buckets_are_earlier(tmp_path: Path) -> None:
    catalog = wt.Catalog(str(tmp_path), file_io=IO)
    table = catalog.create_table("db.t", SCHEMA, primary_key=["k"], options=WRITE_ONLY)
    late = written(table, rows({"a": 1}))
    table.write(rows({"a": 2}))
    table.rescale(3)
    table.commit_append(late)
    assert [row["a"] for row in found_in(table)] == [1]
    assert live_names(table) < data_names(table)  # those of the first snapshot, and no others
    assert len(data_names(table)) == 3


@pytest.mark.parametrize("compacts", [False, True])
def test_under_barriers_a_removal_that_overtook_is_earlier(tmp_path: Path, compacts: bool) -> None:
    """Two writers with a column each; B removes the row while A's rows are on their way."""
    table = new_table(tmp_path, partial_update__remove_record_on_delete="true")
    one = BarrierWriter(table, "a", ["a"])
    other = BarrierWriter(table, "b", ["b"])
    one.write({"id": [1], "a": [1]}, barrier=10)

    def on_their_way() -> Iterator[pa.Table]:
        yield pa.table({"id": [2], "a": [2]})  # its numbers are taken before the second batch
        other.write({"id": [1], "_row_kind": ["-D"]}, barrier=10)
        if compacts:
            table.compact(full=True)
        yield pa.table({"id": [1], "a": [2]})

    one.write(on_their_way(), barrier=10)
    expected = [{"id": id, "a": 2, "b": None, "c": None} for id in (1, 2)]
    assert table.scan().to_arrow().to_pylist() == expected
