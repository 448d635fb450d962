"""A repair takes damaged files out, keeps what can be read, and says exactly what is gone."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.faults.broken_files import BREAKS, break_file
from tests.support.faults.faults import WRITES, Fault, FaultyFileIO
from tests.widetable.operations.health.damaged_table import (
    create,
    damage_group,
    live,
    path_of,
    rows,
    spoil_group,
    values,
)
from widetable.format import data_file_writer
from widetable.format.data_file_reader import DataFile
from widetable.format.footer_seal import Seal
from widetable.format.manifest_entry import ManifestEntry
from widetable.operations.health.salvage import salvage
from widetable.storage.local import LocalFileIO


@pytest.fixture(params=["none", "lookup"])
def table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> wt.Table:
    return create(tmp_path, monkeypatch, **{"changelog-producer": request.param})


def only_older_snapshots_name(table: wt.Table, damaged: ManifestEntry) -> None:
    """An audit finds nothing wrong but the damaged file in the snapshots before the repair."""
    found = {(finding.law, finding.file) for finding in table.audit().findings}
    assert found == {("file", damaged.file.file_name)}


@pytest.mark.parametrize("how", BREAKS)
def test_a_file_goes_and_its_older_rows_come_back(
    table: wt.Table, how: str, rng: random.Random
) -> None:
    table.write(rows("old"), "one", 1)
    table.write(rows("new"), "two", 7)
    newest = max(
        (e for e in live(table) if e.bucket == 0), key=lambda e: e.file.max_sequence_number
    )
    whole = values(table)
    break_file(path_of(table, newest), how, rng)
    done = table.repair()
    (file,) = done.files
    assert file.damage.path == str(path_of(table, newest))
    assert (file.damage.bucket, file.damage.rows) == (0, newest.file.row_count)
    assert [(c.snapshot_id, c.user, c.identifier) for c in file.origin.commits] == [(2, "two", 7)]
    assert file.origin.is_complete
    assert file.kept_rows + file.lost_rows == newest.file.row_count
    found = values(table)
    assert found.keys() == whole.keys()
    changed = [k for k, value in whole.items() if found[k] != value]
    assert len(changed) == file.lost_rows
    assert {found[k] for k in changed} == {f"old{k}" for k in changed}
    table.compact(full=True)
    assert values(table) == found
    assert table.doctor(deep=True).ok
    only_older_snapshots_name(table, newest)


def test_all_row_groups_but_the_damaged_one_are_kept(table: wt.Table) -> None:
    table.write(rows("a"), "one", 1)
    table.write(rows("b", range(50)), "two", 2)
    table.compact(full=True)
    entry = next(e for e in live(table) if e.bucket == 1)
    whole = values(table)
    keys = damage_group(path_of(table, entry), 2)
    before = table.repair(dry_run=True)
    assert before.snapshot_id is None
    assert [snapshot.id for snapshot in table.snapshots()] == [1, 2, 3]
    done = table.repair()
    assert done.files == before.files
    (file,) = done.files
    (lost,) = file.lost
    assert lost.rows == len(keys) == file.lost_rows
    assert (lost.first_key, lost.last_key) == ({"k": min(keys)}, {"k": max(keys)})
    assert [commit.snapshot_id for commit in file.origin.commits] == [1, 2]
    assert values(table) == {k: v for k, v in whole.items() if k not in keys}
    kept = [e.file for e in live(table) if e.bucket == 1]
    assert {one.level for one in kept} == {entry.file.level}
    assert sum(one.row_count for one in kept) == entry.file.row_count - len(keys)
    only_older_snapshots_name(table, entry)


def test_level_0_stays_narrow_and_keeps_its_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create(tmp_path, monkeypatch, **{"merge-engine": "partial-update"})
    table.write(rows("a"))
    table.write(rows("b").select(["k"]))
    narrow = max(
        (e for e in live(table) if e.bucket == 0), key=lambda e: e.file.max_sequence_number
    )
    whole = values(table)
    damage_group(path_of(table, narrow), 0)
    table.repair()
    new = max((e for e in live(table) if e.bucket == 0), key=lambda e: e.file.max_sequence_number)
    assert new.file.level == 0
    assert new.file.file_name != narrow.file.file_name
    assert new.file.max_sequence_number == narrow.file.max_sequence_number
    assert new.file.min_sequence_number > narrow.file.min_sequence_number
    assert values(table) == whole


def test_nothing_is_committed_when_nothing_is_damaged(table: wt.Table) -> None:
    assert table.repair().snapshot_id is None
    table.write(rows("a"))
    assert table.repair() == table.repair(dry_run=True)
    assert [snapshot.id for snapshot in table.snapshots()] == [1]


def test_a_file_of_another_bucket_in_its_place_is_damage(table: wt.Table) -> None:
    table.write(rows("a"))
    one, other = (next(e for e in live(table) if e.bucket == b) for b in (0, 1))
    data = path_of(table, other).read_bytes()
    size = one.file.file_size
    path_of(table, one).write_bytes(data[:size].ljust(size, b"\0"))
    done = table.repair()
    assert [file.damage.bucket for file in done.files] == [0]
    assert all(found == f"a{k}" for k, found in values(table).items())


@pytest.mark.parametrize("other", ["of an older commit", "of another bucket"])
def test_a_whole_file_of_other_rows_keeps_none(table: wt.Table, other: str) -> None:
    """Size and number of rows made to fit: nothing but its rows shows that it is another file."""
    for value in "ab":
        table.write(rows(value))
    entries = sorted(live(table), key=lambda e: (e.bucket, -e.file.max_sequence_number))
    (newest, older), (elsewhere, _) = entries[:2], entries[2:]
    source = older if other == "of an older commit" else elsewhere
    data = path_of(table, source).read_bytes()
    path_of(table, newest).write_bytes(data)
    meta = newest.file._replace(file_size=len(data), row_count=source.file.row_count)
    if other == "of another bucket":
        meta = meta._replace(min_key=source.file.min_key, max_key=source.file.max_key)
    state = table._state(table.schema)
    found = salvage(state, newest._replace(file=meta), dry_run=False)
    assert (found.files, found.kept_rows) == ((), 0)
    assert sum(lost.rows for lost in found.lost) == source.file.row_count


def test_a_file_that_the_storage_refuses_is_left_alone(table: wt.Table) -> None:
    table.write(rows("a"))
    name = live(table)[0].file.file_name
    storage = FaultyFileIO(LocalFileIO(fsync=False))
    storage.fail("open_input", Fault.BEFORE, name, times=99)
    with pytest.raises(wt.StorageError, match=name):
        wt.Table(table.path, storage).repair()
    assert [snapshot.id for snapshot in table.snapshots()] == [1]


def test_a_commit_that_is_faster_is_kept(table: wt.Table) -> None:
    table.write(rows("a"))
    path_of(table, live(table)[0]).unlink()
    storage = FaultyFileIO(LocalFileIO(fsync=False))
    storage.run_before(
        "publish",
        lambda: wt.Table(table.path, LocalFileIO(fsync=False)).write(rows("b")),
        "snapshot-2",
    )
    done = wt.Table(table.path, storage).repair()
    assert done.snapshot_id == 3
    assert set(values(table).values()) == {f"b{k}" for k in range(100)}


def test_a_repair_that_lost_its_files_to_another_commit_leaves_none_of_its_own(
    table: wt.Table,
) -> None:
    table.write(rows("a"))
    damage_group(path_of(table, live(table)[0]), 1)
    storage = FaultyFileIO(LocalFileIO(fsync=False))
    other = wt.Table(table.path, LocalFileIO(fsync=False))
    storage.run_before("publish", lambda: other.overwrite(rows("b")), "snapshot-2")
    assert wt.Table(table.path, storage).repair().snapshot_id is None
    assert storage.count("open_output", "/bucket-") == 1
    assert table.remove_orphan_files(0, dry_run=True).paths == ()
    assert set(values(table).values()) == {f"b{k}" for k in range(100)}


def test_lost_rows_are_said_in_the_log(table: wt.Table, caplog: pytest.LogCaptureFixture) -> None:
    table.write(rows("a"))
    path = path_of(table, live(table)[0])
    lost = len(damage_group(path, 1))
    table.repair(dry_run=True)
    assert "rows lost" not in caplog.text
    table.repair()
    assert f"repaired, {lost} rows lost: {path}" in caplog.text


def test_what_was_written_before_expiry_is_said_to_be_unknown(table: wt.Table) -> None:
    table.write(rows("a"))
    table.write(rows("b"))
    table.expire_snapshots(num_retained_min=1, num_retained_max=1, time_retained_millis=0)
    path_of(table, min(live(table), key=lambda e: e.file.max_sequence_number)).write_bytes(b"")
    (file,) = table.repair().files
    assert file.origin.commits == ()
    assert not file.origin.is_complete


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER, Fault.FULL])
@pytest.mark.parametrize("operation", WRITES)
def test_whatever_fails_a_repair_can_be_done_again(
    table: wt.Table, operation: str, fault: Fault
) -> None:
    table.write(rows("a"))
    entry = live(table)[0]
    whole = values(table)
    keys = damage_group(path_of(table, entry), 1)
    storage = FaultyFileIO(LocalFileIO(fsync=False))
    storage.fail(operation, fault)
    with contextlib.suppress(wt.StorageError):
        wt.Table(table.path, storage).repair()
    table.repair()
    assert values(table) == {k: v for k, v in whole.items() if k not in keys}
    assert table.doctor(deep=True).ok


def test_a_footer_with_a_wrong_bit_is_not_believed(tmp_path: Path) -> None:
    """It would say that the values of a are those of c, or at another time: no page shows that."""
    schema = pa.schema(
        [pa.field("k", pa.int64(), nullable=False), ("a", pa.int64()), ("c", pa.int64())]
    )
    table = wt.Catalog(str(tmp_path)).create_table(
        "d.t",
        schema,
        primary_key=["k"],
        options={"merge-engine": "partial-update", "write-only": "true"},
    )
    table.write(pa.table({"k": [1, 2], "a": [10, 20]}))
    (entry,) = live(table)
    path = path_of(table, entry)
    data = bytearray(path.read_bytes())
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    data[data.index(b"\x18\x01a", footer) + 2] ^= 2
    path.write_bytes(data)
    with pytest.raises(wt.DamagedError, match="footer"):
        table.scan().to_arrow()
    (file,) = table.repair().files
    assert (file.kept_rows, file.lost_rows) == (0, 2)
    assert table.scan().to_arrow().num_rows == 0
    assert table.doctor(deep=True).ok


def test_no_wrong_bit_ever_leaves_rows_that_nobody_wrote(
    table: wt.Table, rng: random.Random
) -> None:
    """Whatever a repair keeps was written, and what it does not keep it has counted."""
    for value in "ab":
        table.write(rows(value))
    table.compact(full=True)
    table.write(rows("c", range(0, 100, 3)))
    written = {k: {f"{value}{k}" for value in "abc"} for k in range(100)}
    pristine = Path(table.path)
    for number in range(30):
        copy = wt.Table.open(str(shutil.copytree(pristine, pristine.parent / f"t{number}")))
        entry = rng.choice(live(copy))
        path = path_of(copy, entry)
        data = bytearray(path.read_bytes())
        for _ in range(rng.choice((1, 1, 20))):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
        for file in copy.repair().files:
            assert file.damage.path == str(path)
            assert file.kept_rows + file.lost_rows == entry.file.row_count
        found = values(copy)
        assert all(value in written[k] for k, value in found.items())
        assert copy.doctor(deep=True).ok


@pytest.mark.parametrize(
    ("kind", "key", "printed"),
    [
        (pa.string(), lambda k: f"k{k:03}", "k0"),
        (pa.date32(), lambda k: 10_000_000 + k, "+2"),
        (pa.decimal128(9, 2), lambda k: Decimal(k).scaleb(-2), "0."),
        (pa.timestamp("us"), lambda k: 400_000 * 10**12 + k, "+1"),
        (pa.binary(), lambda k: bytes([0xFF, k]), "ff"),
    ],
)
def test_keys_that_are_lost_are_printed_whatever_their_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: pa.DataType, key: Any, printed: str
) -> None:
    monkeypatch.setattr(data_file_writer, "ROW_GROUP_ROWS", 10)
    schema = pa.schema([pa.field("k", kind, nullable=False), ("a", pa.int64())])
    options = {"bucket": "1", "write-only": "true"}
    table = wt.Catalog(str(tmp_path)).create_table(
        "d.t", schema, primary_key=["k"], options=options
    )
    stored = pa.array([key(k) for k in range(50)], _stored(kind)).view(kind)
    table.write(pa.table({"k": stored, "a": pa.array(range(50), pa.int64())}, schema))
    (entry,) = live(table)
    for damage in (lambda p: spoil_group(p, 2), lambda p: p.write_bytes(p.read_bytes()[:50])):
        damage(path_of(table, entry))
        (file,) = table.repair(dry_run=True).files
        (lost,) = file.lost
        for bound in (lost.first_key, lost.last_key):
            assert bound["k"].startswith(printed)
        json.dumps(table.repair(dry_run=True).to_dict())


def _stored(kind: pa.DataType) -> pa.DataType:
    """In which Python's values hold what the type can hold."""
    return {pa.date32(): pa.int32(), pa.timestamp("us"): pa.int64()}.get(kind, kind)


@pytest.mark.parametrize("is_sealed", [True, False])
@pytest.mark.parametrize("groups", [[0], [0, 1], [0, 1, 2, 4], "footer"])
def test_rows_that_a_vector_takes_out_are_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, groups: list[int] | str, *, is_sealed: bool
) -> None:
    """Of ten row groups: two rows are deleted in the first one, all in the second one, none in the others."""
    table = create(tmp_path, monkeypatch, **{"deletion-vectors.enabled": "true", "bucket": "1"})
    table.write(rows("a"))
    table.compact(full=True)
    table.write(pa.table({"k": [3, 4, *range(10, 20)], "a": ["b"] * 12}))
    table.compact()
    entry = max(live(table), key=lambda one: one.file.row_count)
    assert entry.file.deleted is not None
    path = path_of(table, entry)
    if not is_sealed:
        monkeypatch.setattr(DataFile, "seal", Seal.NONE)
    if groups == "footer":
        path.write_bytes(path.read_bytes()[:-4] + b"xxxx")
    else:
        for group in groups:
            spoil_group(path, int(group))
    lost = {"[0]": 8, "[0, 1]": 8, "[0, 1, 2, 4]": 28, "footer": 88}[str(groups)]
    (file,) = table.repair(dry_run=True).files
    assert (file.kept_rows, file.lost_rows) == (88 - lost, lost)
    assert all(each.rows for each in file.lost)
    table.repair()
    assert len(values(table)) == 100 - lost
