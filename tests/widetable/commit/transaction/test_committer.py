"""Commits one after the other, and what each leaves in its snapshot."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.widetable.commit.transaction.fake_table import (
    alter,
    committer,
    compacted,
    data_file,
    live_names,
    make_table,
    metadata_files,
    named_metadata_files,
    region,
    written,
)
from widetable.commit.snapshots.manifest_cache import MANIFEST_CACHE
from widetable.commit.transaction.commit_identity import Identity
from widetable.commit.transaction.committer import Committer
from widetable.errors import ConflictError, DamagedError, InvalidError, NotFoundError
from widetable.format.data_file_meta import upgrade
from widetable.format.index_manifest import write_index_manifest
from widetable.format.snapshot import BATCH_COMMIT_IDENTIFIER, Snapshot
from widetable.storage.local import LocalFileIO
from widetable.storage.paths import TablePaths
from widetable.write.commit_message import CommitMessage

IO = LocalFileIO(fsync=False)


def latest(table: Committer) -> Snapshot:
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    return snapshot


def publish_foreign(table: Committer, paths: TablePaths, **changes: object) -> Snapshot:
    """A snapshot as another client makes it after the newest one: the same files, none of our properties."""
    before = latest(table)
    changes = {"properties": {}, "commit_user": "foreign", "commit_kind": "APPEND", **changes}
    after = replace(before, id=before.id + 1, **changes)  # type: ignore[arg-type]
    assert IO.publish(paths.snapshot(after.id), after.to_json().encode())
    return after


def test_the_first_snapshot_has_every_key_it_must_have(tmp_path: Path) -> None:
    paths = make_table(tmp_path)
    file = data_file(rows=7, sequence=41)
    result = committer(paths).append(
        [written(file)],
        Identity.of("job", 3, digest="d1"),
        watermark=99,
        properties={"widetable.writer": "w"},
    )
    assert (result.committed, result.snapshot_id, result.kind, result.rows, result.files) == (
        True,
        1,
        "APPEND",
        7,
        1,
    )
    body = json.loads((tmp_path / "snapshot/snapshot-1").read_text())
    for key in ("base", "delta"):
        size = (tmp_path / "manifest" / body[f"{key}ManifestList"]).stat().st_size
        assert body[f"{key}ManifestListSize"] == size
    assert {
        key: body[key]
        for key in ("version", "id", "schemaId", "commitUser", "commitIdentifier", "commitKind")
    } == {
        "version": 3,
        "id": 1,
        "schemaId": 0,
        "commitUser": "job",
        "commitIdentifier": 3,
        "commitKind": "APPEND",
    }
    assert (body["totalRecordCount"], body["deltaRecordCount"], body["watermark"]) == (7, 7, 99)
    assert len(body["uuid"]) == 36
    assert int(body["properties"].pop("widetable.commit-millis")) >= 0
    assert body["properties"] == {
        "sequence.generation.max-sequence-number": "41",
        "widetable.commit-users": json.dumps(
            {"job": [3, 1, body["timeMillis"], "d1"]}, separators=(",", ":")
        ),
        "widetable.digest": "d1",
        "widetable.columns": "",
        "widetable.writer": "w",
        "widetable.rows": "7",
        "widetable.files": "1",
        "widetable.retries": "0",
        "widetable.watermarks": '{"job":99}',
    }
    assert (tmp_path / "snapshot/LATEST").read_text() == "1"
    assert (tmp_path / "snapshot/EARLIEST").read_text() == "1"


def test_the_base_of_a_snapshot_is_all_of_the_one_before(tmp_path: Path) -> None:
    table = committer(make_table(tmp_path))
    table.append([written(data_file("a"))])
    table.append([written(data_file("b"), bucket=1), written(data_file("c"), bucket=2)])
    first, second = table.snapshots.load(1), table.snapshots.load(2)
    assert table.live_files.manifest_list(
        second.base_manifest_list, second
    ) == table.live_files.manifests(first)
    assert [entry.file.file_name for entry in table.live_files.delta_entries(second)] == ["b", "c"]
    assert live_names(table) == ["a", "b", "c"]
    assert (second.total_record_count, second.delta_record_count) == (30, 20)
    assert (tmp_path / "snapshot/LATEST").read_text() == "2"
    assert (tmp_path / "snapshot/EARLIEST").read_text() == "1"


def test_a_cold_reader_sees_what_a_warm_one_sees(tmp_path: Path) -> None:
    table = committer(make_table(tmp_path))
    for number in range(40):
        table.append([written(data_file(f"f{number:02}"), bucket=number % 4)])
    warm = live_names(table)
    MANIFEST_CACHE.clear()
    assert live_names(table) == warm == [f"f{number:02}" for number in range(40)]


def test_watermark_never_falls(tmp_path: Path) -> None:
    table = committer(make_table(tmp_path))
    seen = []
    for watermark in (None, 5, 3, None, 8):
        table.append([written()], watermark=watermark)
        seen.append(latest(table).watermark)
    assert seen == [None, 5, 5, 5, 8]


def test_what_is_carried_over_from_another_client(tmp_path: Path) -> None:
    paths = make_table(tmp_path)
    table = committer(paths)
    table.append([written(data_file(sequence=10**19 // 2))])
    IO.write_new(paths.manifest("index-manifest-1"), write_index_manifest([]))
    foreign = publish_foreign(
        table,
        paths,
        statistics="stat-1",
        index_manifest="index-manifest-1",
        next_row_id=0,
        properties={"theirs": "x"},
        extra={"unheardOf": 1},
        time_millis=latest(table).time_millis + 30_000,
    )
    table.append([written(data_file(sequence=1))])
    ours = latest(table)
    assert (ours.statistics, ours.index_manifest, ours.next_row_id) == (
        "stat-1",
        "index-manifest-1",
        0,
    )
    assert "theirs" not in ours.properties
    assert ours.extra == {}
    assert ours.time_millis == foreign.time_millis
    # Not noted by the other client: found in the live files.
    assert ours.properties["sequence.generation.max-sequence-number"] == str(10**19 // 2)


def test_statistics_end_with_their_schema(tmp_path: Path) -> None:
    paths = make_table(tmp_path)
    table = committer(paths)
    table.append([written()])
    publish_foreign(table, paths, statistics="stat-1")
    alter(paths, replace(table.schemas.latest(), id=1))
    table.append([written()])
    assert (latest(table).schema_id, latest(table).statistics) == (1, None)


def test_a_repeated_commit_is_found_behind_other_clients_and_after_expiry(tmp_path: Path) -> None:
    paths = make_table(tmp_path)
    table = committer(paths)
    table.append([written(data_file("a"))], Identity.of("job", 5))
    publish_foreign(table, paths)
    publish_foreign(table, paths, commit_identifier=8, commit_user="theirs")
    assert not table.append([written()], Identity.of("job", 5)).committed
    assert not table.append([written()], Identity.of("theirs", 8)).committed
    table.append([written(data_file("b"))], Identity.of("job", 6))
    for id in (1, 2, 3):
        IO.delete(paths.snapshot(id))
    assert not table.append([written()], Identity.of("job", 6)).committed
    assert not table.append([written()], Identity.of("theirs", 8)).committed
    assert live_names(table) == ["a", "b"]


def test_batch_commits_are_never_taken_for_each_other(tmp_path: Path) -> None:
    table = committer(make_table(tmp_path))
    for name in "abc":
        assert table.append([written(data_file(name))], Identity.unnamed("me")).committed
    assert live_names(table) == ["a", "b", "c"]
    assert latest(table).commit_identifier == BATCH_COMMIT_IDENTIFIER
    assert latest(table).properties["widetable.commit-users"] == "{}"
    table.append([written()])
    table.append([written()])
    assert table.snapshots.load(4).commit_user != table.snapshots.load(5).commit_user


def test_nothing_to_commit_makes_no_snapshot_unless_there_is_something_to_say(
    tmp_path: Path,
) -> None:
    table = committer(make_table(tmp_path))
    assert not table.append([]).committed
    assert not table.overwrite(None, []).committed
    assert not table.compact([]).committed
    assert table.snapshots.latest() is None
    assert (
        table.append([], Identity.of("job", 0), properties={"widetable.barrier": "7"}).snapshot_id
        == 1
    )
    assert latest(table).properties["widetable.barrier"] == "7"
    assert live_names(table) == []
    table.append([written()])
    assert "widetable.barrier" not in latest(table).properties


def test_compaction_replaces_files(tmp_path: Path) -> None:
    table = committer(make_table(tmp_path))
    a, b = data_file("a", rows=5), data_file("b", rows=5)
    table.append([written(a)])
    table.append([written(b)])
    merged = data_file("ab", level=5, rows=8)
    result = table.compact([compacted([a, b], [merged])])
    assert (result.snapshot_id, result.kind, result.files) == (3, "COMPACT", 1)
    assert live_names(table) == ["ab"]
    assert (latest(table).total_record_count, latest(table).delta_record_count) == (8, -2)


def test_compaction_moves_a_file_without_rewriting_it(tmp_path: Path) -> None:
    table = committer(make_table(tmp_path))
    a = data_file("a")
    table.append([written(a)])
    table.compact([compacted([a], [upgrade(a, 5)])])
    (entry,) = table.live_files.live_entries(table.snapshots.latest())
    assert (entry.file.file_name, entry.file.level) == ("a", 5)


def test_a_compaction_whose_input_is_gone_drops_its_own_files_only(tmp_path: Path) -> None:
    paths = make_table(tmp_path)
    table = committer(paths)
    a, b = data_file("a"), data_file("b")
    table.append([written(a, b)])
    table.compact([compacted([b], [data_file("b2", level=5)])])
    for name in ("a", "b", "new"):
        IO.write_new(paths.data_file((), 0, name), b"x")
    before = metadata_files(paths)
    lost = compacted([a, b], [upgrade(a, 4), data_file("new", level=5, low=20, high=30)])
    with pytest.raises(ConflictError) as raised:
        table.compact([lost])
    assert "b" in raised.value.found
    assert sorted(path.name for path in (tmp_path / "bucket-0").iterdir()) == ["a", "b"]
    assert metadata_files(paths) == before
    assert live_names(table) == ["a", "b2"]


def test_a_repeated_compaction_conflicts_with_itself(tmp_path: Path) -> None:
    table = committer(make_table(tmp_path))
    a = data_file("a")
    table.append([written(a)])
    message = compacted([a], [data_file("a2", level=5)])
    table.compact([message])
    with pytest.raises(ConflictError):
        table.compact([message])
    assert live_names(table) == ["a2"]


def test_overwrite_of_partitions_leaves_the_others(tmp_path: Path) -> None:
    table = committer(make_table(tmp_path, partition_by=["region"]))
    eu, us, none = region("eu"), region("us"), region(None)
    for name, partition in (("e", eu), ("u", us), ("n", none)):
        table.append([written(data_file(name), partition=partition)])
    result = table.overwrite([eu, none], [written(data_file("e2"), partition=eu)])
    assert (result.kind, result.files) == ("OVERWRITE", 1)
    assert live_names(table) == ["e2", "u"]
    assert latest(table).delta_record_count == -10
    with pytest.raises(InvalidError, match="outside"):
        table.overwrite([eu], [written(data_file(), partition=us)])


def test_overwrite_of_the_table_may_leave_nothing(tmp_path: Path) -> None:
    table = committer(make_table(tmp_path))
    table.append([written(), written(bucket=1)])
    assert table.overwrite(None, []).committed
    assert live_names(table) == []
    assert latest(table).total_record_count == 0


def test_overwrite_of_named_files(tmp_path: Path) -> None:
    table = committer(make_table(tmp_path))
    a, b = data_file("a"), data_file("b")
    table.append([written(a, b)])
    message = replace(written(data_file("c"), bucket=0), deleted_files=(a,))
    with pytest.raises(InvalidError):
        table.append([message])
    table.overwrite([message.partition], [written(data_file("d"))])
    with pytest.raises(ConflictError):
        table.overwrite([message.partition], [message])
    table.append([written(a)])
    only_delete = CommitMessage(message.partition, 0, 4, deleted_files=(a,))
    table.overwrite([], [only_delete])
    assert live_names(table) == ["d"]


def test_sequence_base_is_above_the_clock_and_all_that_was_written(tmp_path: Path) -> None:
    table = committer(make_table(tmp_path))
    empty = table.sequence_base()
    assert empty > 1_700_000_000 * 10**9
    table.append([written(data_file(sequence=2**62))])
    bases = [table.sequence_base() for _ in range(8)]
    assert all(0 < base - 2**62 <= 2**20 for base in bases)
    assert len(set(bases)) > 1  # writers that start together, ahead of the clock
    table.append([written(data_file(sequence=5))])
    assert table.sequence_base() > 2**62


@pytest.mark.parametrize(
    "message",
    [
        written(data_file(level=1)),
        written(data_file("same"), data_file("same")),
        compacted([data_file()], []),
        compacted([], [data_file()]),
    ],
    ids=["level", "twice", "before", "after"],
)
def test_messages_that_do_not_belong_into_an_append(tmp_path: Path, message: CommitMessage) -> None:
    table = committer(make_table(tmp_path))
    with pytest.raises(InvalidError):
        table.append([message])
    assert table.snapshots.latest() is None


def test_an_identifier_needs_a_user_and_a_property_a_name_of_its_own(tmp_path: Path) -> None:
    table = committer(make_table(tmp_path))
    for user, identifier in ((None, 1), ("", 1), ("u", -1), ("u", 2**63)):
        with pytest.raises(InvalidError):
            table.append([written()], Identity.of(user, identifier))
    for name in ("widetable.commits", "widetable.commit-users", "widetable.digest"):
        with pytest.raises(InvalidError, match=name):
            table.append([written()], properties={name: "{}"})


def test_a_directory_that_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="nothing-here"):
        committer(TablePaths(str(tmp_path / "nothing-here")))


def test_broken_and_missing_files_are_named(tmp_path: Path) -> None:
    paths = make_table(tmp_path)
    table = committer(paths)
    table.append([written()])
    snapshot = latest(table)
    (meta,) = table.live_files.manifests(snapshot)
    path = paths.manifest(meta.file_name)
    data = IO.read(path)
    for broken in (data[: len(data) // 2], b"", None):
        MANIFEST_CACHE.clear()
        IO.delete(path)
        if broken is not None:
            IO.write_new(path, broken)
        with pytest.raises(DamagedError) as raised:
            table.live_files.live_entries(snapshot)
        assert raised.value.subject == path
    MANIFEST_CACHE.clear()
    IO.delete(paths.manifest(snapshot.base_manifest_list))
    with pytest.raises(DamagedError, match=snapshot.base_manifest_list):
        table.append([written()])
    IO.replace(paths.snapshot(1), b"{")
    with pytest.raises(DamagedError, match="snapshot-1"):
        table.append([written()])
    assert table.snapshots.ids() == [1]


def test_an_expired_snapshot_is_not_found(tmp_path: Path) -> None:
    paths = make_table(tmp_path)
    table = committer(paths)
    table.append([written()])
    snapshot = latest(table)
    MANIFEST_CACHE.clear()
    IO.delete(paths.snapshot(1))
    IO.delete(paths.manifest(snapshot.delta_manifest_list))
    with pytest.raises(NotFoundError, match="expired"):
        table.live_files.live_entries(snapshot)


@pytest.mark.parametrize("commits", [0, 1, 3])
def test_who_opened_the_table_before_it_was_made_again_commits_nothing(
    tmp_path: Path, commits: int
) -> None:
    """Whatever columns the new one has."""
    stale = committer(make_table(tmp_path / "t"))
    stale.append([written()])
    shutil.rmtree(tmp_path / "t")
    paths = make_table(tmp_path / "t")
    for _ in range(commits):
        committer(paths).append([written()])
    with pytest.raises(InvalidError, match="dropped and made again"):
        stale.append([written()])
    assert committer(paths).snapshots.ids() == list(range(1, commits + 1))
    assert metadata_files(paths) == named_metadata_files(committer(paths))
