"""Expiry on real tables: what stays reads as before, what goes leaves nothing behind, readers are warned."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.models.kept_rows import (
    KeptRows,
    batch,
    create,
    expire_all,
    files_of,
    leftovers,
    lived_in_table,
    rows,
    write,
)
from tests.support.tables.fixture_tables import TABLES, FixtureTable
from widetable.acceptance.acceptance import Use, accept
from widetable.commit.holds.read_lease import hold
from widetable.commit.holds.retired_snapshots import RetiredSnapshots
from widetable.commit.notes.clock import SystemClock
from widetable.commit.snapshots.manifest_cache import MANIFEST_CACHE
from widetable.operations.history.expiry import expire
from widetable.operations.history.expiry_choice import Retention
from widetable.storage.local import LocalFileIO
from widetable.storage.paths import TablePaths

IO = LocalFileIO(fsync=False)


def ids(table: wt.Table) -> list[int]:
    return [snapshot.id for snapshot in table.snapshots()]


def paths(table: wt.Table) -> TablePaths:
    return TablePaths(table.path)


# What goes and what stays


def test_old_snapshots_go_and_their_files_with_them(tmp_path: Path) -> None:
    table = lived_in_table(tmp_path)
    kept, before = KeptRows.of(table), files_of(table)
    latest = ids(table)[-1]
    result = table.expire_snapshots(num_retained_min=3, time_retained_millis=0)
    assert result.ids == tuple(range(1, latest - 2))
    assert ids(table) == [latest - 2, latest - 1, latest]
    gone = before - files_of(table)
    assert len(gone) == result.files + len(result.ids)
    assert result.bytes > 0
    kept.check(table)
    assert leftovers(table) == set()
    assert IO.read(paths(table).earliest_hint) == str(latest - 2).encode()


def test_a_dry_run_removes_nothing(tmp_path: Path) -> None:
    table = lived_in_table(tmp_path)
    before = files_of(table)
    reported = table.expire_snapshots(num_retained_min=2, time_retained_millis=0, dry_run=True)
    assert files_of(table) == before
    assert table.expire_snapshots(num_retained_min=2, time_retained_millis=0).ids == reported.ids


@pytest.mark.parametrize("num_retained", [1, 2, 4, 7])
def test_any_number_may_stay(tmp_path: Path, num_retained: int) -> None:
    table = lived_in_table(tmp_path)
    kept = KeptRows.of(table)
    table.expire_snapshots(num_retained_min=num_retained, time_retained_millis=0)
    assert len(ids(table)) == num_retained
    kept.check(table)
    assert leftovers(table) == set()


def test_one_by_one_is_the_same_as_at_once(tmp_path: Path) -> None:
    whole, steps = lived_in_table(tmp_path / "a"), lived_in_table(tmp_path / "b")
    kept = KeptRows.of(steps)
    at_once = expire_all(whole)
    done = []
    while (result := expire_all(steps, limit=1)).ids:
        done.append(result)
        assert leftovers(steps) == set()
        if len(done) % 4 == 0:
            kept.check(steps)
    kept.check(steps)
    assert [id for each in done for id in each.ids] == list(at_once.ids)
    assert sum(each.files for each in done) == at_once.files
    assert len(files_of(whole)) == len(files_of(steps))


def test_nothing_to_do(tmp_path: Path) -> None:
    table = create(tmp_path)
    assert table.expire_snapshots() == wt.ExpiryResult((), 0, 0)
    write(table, 0)
    before = files_of(table)
    assert expire_all(table) == wt.ExpiryResult((), 0, 0)
    assert files_of(table) == before


def test_the_tables_options_decide(tmp_path: Path) -> None:
    options = {
        "snapshot.num-retained.min": "2",
        "snapshot.num-retained.max": "4",
        "snapshot.expire.limit": "3",
    }
    table = lived_in_table(tmp_path, options)
    first, last = ids(table)[0], ids(table)[-1]
    assert table.expire_snapshots().ids == (first, first + 1, first + 2)
    while table.expire_snapshots().ids:
        pass
    assert ids(table) == list(range(last - 3, last + 1)), "the rest is younger than an hour"


def test_a_table_that_keeps_writing_stays_small(tmp_path: Path) -> None:
    """Snapshots and files do not grow with the number of commits."""
    table = create(tmp_path)
    sizes = []
    for number in range(14):
        write(table, number)
        table.expire_snapshots(num_retained_min=2, time_retained_millis=0)
        assert leftovers(table) == set()
        sizes.append(len(files_of(table)))
    assert max(sizes) < 35


@pytest.mark.parametrize("producer", ["none", "input", "lookup", "full-compaction"])
def test_changelogs_go_with_their_snapshots(tmp_path: Path, producer: str) -> None:
    table = lived_in_table(tmp_path, {"changelog-producer": producer})
    kept = KeptRows.of(table)
    first, last = ids(table)[0], ids(table)[-1]
    begin = last - 4
    changes = table.changes(begin, last)
    assert begin > first
    table.expire_snapshots(num_retained_min=4, time_retained_millis=0)
    kept.check(table)
    assert leftovers(table) == set()
    assert table.changes(begin, last).equals(changes)
    with pytest.raises(wt.NotFoundError):
        table.changes(begin - 1, last)


def test_altered_and_unpartitioned_tables(tmp_path: Path) -> None:
    catalog = wt.Catalog(str(tmp_path))
    table = catalog.create_table(
        "db.t",
        pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("a", pa.int64())]),
        primary_key=["k"],
        options={"widetable.fsync": "false", "merge-engine": "partial-update"},
    )
    for number in range(12):
        table.write(pa.table({"k": [1, 2], "a": [number, number]}))
        if number == 6:
            table = catalog.alter_table("db.t", add_columns=[pa.field("b", pa.string())])
    kept = KeptRows.of(table)
    table.expire_snapshots(num_retained_min=2, time_retained_millis=0)
    kept.check(table)
    assert leftovers(table) == set()


WRITABLE = [table for table in TABLES if table.path.name != "first_row"]


@pytest.mark.parametrize("fixture", WRITABLE, ids=lambda table: table.id)
def test_tables_of_other_clients(tmp_path: Path, fixture: FixtureTable) -> None:
    """Their names, hints, manifests and changelogs."""
    copy = tmp_path / "fx.db" / fixture.path.name
    shutil.copytree(fixture.path, copy)
    table = wt.Table.open(str(copy))
    try:
        accept(table.schema, Use.MAINTAIN)
    except wt.UnsupportedError:
        before = files_of(table)
        for call in (table.expire_snapshots, table.remove_orphan_files):
            with pytest.raises(wt.UnsupportedError):
                call()
        assert files_of(table) == before
        return
    assert leftovers(table) == set(), "every file of theirs is named"
    kept = KeptRows.of(table)
    while expire_all(table, limit=2).ids:
        kept.check(table)
        assert leftovers(table) == set()
    assert ids(table)[0] == min([ids(table)[-1], *table.consumers().values()])
    write_again = pa.Table.from_pylist(
        table.scan().to_arrow().slice(0, 1).to_pylist(), table.arrow_schema
    )
    assert table.write(write_again).committed


# Tags


def test_tags_keep_their_rows_until_they_are_deleted(tmp_path: Path) -> None:
    table = lived_in_table(tmp_path)
    kept = KeptRows.of(table)
    expire_all(table)
    kept.check(table)
    assert set(table.tags()) == {"early", "late"}
    for name in ("early", "late"):
        table.delete_tag(name)
        assert leftovers(table), name
        table.remove_orphan_files(older_than_millis=0)
        kept.check(table)
        assert leftovers(table) == set()
    latest = table.snapshots()[-1]
    assert len(list(Path(table.path).rglob("data-*"))) <= latest.total_record_count


def test_a_tag_of_a_snapshot_that_expired_before_keeps_its_files(tmp_path: Path) -> None:
    """The tag is older than all that expires now."""
    table = create(tmp_path)
    write(table, 0)
    table.create_tag("first")
    table.compact(full=True)
    kept = KeptRows.of(table)
    for number in range(1, 6):
        write(table, number)
        expire_all(table)
        kept.check(table)
        assert leftovers(table) == set()


def test_a_tag_of_an_expired_snapshot_is_refused(tmp_path: Path) -> None:
    table = lived_in_table(tmp_path)
    expire_all(table)
    with pytest.raises(wt.NotFoundError):
        table.create_tag("too-late", 1)
    assert "too-late" not in table.tags()


def test_a_tag_that_lost_files_stops_expiry_and_is_named(tmp_path: Path) -> None:
    table = lived_in_table(tmp_path)
    table.expire_snapshots(num_retained_min=3, time_retained_millis=0)
    IO.delete(paths(table).manifest(table.tags()["late"].delta_manifest_list))
    MANIFEST_CACHE.clear()
    with pytest.raises(wt.DamagedError, match="late"):
        expire_all(table)
    with pytest.raises(wt.DamagedError, match="late"):
        table.remove_orphan_files(older_than_millis=0)
    table.delete_tag("late")
    expire_all(table)
    table.remove_orphan_files(older_than_millis=0)
    assert rows(table)


# Exactly once, and what commits remember


def test_a_commit_counts_once_though_its_snapshot_expired(tmp_path: Path) -> None:
    table = lived_in_table(tmp_path)
    expected = rows(table)
    expire_all(table)
    assert not write(table, 7).committed
    for number in range(7):
        with pytest.raises(wt.InvalidError, match=f"commit {number} of the user 'stream'"):
            write(table, number)
        assert not write(table, number, replay=True).committed
    assert rows(table) == expected
    assert write(table, 8).committed


def test_sequence_numbers_go_on(tmp_path: Path) -> None:
    table = lived_in_table(tmp_path)
    before = table.sequence_base()
    expire_all(table)
    assert table.sequence_base() > before
    write(table, 8)
    newest = batch(8).to_pylist()
    assert [row for row in table.scan().to_arrow().to_pylist() if row["v"].startswith("8/")] == [
        row for row in table.scan().to_arrow().to_pylist() if row in newest
    ]


# Leftovers of other lives


def test_a_copy_of_a_snapshot_that_stays_is_withdrawn(tmp_path: Path) -> None:
    """An expiry was killed before it removed a snapshot, which a consumer then needs."""
    table = lived_in_table(tmp_path)
    killed = RetiredSnapshots(IO, paths(table))
    assert killed.note(3)
    IO.replace(paths(table).consumer("c"), b'{"nextSnapshot": 3}')
    with pytest.raises(wt.NotFoundError):
        hold(IO, paths(table), 3, 1000)
    assert expire_all(table).ids == (1, 2)
    assert killed.is_noted(3), "somebody may be about to act on it"
    expire(
        table._state(table.schema), table._committer, Retention(1, 2_147_483_647, 0, 1000), Later()
    )
    assert hold(IO, paths(table), 3, 1000).snapshot_id == 3


def notes_of(table: wt.Table) -> list[str]:
    """The files that expiry leaves beside those that every table has."""
    usual = {
        paths(table).had_snapshots_mark,
        paths(table).commit_queue,
        paths(table).compaction_queue,
    }
    found = (f"{paths(table).service_dir}/{name}" for name in os.listdir(paths(table).service_dir))
    return [os.path.basename(path) for path in found if path not in usual]


class Later(SystemClock):
    """In twelve minutes: times of names cannot be set back as those of bytes can."""

    def now_nanos(self) -> int:
        return super().now_nanos() + 720 * 10**9


def test_a_note_of_another_life_of_the_table_does_no_harm(tmp_path: Path) -> None:
    """The table was rolled back, and the id given out again."""
    table = lived_in_table(tmp_path)
    kept = KeptRows.of(table)
    foreign = replace(table.snapshots()[-1], id=2).to_json()
    IO.write_new(paths(table).retired_snapshot(2), foreign.encode())
    IO.write_new(paths(table).retired_snapshot(999), foreign.encode())
    table.expire_snapshots(num_retained_min=2, time_retained_millis=0)
    kept.check(table)
    assert leftovers(table) == set()
    assert notes_of(table) == []


def test_the_note_of_an_expiry_is_not_that_of_another(tmp_path: Path) -> None:
    """One takes its note back while another is about to act on its own: readers are still refused."""
    table = lived_in_table(tmp_path)
    one, other = RetiredSnapshots(IO, paths(table)), RetiredSnapshots(IO, paths(table))
    assert one.note(3)
    assert other.note(3)
    one.withdraw_own()
    with pytest.raises(wt.NotFoundError):
        hold(IO, paths(table), 3, 1000)
    other.withdraw_own()
    assert hold(IO, paths(table), 3, 1000).snapshot_id == 3


def test_notes_are_names_of_the_snapshots_own_bytes(tmp_path: Path) -> None:
    table = lived_in_table(tmp_path)
    assert RetiredSnapshots(IO, paths(table)).note(1)
    (note,) = notes_of(table)
    assert os.path.samefile(f"{paths(table).service_dir}/{note}", paths(table).snapshot(1))


def test_an_expiry_of_another_client_that_did_not_end(tmp_path: Path) -> None:
    """It deletes files first, snapshots last: what it left is removed, and the rest stays whole."""
    table = lived_in_table(tmp_path)
    kept = KeptRows.of(table)
    expired = lived_in_table(tmp_path / "expired")
    expired.expire_snapshots(num_retained_min=4, time_retained_millis=0)
    gone = files_of(table) - files_of(expired)
    for name in gone:
        if not name.startswith("snapshot/"):
            IO.delete(f"{table.path}/{name}")
    MANIFEST_CACHE.clear()
    with pytest.raises(wt.DamagedError):
        table.remove_orphan_files(older_than_millis=0)
    table.expire_snapshots(num_retained_min=4, time_retained_millis=0)
    assert files_of(table) == files_of(expired)
    kept.check(table)
    expire_all(table)
    kept.check(table)
    assert leftovers(table) == set()


def test_an_unreadable_copy_does_not_stop_expiry(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = lived_in_table(tmp_path)
    table.expire_snapshots(num_retained_min=4, time_retained_millis=0)
    kept = KeptRows.of(table)
    IO.write_new(paths(table).retired_snapshot(1), b"torn")
    expire_all(table)
    kept.check(table)
    assert "remove_orphan_files" in caplog.text
    assert notes_of(table) == []


# Refused


@pytest.mark.parametrize(
    "options",
    [
        {"changelog.num-retained.min": "100"},
        {"changelog.num-retained.max": "100"},
        {"changelog.time-retained": "10 d"},
    ],
    ids=lambda options: next(iter(options)),
)
def test_tables_that_keep_their_changelog_longer(
    tmp_path: Path, options: Mapping[str, str]
) -> None:
    table = lived_in_table(tmp_path)
    table = with_options(table, options)
    with pytest.raises(wt.UnsupportedError, match=next(iter(options))):
        expire_all(table)
    assert ids(table)[0] == 1


def with_options(table: wt.Table, options: Mapping[str, str]) -> wt.Table:
    """The table with options that another client wrote."""
    path = f"{table.path}/schema/schema-0"
    body: dict[str, Any] = json.loads(IO.read(path))
    body["options"] |= options
    IO.replace(path, json.dumps(body).encode())
    return wt.Table.open(table.path)


def test_a_retention_that_contradicts_itself(tmp_path: Path) -> None:
    table = lived_in_table(tmp_path)
    with pytest.raises(wt.InvalidError):
        table.expire_snapshots(num_retained_min=3, num_retained_max=2)
    with pytest.raises(wt.InvalidError):
        table.expire_snapshots(num_retained_min=0)
