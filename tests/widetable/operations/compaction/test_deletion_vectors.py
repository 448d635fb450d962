"""Tables with deletion vectors: what a compaction deletes below it is seen by every way of reading, and goes with its
files. That random tables with vectors read as the model says: tests/metamorphic; as Java says: test_fixtures.
"""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import fastavro
import pytest

import widetable as wt
from tests.support.models.random_table import live_files
from tests.support.tables.fixture_tables import ROOT as FIXTURES
from widetable.commit.transaction.committer import Committer
from widetable.format.bucket_id import BucketId
from widetable.format.deletion_vector import deleted_rows
from widetable.format.index_manifest import (
    DELETION_VECTORS,
    IndexEntry,
    read_index_manifest,
    write_index_manifest,
)
from widetable.lsm.bucket_plan import Scope
from widetable.lsm.compaction import compact_bucket
from widetable.operations.compaction.compaction import made_plans, newest_entries
from widetable.operations.maintenance.partition_move import PartitionMove
from widetable.storage.local import LocalFileIO
from widetable.storage.paths import TablePaths
from widetable.write.commit_message import CommitMessage

OPTIONS = {
    "bucket": "1",
    "deletion-vectors.enabled": "true",
    "compaction.max-size-amplification-percent": "1000000",
    "write-only": "true",
    "widetable.fsync": "false",
}
FILE_IO = LocalFileIO()


def create(folder: Path, **options: str) -> wt.Table:
    return wt.Catalog(str(folder)).create_table(
        "db.t",
        {"k": "BIGINT", "v": "BIGINT", "w": "STRING"},
        primary_key=["k"],
        options={**OPTIONS, **options},
    )


def write(table: wt.Table, keys: range, value: int, kind: str = "+I") -> None:
    """One commit, whose rows a compaction moves to the level above the newest run."""
    rows = {"k": list(keys), "v": [value] * len(keys), "w": [f"w{value}"] * len(keys)}
    table.write({**rows, "_row_kind": [kind] * len(keys)})
    table.compact()


def vectors(table: wt.Table) -> dict[str, list[int]]:
    """The deleted rows of each live file that has some."""
    (files,) = live_files(table.path).values()
    return {
        file.file_name: deleted_rows(FILE_IO, file.deleted).tolist()
        for file in files
        if file.deleted is not None
    }


def values(table: wt.Table, **how: Any) -> dict[int, int]:
    found = table.scan(**how).to_arrow()
    return dict(zip(found["k"].to_pylist(), found["v"].to_pylist(), strict=True))


def index(table: wt.Table) -> list[IndexEntry]:
    body = json.loads(Path(table.path, f"snapshot/snapshot-{table.snapshots()[-1].id}").read_text())
    if "indexManifest" not in body:
        return []
    path = Path(table.path, "manifest", body["indexManifest"])
    return read_index_manifest(path.read_bytes(), str(path))


def three_levels(folder: Path, **options: str) -> tuple[wt.Table, dict[int, int]]:
    table = create(folder, **options)
    write(table, range(100), 1)
    table.compact(full=True)
    write(table, range(10, 40), 2)
    write(table, range(30, 35), 3)
    write(table, range(5, 12), 0, "-D")
    expected = dict.fromkeys(range(100), 1) | dict.fromkeys(range(10, 40), 2)
    expected |= dict.fromkeys(range(30, 35), 3)
    return table, {key: value for key, value in expected.items() if not 5 <= key < 12}


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update"])
@pytest.mark.parametrize("wide", ["false", "true"])
def test_rows_of_a_newer_level_and_deletes_mark_older_ones(
    tmp_path: Path, engine: str, wide: str
) -> None:
    removal = {"partial-update.remove-record-on-delete": "true"} if engine != "deduplicate" else {}
    options = {"merge-engine": engine, "deletion-vectors.bitmap64": wide, **removal}
    table, expected = three_levels(tmp_path, **options)
    assert values(table) == expected
    assert table.scan().count() == len(expected)
    asked = list(range(-1, 101))
    assert table.lookup({"k": asked})["v"].to_pylist() == [expected.get(key) for key in asked]
    assert table.scan(filter="k between 9 and 31").count() == len(
        [k for k in expected if 9 <= k <= 31]
    )
    if engine == "deduplicate":
        marked = sorted(vectors(table).values())
        assert marked == [[0, 1, *range(20, 25)], list(range(5, 40))]


def test_old_snapshots_and_tags_keep_their_rows(tmp_path: Path) -> None:
    table, _ = three_levels(tmp_path)
    seen = {snapshot.id: values(table, snapshot_id=snapshot.id) for snapshot in table.snapshots()}
    table.create_tag("before", snapshot_id=4)
    table.compact(full=True)
    assert vectors(table) == {}
    assert {id: values(table, snapshot_id=id) for id in seen} == seen
    table.expire_snapshots(num_retained_min=1, num_retained_max=1, time_retained_millis=0)
    assert values(table, tag="before") == seen[4]


def test_a_rollback_brings_back_what_was_deleted_since_and_nothing_else(tmp_path: Path) -> None:
    table, last = three_levels(tmp_path)
    seen = {snapshot.id: values(table, snapshot_id=snapshot.id) for snapshot in table.snapshots()}
    for target in (5, 7, 3, 8):
        table.rollback(snapshot_id=target)
        assert values(table) == seen[target]
    table.rollback(snapshot_id=max(seen))
    assert values(table) == last
    named = {entry.file_name for entry in index(table)}
    table.expire_snapshots(num_retained_min=1, num_retained_max=1, time_retained_millis=0)
    assert {path.name for path in Path(table.path, "index").iterdir()} == named
    assert values(table) == last
    write(table, range(3), 9)
    assert values(table) == last | {0: 9, 1: 9, 2: 9}


def test_vectors_go_with_their_files(tmp_path: Path) -> None:
    table, expected = three_levels(tmp_path)
    table.compact(full=True)
    assert index(table) == []
    assert values(table) == expected


def test_orphans_are_not_what_the_index_names(tmp_path: Path) -> None:
    table, expected = three_levels(tmp_path)
    table.remove_orphan_files(older_than_millis=0)
    assert values(table) == expected


def test_a_compaction_that_has_not_seen_a_vector_loses(tmp_path: Path) -> None:
    """Its rows of the old file would come back."""
    table, expected = three_levels(tmp_path)
    state, committer = table._state(), Committer(FILE_IO, TablePaths(table.path))
    newest = newest_entries(committer)
    entries = newest[1]
    ((_, plan),) = made_plans(state, committer, newest, Scope.FULL).values()
    message = compact_bucket(state, entries[0].bucket_id, 1, plan)
    old = message.compact_before
    write(table, range(50, 60), 4)
    (live,) = live_files(table.path).values()
    assert {file.file_name for file in old} <= {file.file_name for file in live}
    with pytest.raises(wt.ConflictError, match="rows of files were deleted"):
        committer.compact([message])
    assert values(table) == expected | dict.fromkeys(range(50, 60), 4)


def test_a_compaction_that_marks_a_file_that_went_loses(tmp_path: Path) -> None:
    """A file without a vector yet: its rows are in another one by now, where nobody would have deleted them."""
    table = create(tmp_path)
    write(table, range(1000), 1)
    table.compact(full=True)
    write(table, range(2000, 2001), 1)
    state, committer = table._state(), Committer(FILE_IO, TablePaths(table.path))

    def message(scope: Scope) -> CommitMessage:
        newest = newest_entries(committer)
        ((_, plan),) = made_plans(state, committer, newest, scope).values()
        return compact_bucket(state, newest[1][0].bucket_id, 1, plan)

    of_all = message(Scope.FULL)
    table.write({"k": [1, 2], "v": [2, 2], "w": ["", ""]})
    of_new = message(Scope.DUE)
    (marked,) = of_new.marked_files
    assert marked.deleted is None
    assert marked.file_name in {file.file_name for file in of_all.compact_before}
    committer.compact([of_all])
    with pytest.raises(
        wt.ConflictError, match="files that should lose rows were removed meanwhile"
    ):
        committer.compact([of_new])
    table.compact()
    assert sorted(map(len, vectors(table).values())) == [2]
    assert values(table)[1] == 2


def test_an_audit_finds_rows_that_no_vector_deletes(tmp_path: Path) -> None:
    """As after a compaction whose vector was lost: our own scan merges the two rows, other clients show both."""
    table, expected = three_levels(tmp_path)
    report = table.audit()
    assert report.ok
    assert report.checks["vectors"] == 1
    snapshot = Path(table.path, f"snapshot/snapshot-{table.snapshots()[-1].id}")
    body = json.loads(snapshot.read_text())
    del body["indexManifest"]
    snapshot.write_text(json.dumps(body))
    table = wt.Table.open(table.path)
    assert values(table) == expected | dict.fromkeys(range(5, 10), 1) | {10: 2, 11: 2}
    report = table.audit()
    assert report.found == {"vectors": 1}
    (finding,) = report.findings
    assert (finding.bucket, finding.found) == (0, f"{100 + 30 + 5} rows")
    assert finding.expected.startswith("100 rows")


def test_a_missing_or_damaged_index_file_is_named(tmp_path: Path) -> None:
    table, _ = three_levels(tmp_path)
    name = index(table)[0].file_name
    path = Path(table.path, "index", name)
    shutil.copy(path, tmp_path / "kept")
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(wt.DamagedError, match=name):
        table.scan().to_arrow()
    path.unlink()
    with pytest.raises(wt.WidetableError, match=name):
        table.scan().to_arrow()
    shutil.copy(tmp_path / "kept", path)
    assert table.scan().count()


def test_a_session_sees_rows_that_are_deleted_while_it_is_open(tmp_path: Path) -> None:
    table = create(tmp_path)
    write(table, range(1000), 1)
    table.compact(full=True)
    with table.lookup_session() as session:
        assert session.lookup({"k": [1, 2]})["v"].to_pylist() == [1, 1]
        write(table, range(2, 3), 0, "-D")
        session.move()
        assert session.lookup({"k": [1, 2]})["v"].to_pylist() == [1, None]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"merge-engine": "first-row"}, "merge-engine"),
        ({"changelog-producer": "full-compaction"}, "changelog-producer"),
        ({"merge-engine": "partial-update", "sequence.field": "v"}, "sequence.field"),
    ],
)
def test_options_that_exclude_vectors_are_refused_by_name(
    tmp_path: Path, options: dict[str, str], named: str
) -> None:
    with pytest.raises(wt.UnsupportedError, match=named):
        create(tmp_path, **options)


def test_vectors_cannot_be_switched_on_later(tmp_path: Path) -> None:
    create(tmp_path, **{"deletion-vectors.enabled": "false"})
    with pytest.raises(wt.InvalidError, match=r"deletion-vectors\.enabled"):
        wt.Catalog(str(tmp_path)).alter_table(
            "db.t", set_options={"deletion-vectors.enabled": "true"}
        )


def test_an_entry_whose_vectors_are_all_gone_stays_a_list() -> None:
    """Java reads it, and fails at null."""
    entry = IndexEntry(BucketId(b"\0\0\0\0", 0), DELETION_VECTORS, "index-1", 1, 0)
    (record,) = fastavro.reader(io.BytesIO(write_index_manifest([entry])))
    assert record["_DELETIONS_VECTORS_RANGES"] == []  # type: ignore[index, call-overload]


# Found by an attack


def rows_of_ten(folder: Path, **options: str) -> wt.Table:
    table = create(folder, **options)
    write(table, range(10), 1)
    table.compact(full=True)
    return table


@pytest.mark.parametrize("producer", ["none", "lookup"])
def test_a_rollback_where_only_vectors_differ(tmp_path: Path, producer: str) -> None:
    table = rows_of_ten(tmp_path, **{"changelog-producer": producer})
    target, before = table.snapshots()[-1].id, values(table)
    table.delete_keys([3])
    table.compact()
    assert 3 not in values(table)
    done = table.rollback(target)
    assert done.snapshot_id is not None
    assert values(table) == before
    assert table.rollback(target).snapshot_id is None
    assert table.audit().findings == ()


def test_rows_deleted_while_a_table_is_rescaled_stay_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = rows_of_ten(tmp_path)
    follow = PartitionMove.follow

    def slow(*given: Any) -> Any:
        found = follow(*given)
        monkeypatch.undo()
        other = wt.Table.open(table.path)
        other.delete_keys([3])
        other.compact()
        return found

    monkeypatch.setattr(PartitionMove, "follow", slow)
    table.rescale(3)
    assert sorted(values(table)) == [0, 1, 2, 4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize("gone", [[9], [0], list(range(10))])
def test_a_file_of_which_rows_are_deleted_is_not_damaged(tmp_path: Path, gone: list[int]) -> None:
    table = rows_of_ten(tmp_path)
    table.delete_keys(gone)
    table.compact()
    table.expire_snapshots(num_retained_min=1, num_retained_max=1, time_retained_millis=0)
    assert table.audit().findings == ()
    assert table.repair(dry_run=True).files == ()
    assert table.doctor(deep=True).findings == ()


def test_a_damaged_file_with_deleted_rows_is_repaired(tmp_path: Path) -> None:
    table = rows_of_ten(tmp_path)
    table.delete_keys([9])
    table.compact()
    (files,) = live_files(table.path).values()
    (path,) = Path(table.path).rglob(files[0].file_name)
    data = bytearray(path.read_bytes())
    data[20] ^= 1
    path.write_bytes(data)
    done = table.repair()
    assert [file.lost_rows for file in done.files] == [9]  # the deleted one is none
    assert values(table) == {}


def test_java_changelogs_of_rows_that_vectors_deleted_are_right(tmp_path: Path) -> None:
    copy = shutil.copytree(FIXTURES / "wh_others/others.db/dv_lookup", tmp_path / "o.db/dv_lookup")
    assert wt.Table.open(copy).audit().findings == ()
