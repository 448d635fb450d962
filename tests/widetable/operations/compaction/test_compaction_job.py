"""Compacting a whole table by real commits: progress per group, and what losing a race costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.models.model import Record
from tests.support.tables.table_files import TableFiles
from widetable.commit.snapshots.schema_store import SchemaStore
from widetable.commit.transaction.committer import Committer
from widetable.errors import ConflictError, StorageError
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.manifest_entry import ManifestEntry
from widetable.lsm import table_kind
from widetable.lsm.bucket_plan import Plan, Scope, plan_bucket
from widetable.operations.compaction import compaction_job
from widetable.operations.compaction.compaction_job import (
    BucketWork,
    CompactionJob,
    Outcome,
    RunWorks,
    one_by_one,
)
from widetable.schema.new_schema import new_schema
from widetable.write.commit_message import CommitMessage
from widetable.write.discard import discard


class CommittedTable:
    """Real files and real snapshots."""

    def __init__(self, root: Path, buckets: int = 3) -> None:
        options = {
            "bucket": str(buckets),
            "widetable.fsync": "false",
            "merge-engine": "partial-update",
        }
        arrow = pa.schema([("k", pa.int64()), ("a", pa.int64()), ("b", pa.int64())])
        schema = new_schema(arrow, primary_key=["k"], options=options)
        self.files = TableFiles(root, schema)
        assert SchemaStore(self.files.file_io, self.files.state.paths).publish(schema)
        self.committer = Committer(self.files.file_io, self.files.state.paths)
        self.commits: list[list[CommitMessage]] = []  # of compactions that went through

    def append(self, value: int, keys: range = range(100)) -> None:
        records: list[Record] = [("+I", {"k": k, "a": value}) for k in keys]
        self.committer.append(self.files.write(["k", "a"], records))

    def live_entries(self) -> list[ManifestEntry]:
        return self.committer.live_files.live_entries(self.committer.snapshots.latest())

    def commit(self, messages: list[CommitMessage]) -> object:
        result = self.committer.compact(messages)
        self.commits.append(messages)
        return result

    @property
    def files_of_commits(self) -> list[tuple[int, int]]:
        """By commit: data files before and after."""
        return [
            (sum(len(m.compact_before) for m in of), sum(len(m.compact_after) for m in of))
            for of in self.commits
        ]

    def compact(
        self,
        scope: Scope = Scope.DUE,
        commit: Callable[[list[CommitMessage]], object] | None = None,
        run: RunWorks | None = None,
        group_seconds: float = math.inf,
    ) -> CompactionJob:
        state, run = self.files.state, run or one_by_one(self.files.state)
        job = CompactionJob(state, commit or self.commit, run, group_seconds)
        job.compact(self.live_entries, scope)
        return job

    def check(self, value: int) -> None:
        """The live files hold these rows, and every data file on disk was named by some snapshot."""
        self.files.buckets = {}
        for entry in self.live_entries():
            self.files.buckets.setdefault(entry.bucket_id, []).append(entry.file)
        self.files.check()
        assert [row["a"] for row in self.files.rows()] == [value] * 100
        named = set()
        for id in self.committer.snapshots.ids():
            snapshot = self.committer.snapshots.load(id)
            named |= {e.file.file_name for e in self.committer.live_files.live_entries(snapshot)}
        on_disk = {name for name in self.files.names_on_disk() if name.endswith(".parquet")}
        assert on_disk == named

    def levels(self) -> set[int]:
        return {entry.file.level for entry in self.live_entries()}


def test_a_full_compaction_leaves_one_file_per_bucket(tmp_path: Path) -> None:
    table = CommittedTable(tmp_path)
    for value in range(3):
        table.append(value)
    job = table.compact(Scope.FULL)
    assert (job.files_after, job.conflicts, job.quarantined) == (3, 0, [])
    assert table.files_of_commits == [(9, 3)]
    assert table.levels() == {5}
    table.check(2)
    assert table.compact(Scope.FULL).files_after == 0
    assert len(table.commits) == 1


def test_nothing_is_committed_when_no_bucket_is_picked(tmp_path: Path) -> None:
    table = CommittedTable(tmp_path)
    table.append(1)
    assert table.compact().files_after == 0
    assert table.committer.snapshots.ids() == [1]


def test_many_buckets_are_committed_in_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction_job, "_GROUP_BUCKETS", 2)
    table = CommittedTable(tmp_path, buckets=5)
    for value in range(2):
        table.append(value)
    table.compact(Scope.FULL)
    assert [len(messages) for messages in table.commits] == [2, 2, 1]
    table.check(1)


def test_what_is_done_is_committed_before_all_buckets_are(tmp_path: Path) -> None:
    table = CommittedTable(tmp_path, buckets=5)
    table.append(1)
    table.compact(Scope.FULL, group_seconds=0)
    assert [len(messages) for messages in table.commits] == [1] * 5
    table.check(1)


def test_an_append_meanwhile_does_not_disturb(tmp_path: Path) -> None:
    table = CommittedTable(tmp_path)
    for value in range(3):
        table.append(value)

    def commit(messages: list[CommitMessage]) -> object:
        table.append(7)
        return table.commit(messages)

    assert table.compact(Scope.FULL, commit).conflicts == 0
    assert len(table.commits) == 1
    assert table.levels() == {0, 5}
    table.check(7)


def test_who_lost_against_another_compactor_drops_its_files_and_plans_again(tmp_path: Path) -> None:
    table = CommittedTable(tmp_path)
    for value in range(3):
        table.append(value)
    others = 2

    def commit(messages: list[CommitMessage]) -> object:
        nonlocal others
        if others:
            others -= 1
            table.compact(Scope.FULL)
            table.append(50 + others)
        return table.commit(messages)

    assert table.compact(Scope.FULL, commit).conflicts == 2
    assert len(table.commits) == 3  # two are the other's
    table.check(50)


def test_a_group_that_lost_is_done_again_by_who_compacts_all_before_a_commit(
    tmp_path: Path,
) -> None:
    """Another compactor was at one bucket of three. No commit may name what was dropped with the group's files."""
    table = CommittedTable(tmp_path)
    for value in range(3):
        table.append(value)
    state, works, is_first = table.files.state, list[int](), True

    def run(planned: Iterable[BucketWork]) -> Iterator[tuple[BucketWork, Outcome]]:
        """The other compactor commits the bucket that comes last before its message is there."""
        nonlocal is_first
        planned = list(planned)
        works.extend(work.bucket.number for work in planned)
        outcomes = list(one_by_one(state)(planned))
        if is_first:
            is_first = False
            ((_, theirs),) = one_by_one(state)(planned[-1:])
            assert isinstance(theirs, CommitMessage)
            table.commit([theirs])
            table.append(50)
        return iter(outcomes)

    assert table.compact(Scope.FULL, run=run).conflicts == 1
    assert [len(messages) for messages in table.commits] == [1, 3]  # theirs, and all of ours
    assert sorted(works) == [0, 0, 1, 1, 2, 2]
    table.check(50)


def test_an_error_of_one_bucket_is_raised_once_the_others_are_in(tmp_path: Path) -> None:
    table = CommittedTable(tmp_path)
    for value in range(3):
        table.append(value)

    def run(planned: Iterable[BucketWork]) -> Iterator[tuple[BucketWork, Outcome]]:
        for number, (work, outcome) in enumerate(one_by_one(table.files.state)(planned)):
            if number == 0:
                assert isinstance(outcome, CommitMessage)
                discard(table.files.state, [outcome])
            yield work, LookupError("a fault") if number == 0 else outcome

    with pytest.raises(LookupError, match="a fault"):
        table.compact(Scope.FULL, run=run)
    assert sorted(entry.file.level for entry in table.live_entries()) == [0, 0, 0, 5, 5]
    table.check(2)


def test_who_finds_its_input_gone_plans_again(tmp_path: Path) -> None:
    """Another compactor was faster, and what it replaced has expired."""
    table = CommittedTable(tmp_path, buckets=1)
    for value in range(3):
        table.append(value)
    planned = table.live_entries()
    table.compact(Scope.FULL)
    table.append(9)
    state = table.files.state
    state.file_io.delete(state.data_file(planned[0].bucket_id, planned[0].file.file_name))
    plans = [planned]
    job = CompactionJob(state, table.commit, one_by_one(state))
    job.compact(lambda: plans.pop() if plans else table.live_entries(), Scope.FULL)
    assert job.conflicts == 1
    assert len(table.commits) == 2  # the faster one's, and ours
    assert [entry.file.row_count for entry in table.live_entries()] == [100]


def test_a_live_file_that_is_missing_is_reported(tmp_path: Path) -> None:
    table = CommittedTable(tmp_path, buckets=1)
    for value in range(3):
        table.append(value)
    (lost, *_) = table.live_entries()
    state = table.files.state
    path = state.data_file(lost.bucket_id, lost.file.file_name)
    state.file_io.delete(path)
    (sick,) = table.compact(Scope.FULL).quarantined
    assert sick.error.subject == path


def test_losing_every_round_is_reported_and_leaves_nothing(tmp_path: Path) -> None:
    table = CommittedTable(tmp_path)
    for value in range(3):
        table.append(value)

    def commit(messages: list[CommitMessage]) -> object:
        raise ConflictError("t", found="a race", expected="none", action="Plan again.")

    with pytest.raises(ConflictError):
        table.compact(Scope.FULL, commit)
    table.check(2)


def test_an_error_of_one_bucket_is_logged_where_another_lost_every_round(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = CommittedTable(tmp_path)
    table.append(1)

    def commit(messages: list[CommitMessage]) -> object:
        raise ConflictError("t", found="a race", expected="none", action="Plan again.")

    def run(planned: Iterable[BucketWork]) -> Iterator[tuple[BucketWork, Outcome]]:
        for work in planned:
            ((_, outcome),) = one_by_one(table.files.state)([work])
            if work.bucket.number == 0:
                assert isinstance(outcome, CommitMessage)
                discard(table.files.state, [outcome])
                outcome = LookupError("a fault")
            yield work, outcome

    with pytest.raises(ConflictError):
        table.compact(Scope.FULL, commit, run)
    assert [record.getMessage() for record in caplog.records if "a fault" in record.getMessage()]


def test_what_lost_is_all_that_is_planned_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = CommittedTable(tmp_path)
    table.append(1)
    planned, rounds = list[set[str]](), 0

    def plan(schema: object, engine: object, files: list[DataFileMeta], scope: object) -> Plan:
        planned.append({file.file_name for file in files})
        return plan_bucket(table.files.schema, table.files.state.engine, files, Scope.FULL)

    def commit(messages: list[CommitMessage]) -> object:
        nonlocal rounds
        rounds += 1
        if rounds == 2:
            raise ConflictError("t", found="a race", expected="none", action="Plan again.")
        return table.commit(messages)

    monkeypatch.setattr(compaction_job, "_GROUP_BUCKETS", 1)
    monkeypatch.setattr(table_kind, "plan_bucket", plan)
    table.compact(Scope.FULL, commit)
    assert len(table.commits) == 3
    assert planned == [*planned[:3], planned[1]]


def test_after_an_unknown_outcome_no_file_is_deleted(tmp_path: Path) -> None:
    """The commit went through, its answer got lost: deleting the files would destroy the table."""
    table = CommittedTable(tmp_path)
    for value in range(3):
        table.append(value)

    def commit(messages: list[CommitMessage]) -> object:
        table.commit(messages)
        raise StorageError("t", found="no answer", expected="one", action="Retry.")

    with pytest.raises(StorageError):
        table.compact(Scope.FULL, commit)
    assert table.levels() == {5}
    table.check(2)
