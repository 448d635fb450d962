"""Commits that race: another one at an exact point of ours, many threads, many processes."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.support.faults.faults import FaultyFileIO
from tests.support.faults.other_machine import OtherMachine
from tests.widetable.commit.transaction.fake_table import (
    added,
    committer,
    compacted,
    data_file,
    live_names,
    make_table,
    metadata_files,
    named_metadata_files,
    written,
)
from widetable.commit.snapshots.manifest_cache import MANIFEST_CACHE
from widetable.commit.snapshots.manifest_writer import ManifestWriter
from widetable.commit.transaction.commit_identity import Identity
from widetable.commit.transaction.commit_result import CommitResult
from widetable.commit.transaction.committer import Committer
from widetable.commit.transaction.plan_base import plan_base
from widetable.errors import ConflictError, NotFoundError
from widetable.format.data_file_meta import DataFileMeta, upgrade
from widetable.storage.local import LocalFileIO
from widetable.storage.paths import TablePaths

IO = LocalFileIO(fsync=False)


def raced(
    paths: TablePaths, other: Callable[[], object], times: int = 1
) -> tuple[Committer, FaultyFileIO]:
    """A committer whose publish of a snapshot comes right after `other`, so often."""
    file_io = FaultyFileIO(IO)
    file_io.run_before("publish", other, "snapshot-", times=times)
    return committer(paths, file_io), file_io


def test_an_append_that_loses_goes_again_on_the_winner(tmp_path: Path) -> None:
    paths = make_table(tmp_path)
    other = committer(paths)
    other.append([written(data_file("a"))])
    table, file_io = raced(paths, lambda: other.append([written(data_file())]), times=3)
    result = table.append([written(data_file("mine"))])
    assert (result.committed, result.snapshot_id, result.retries) == (True, 5, 3)
    assert "mine" in live_names(table)
    assert len(live_names(table)) == 5
    # Data, delta manifest and delta list were written once, only the base list again; the losers' are gone.
    assert file_io.count("write_new", "/manifest-list-") == 1 + 4
    assert (
        file_io.count("write_new", "/manifest-") - file_io.count("write_new", "/manifest-list-")
        == 1
    )
    assert metadata_files(paths) == named_metadata_files(table)


@dataclass
class PlannedCompaction:
    """A bucket with a file at level 5 and two of level 0, of which one is compacted; somebody else works meanwhile."""

    paths: TablePaths

    def __post_init__(self) -> None:
        self.table = committer(self.paths)
        self.table.append([written(data_file("base"))])
        self.table.compact(
            [compacted([self.live("base")], [data_file("old", level=5, low=0, high=3)])]
        )
        self.table.append([written(data_file("mine", low=0, high=3))])
        self.table.append([written(data_file("other", low=5, high=9))])
        latest = self.table.snapshots.latest()
        self.planned = plan_base(latest, self.table.live_files.live_entries(latest))

    def live(self, name: str) -> DataFileMeta:
        entries = self.table.live_files.live_entries(self.table.snapshots.latest())
        return next(entry.file for entry in entries if entry.file.file_name == name)

    def commit(self) -> CommitResult:
        after = data_file("done", level=4, low=0, high=3)
        return self.table.compact([compacted([self.live("mine")], [after])], planned=self.planned)


def test_a_compaction_of_level_0_loses_to_one_that_brought_up_other_rows(tmp_path: Path) -> None:
    """Of files that it has seen at level 0, or of later ones; in its bucket, in one snapshot or many."""
    seen = PlannedCompaction(make_table(tmp_path / "seen"))
    seen.table.compact([compacted([seen.live("other")], [data_file("up", level=3, low=5, high=9)])])
    later = PlannedCompaction(make_table(tmp_path / "later"))
    later.table.append([written(data_file("new", low=5, high=9))])
    later.table.compact([compacted([later.live("new")], [data_file("up", level=5, low=5, high=9)])])
    later.table.append([written()])
    for lost in (seen, later):
        with pytest.raises(ConflictError, match="has not seen: up"):
            lost.commit()
        assert "mine" in live_names(lost.table)


def test_a_compaction_of_level_0_fits_beside_one_of_old_levels_or_another_bucket(
    tmp_path: Path,
) -> None:
    race = PlannedCompaction(make_table(tmp_path))
    race.table.compact([compacted([race.live("old")], [data_file("rest", level=9, high=3)])])
    race.table.append([written(data_file("elsewhere"), bucket=1)])
    up = data_file("up", level=2)
    race.table.compact([compacted([race.live("elsewhere")], [up], bucket=1)])
    assert race.commit().committed
    assert live_names(race.table) == ["done", "other", "rest", "up"]


def test_a_compaction_of_level_0_plans_again_when_it_cannot_know(tmp_path: Path) -> None:
    """New files above level 0, and the snapshot that made them has expired."""
    race = PlannedCompaction(make_table(tmp_path))
    race.table.compact([compacted([race.live("old")], [data_file("rest", level=9, high=3)])])
    race.table.append([written()])
    IO.delete(race.paths.snapshot(race.planned.snapshot_id + 1))
    with pytest.raises(ConflictError, match="has not seen: rest"):
        race.commit()


def test_an_append_has_no_limit_of_tries(tmp_path: Path) -> None:
    paths = make_table(tmp_path, {"commit.max-retries": "2"})
    other = committer(paths)
    table, _ = raced(paths, lambda: other.append([written()]), times=7)
    assert table.append([written()]).retries == 7
    assert len(live_names(table)) == 8


def test_commit_timeout_ends_the_tries_and_leaves_nothing(tmp_path: Path) -> None:
    paths = make_table(tmp_path, {"commit.timeout": "0 ms"})
    other = committer(paths)
    table, _ = raced(paths, lambda: other.append([written(data_file("a"))]))
    with pytest.raises(ConflictError, match="1 lost races"):
        table.append([written(data_file("mine"))])
    assert live_names(table) == ["a"]
    assert metadata_files(paths) == named_metadata_files(table)


def test_a_compaction_has_no_limit_of_tries_either(tmp_path: Path) -> None:
    """What it has merged is worth more than another try, and who replaced its files makes it give up."""
    paths = make_table(tmp_path, {"commit.max-retries": "2"})
    other = committer(paths)
    a = data_file("a")
    other.append([written(a)])
    table, _ = raced(paths, lambda: other.append([written()]), times=7)
    assert table.compact([compacted([a], [data_file("a2", level=5)])]).retries == 7


def test_an_overwrite_loses_only_so_often(tmp_path: Path) -> None:
    paths = make_table(tmp_path, {"commit.max-retries": "3"})
    other = committer(paths)
    table, file_io = raced(paths, lambda: other.append([written()]), times=3)
    assert table.overwrite(None, [written()]).retries == 3
    file_io.run_before("publish", lambda: other.append([written()]), "snapshot-", times=4)
    with pytest.raises(ConflictError, match="lost races"):
        table.overwrite(None, [written()])
    assert metadata_files(paths) == named_metadata_files(table)


def test_the_same_commit_at_the_same_time_is_in_once(tmp_path: Path) -> None:
    paths = make_table(tmp_path)
    message = written(data_file("a"))
    twin = committer(paths)
    table, _ = raced(paths, lambda: twin.append([message], Identity.of("job", 0)))
    result = table.append([message], Identity.of("job", 0))
    assert (result.committed, result.snapshot_id) == (False, 1)
    assert live_names(table) == ["a"]
    assert metadata_files(paths) == named_metadata_files(table)


def test_two_compactors_one_wins(tmp_path: Path) -> None:
    paths = make_table(tmp_path)
    other = committer(paths)
    a = data_file("a")
    other.append([written(a)])
    table, _ = raced(paths, lambda: other.compact([compacted([a], [data_file("theirs", level=5)])]))
    IO.write_new(paths.data_file((), 0, "ours"), b"x")
    with pytest.raises(ConflictError):
        table.compact([compacted([a], [data_file("ours", level=5)])])
    assert live_names(table) == ["theirs"]
    assert not IO.exists(paths.data_file((), 0, "ours"))
    assert metadata_files(paths) == named_metadata_files(table)


def test_compactors_of_two_buckets_both_win(tmp_path: Path) -> None:
    paths = make_table(tmp_path)
    other = committer(paths)
    a, b = data_file("a"), data_file("b")
    other.append([written(a), written(b, bucket=1)])
    table, _ = raced(paths, lambda: other.compact([compacted([b], [upgrade(b, 5)], bucket=1)]))
    assert table.compact([compacted([a], [upgrade(a, 5)])]).retries == 1
    assert live_names(table) == ["a", "b"]


def test_an_overwrite_takes_what_was_appended_while_it_was_planned(tmp_path: Path) -> None:
    paths = make_table(tmp_path)
    other = committer(paths)
    other.append([written(data_file("a"))])
    table, _ = raced(paths, lambda: other.append([written(data_file("b"))]))
    table.overwrite(None, [written(data_file("new"))])
    assert live_names(table) == ["new"]
    assert metadata_files(paths) == named_metadata_files(table)
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    assert snapshot.total_record_count == 10


def test_an_append_stays_after_an_overwrite_that_was_faster(tmp_path: Path) -> None:
    paths = make_table(tmp_path)
    other = committer(paths)
    other.append([written(data_file("a"))])
    table, _ = raced(paths, lambda: other.overwrite(None, [written(data_file("new"))]))
    table.append([written(data_file("b"))])
    assert live_names(table) == ["b", "new"]


def test_a_fold_is_dropped_when_the_winner_folded_the_same(tmp_path: Path) -> None:
    paths = make_table(tmp_path, {"manifest.merge-min-count": "4"})
    other = committer(paths)
    for _ in range(4):
        other.append([written()])
    table, file_io = raced(paths, lambda: other.append([written()]))
    assert table.append([written()]).retries == 1
    assert manifests_written(file_io) == 2
    assert len(live_names(table)) == 6
    assert metadata_files(paths) == named_metadata_files(table)


def publish_as_another_client(
    table: Committer, paths: TablePaths, merged: slice, name: str = "theirs"
) -> None:
    """An append by a client that merges manifests by rules of its own: those of the slice."""
    before = table.snapshots.latest()
    assert before is not None
    writer = ManifestWriter(IO, paths, [], 0)
    base = list(table.live_files.manifests(before))
    inputs = [table.live_files.manifest(meta, before) for meta in base[merged]]
    if inputs:
        base[merged] = [writer.manifest([entry for each in inputs for entry in each.entries])]
    base_list, base_bytes = writer.manifest_list(base)
    delta_list, delta_bytes = writer.manifest_list([writer.manifest([added(data_file(name))])])
    after = replace(
        before,
        id=before.id + 1,
        uuid=None,
        base_manifest_list=base_list,
        base_manifest_list_size=base_bytes,
        delta_manifest_list=delta_list,
        delta_manifest_list_size=delta_bytes,
        total_record_count=before.total_record_count + 10,
        delta_record_count=10,
    )
    assert IO.publish(paths.snapshot(after.id), after.to_json().encode())


@pytest.mark.parametrize(
    ("merged", "manifests_after", "written_twice"),
    [(slice(0, 0), [4, 1, 1], False), (slice(1, 3), [5, 1], True), (slice(0, 2), [5, 1], True)],
    ids=["nothing", "the middle", "the first two"],
)
def test_a_fold_is_kept_only_when_the_winner_left_all_its_input_alone(
    tmp_path: Path, merged: slice, manifests_after: list[int], written_twice: bool
) -> None:
    paths = make_table(tmp_path, {"manifest.merge-min-count": "4"})
    other = committer(paths)
    for _ in range(4):
        other.append([written()])
    table, file_io = raced(paths, lambda: publish_as_another_client(other, paths, merged))
    assert table.append([written(data_file("ours"))]).retries == 1
    assert manifests_written(file_io) == 2 + written_twice
    latest = table.snapshots.latest()
    assert latest is not None
    manifests = table.live_files.manifests(latest)
    assert [meta.num_added_files for meta in manifests] == manifests_after
    assert {"ours", "theirs"} <= set(live_names(table))
    assert len(live_names(table)) == 6
    assert metadata_files(paths) == named_metadata_files(table)


def test_a_commit_that_slept_while_its_snapshot_expired_goes_again(tmp_path: Path) -> None:
    paths = make_table(tmp_path)
    other = committer(paths)
    other.append([written(data_file("a"))])

    def others_go_on() -> None:
        for name in "bcd":
            other.append([written(data_file(name))])
        for id in (1, 2):
            IO.delete(paths.snapshot(id))

    # Right before it looks whether snapshot-2 exists, which by then has come and gone.
    file_io = FaultyFileIO(IO)
    file_io.run_before("exists", others_go_on, "snapshot-2", skip=1)
    table = committer(paths, file_io)
    result = table.append([written(data_file("mine"))])
    assert (result.snapshot_id, result.retries) == (5, 1)
    assert live_names(table) == ["a", "b", "c", "d", "mine"]


@pytest.mark.parametrize("snapshot_file_goes", [True, False])
def test_a_commit_whose_lists_expired_under_it_goes_again(
    tmp_path: Path, snapshot_file_goes: bool
) -> None:
    paths = make_table(tmp_path)
    other = committer(paths)
    other.append([written(data_file("a"))])
    first = other.snapshots.load(1)

    def expire() -> None:
        """Manifests go before their snapshot's file does."""
        other.append([written(data_file("b"))])
        IO.delete(paths.manifest(first.base_manifest_list))
        IO.delete(paths.manifest(first.delta_manifest_list))
        if snapshot_file_goes:
            IO.delete(paths.snapshot(1))
        MANIFEST_CACHE.clear()

    MANIFEST_CACHE.clear()
    file_io = FaultyFileIO(IO)
    file_io.run_before("read", expire, "manifest-list")
    table = committer(paths, file_io)
    assert table.append([written(data_file("mine"))]).snapshot_id == 3
    assert live_names(table) == ["a", "b", "mine"]


@pytest.mark.parametrize("commits_before", [0, 1])
def test_a_table_that_is_dropped_under_a_commit_does_not_come_back(
    tmp_path: Path, commits_before: int
) -> None:
    paths = make_table(tmp_path / "t")
    other = committer(paths)
    for _ in range(commits_before):
        other.append([written()])
    file_io = FaultyFileIO(IO)
    file_io.run_before("write_new", lambda: IO.delete_dir(paths.root))
    table = committer(paths, file_io)
    with pytest.raises(NotFoundError):
        table.append([written()])
    assert not IO.exists(paths.schema_dir)
    assert IO.list(paths.snapshot_dir) == []


def test_threads_of_one_process(tmp_path: Path) -> None:
    paths = make_table(tmp_path)
    table = committer(paths)
    names = [[f"{writer}-{number}" for number in range(20)] for writer in range(6)]
    errors: list[BaseException] = []

    def write(writer: int) -> None:
        try:
            for number, name in enumerate(names[writer]):
                table.append(
                    [written(data_file(name), bucket=writer % 4)],
                    Identity.of(f"user-{writer}", number),
                )
        except BaseException as error:
            errors.append(error)
            raise

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert_all_in_once(table, sorted(name for each in names for name in each))
    assert metadata_files(paths) == named_metadata_files(table)


@pytest.mark.parametrize("file_io", [LocalFileIO, OtherMachine])
def test_ten_processes_of_twenty_commits(tmp_path: Path, file_io: type[LocalFileIO]) -> None:
    paths = make_table(tmp_path)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    with context.Pool(10) as pool:
        retries = pool.starmap(
            append_twenty, [(paths.root, writer, file_io) for writer in range(10)], chunksize=1
        )
    table = committer(paths)
    assert_all_in_once(table, sorted(f"{w}-{n}" for w in range(10) for n in range(20)))
    assert sum(retries) > 0 or file_io is LocalFileIO
    assert metadata_files(paths) == named_metadata_files(table)


def append_twenty(root: str, writer: int, file_io: type[LocalFileIO]) -> int:
    """Commit 20 times, each twice: the second must find the first. The number of lost races."""
    table, retries = committer(TablePaths(root), file_io(fsync=False)), 0
    for number in range(20):
        message = written(data_file(f"{writer}-{number}"), bucket=writer % 4)
        result = table.append([message], Identity.of(f"user-{writer}", number))
        again = table.append([message], Identity.of(f"user-{writer}", number))
        assert (result.committed, again.committed, again.snapshot_id) == (
            True,
            False,
            result.snapshot_id,
        )
        retries += result.retries
    return retries


def assert_all_in_once(table: Committer, names: list[str]) -> None:
    """Consecutive ids, every file live once and added by exactly one snapshot, running totals right."""
    assert table.snapshots.ids() == list(range(1, len(names) + 1))
    assert live_names(table) == names
    seen: list[str] = []
    for id in table.snapshots.ids():
        snapshot = table.snapshots.load(id)
        seen += [entry.file.file_name for entry in table.live_files.delta_entries(snapshot)]
        assert snapshot.total_record_count == 10 * id
    assert sorted(seen) == names


def manifests_written(file_io: FaultyFileIO) -> int:
    return file_io.count("write_new", "/manifest-") - file_io.count("write_new", "/manifest-list-")
