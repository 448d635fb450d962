"""Commits on a storage that fails: what is reported is what happened, and the table stays readable."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.faults.faults import READS, WRITES, Fault, FaultyFileIO
from tests.widetable.commit.transaction.fake_table import (
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
from widetable.commit.transaction.commit_identity import Identity
from widetable.commit.transaction.commit_result import CommitResult
from widetable.commit.transaction.committer import Committer
from widetable.errors import ConflictError, StorageError
from widetable.format.data_file_meta import DataFileMeta
from widetable.storage.local import LocalFileIO
from widetable.storage.paths import TablePaths

IO = LocalFileIO(fsync=False)


@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize("name", ["/manifest-list-", "/manifest-"])
def test_an_error_before_the_publish_leaves_no_trace(
    tmp_path: Path, fault: Fault, name: str
) -> None:
    paths = make_table(tmp_path)
    file_io = FaultyFileIO(IO)
    table = committer(paths, file_io)
    table.append([written(data_file("a"))], Identity.of("job", 0))
    file_io.fail("write_new", fault, name)
    with pytest.raises(StorageError):
        table.append([written(data_file("b"))], Identity.of("job", 1))
    assert live_names(table) == ["a"]
    assert metadata_files(paths) == named_metadata_files(table)
    assert table.append([written(data_file("b"))], Identity.of("job", 1)).snapshot_id == 2


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.FULL])
def test_a_publish_that_failed_is_reported_and_can_be_repeated(
    tmp_path: Path, fault: Fault
) -> None:
    paths = make_table(tmp_path)
    file_io = FaultyFileIO(IO)
    table = committer(paths, file_io)
    file_io.fail("publish", fault, "snapshot-1")
    with pytest.raises(StorageError):
        table.append([written(data_file("a"))], Identity.of("job", 0))
    assert table.snapshots.latest() is None
    assert table.append([written(data_file("a"))], Identity.of("job", 0)).committed
    assert live_names(table) == ["a"]


def test_a_publish_whose_answer_was_lost_is_found(tmp_path: Path) -> None:
    file_io = FaultyFileIO(IO)
    table = committer(make_table(tmp_path), file_io)
    file_io.fail("publish", Fault.AFTER, "snapshot-1")
    # The first looks for it fail as well.
    file_io.fail("read", Fault.BEFORE, "snapshot-1", times=3)
    result = table.append([written(data_file("a"))], Identity.of("job", 0))
    assert (result.committed, result.snapshot_id, result.retries) == (True, 1, 0)
    assert live_names(table) == ["a"]


class AskingTwice(FaultyFileIO):
    """As clients of object stores do: repeats what was done, and hears that it exists."""

    def publish(self, path: str, data: bytes) -> bool:
        super().publish(path, data)
        return super().publish(path, data)


def test_a_storage_that_finds_its_own_snapshot(tmp_path: Path) -> None:
    table = committer(make_table(tmp_path), AskingTwice(IO))
    for number, name in enumerate("ab"):
        result = table.append([written(data_file(name))], Identity.of("job", number))
        assert (result.committed, result.snapshot_id, result.retries) == (True, number + 1, 0)
    assert live_names(table) == ["a", "b"]


def test_a_lost_answer_and_another_winner(tmp_path: Path) -> None:
    """The publish fails and snapshot-2 is there, but it is somebody else's."""
    paths = make_table(tmp_path)
    other = committer(paths)
    other.append([written(data_file("a"))])
    file_io = FaultyFileIO(IO)
    table = committer(paths, file_io)
    file_io.run_before("publish", lambda: other.append([written(data_file("b"))]), "snapshot-2")
    file_io.fail("publish", Fault.BEFORE, "snapshot-2")
    result = table.append([written(data_file("mine"))])
    assert (result.snapshot_id, result.retries) == (3, 1)
    assert live_names(table) == ["a", "b", "mine"]
    assert metadata_files(paths) == named_metadata_files(table)


@pytest.mark.parametrize("went_through", [True, False])
def test_an_outcome_that_is_not_known_deletes_nothing_and_can_be_repeated(
    tmp_path: Path, went_through: bool
) -> None:
    paths = make_table(tmp_path)
    file_io = FaultyFileIO(IO)
    table = committer(paths, file_io)
    table.append([written(data_file("a"))], Identity.of("job", 0))
    file_io.fail("publish", Fault.AFTER if went_through else Fault.BEFORE, "snapshot-2")
    file_io.fail("read", Fault.BEFORE, "snapshot-2", times=100)
    with pytest.raises(StorageError, match="same user and identifier"):
        table.append([written(data_file("b"))], Identity.of("job", 1))
    file_io.heal()
    assert file_io.count("delete") == 0
    MANIFEST_CACHE.clear()
    assert live_names(table) == (["a", "b"] if went_through else ["a"])
    again = table.append([written(data_file("b"))], Identity.of("job", 1))
    assert (again.committed, again.snapshot_id) == (not went_through, 2)
    assert live_names(table) == ["a", "b"]


def test_a_compaction_that_may_be_in_keeps_its_files(tmp_path: Path) -> None:
    paths = make_table(tmp_path)
    file_io = FaultyFileIO(IO)
    table = committer(paths, file_io)
    a = data_file("a")
    table.append([written(a)])
    IO.write_new(paths.data_file((), 0, "a2"), b"x")
    file_io.fail("publish", Fault.AFTER, "snapshot-2")
    file_io.fail("read", Fault.BEFORE, "snapshot-2", times=100)
    with pytest.raises(StorageError):
        table.compact([compacted([a], [data_file("a2", level=5)])])
    file_io.heal()
    assert IO.exists(paths.data_file((), 0, "a2"))
    assert live_names(table) == ["a2"]


def test_a_compaction_that_failed_before_the_publish_drops_its_files(tmp_path: Path) -> None:
    paths = make_table(tmp_path)
    file_io = FaultyFileIO(IO)
    table = committer(paths, file_io)
    a = data_file("a")
    table.append([written(a)])
    IO.write_new(paths.data_file((), 0, "a2"), b"x")
    file_io.fail("write_new", Fault.FULL, "manifest-list", skip=1)
    with pytest.raises(StorageError):
        table.compact([compacted([a], [data_file("a2", level=5)])])
    assert not IO.exists(paths.data_file((), 0, "a2"))
    assert metadata_files(paths) == named_metadata_files(table)


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER])
@pytest.mark.parametrize("hint", ["LATEST", "EARLIEST"])
def test_hints_may_fail(tmp_path: Path, fault: Fault, hint: str) -> None:
    paths = make_table(tmp_path)
    file_io = FaultyFileIO(IO)
    table = committer(paths, file_io)
    file_io.fail("replace", fault, hint, times=3)
    for number in range(3):
        assert table.append([written()]).snapshot_id == number + 1
    assert len(live_names(table)) == 3


class Crash(BaseException):
    """The process is gone: nothing of it runs any more."""


CRASH_POINTS = [
    ("read", "", False),
    ("write_new", "/manifest-", False),
    ("publish", "snapshot-2", False),
    ("replace", "LATEST", True),
]


@pytest.mark.parametrize(("operation", "name", "is_in"), CRASH_POINTS)
def test_a_crash_leaves_the_commit_out_or_in(
    tmp_path: Path, operation: str, name: str, is_in: bool
) -> None:
    def crash() -> None:
        raise Crash

    paths = make_table(tmp_path)
    file_io = FaultyFileIO(IO)
    table = committer(paths, file_io)
    table.append([written(data_file("a"))], Identity.of("job", 0))
    file_io.run_before(operation, crash, name)
    with pytest.raises(Crash):
        table.append([written(data_file("b"))], Identity.of("job", 1))
    MANIFEST_CACHE.clear()
    after = committer(paths)
    assert live_names(after) == (["a", "b"] if is_in else ["a"])
    assert after.append([written(data_file("b"))], Identity.of("job", 1)).committed is not is_in
    assert after.append([written(data_file("c"))], Identity.of("job", 2)).snapshot_id == 3
    assert live_names(after) == ["a", "b", "c"]


@dataclass
class Model:
    """What the table must hold. live: file name -> (bucket, meta), oldest first."""

    live: dict[str, tuple[int, DataFileMeta]] = field(default_factory=dict)
    snapshots: int = 0
    next_identifier: int = 0

    def append(self, bucket: int, files: list[DataFileMeta]) -> None:
        self.live |= {file.file_name: (bucket, file) for file in files}
        self.snapshots += 1

    def overwrite(self, bucket: int, files: list[DataFileMeta]) -> None:
        self.live.clear()
        self.append(bucket, files)

    def compact(self, before: list[DataFileMeta], bucket: int, files: list[DataFileMeta]) -> None:
        for file in before:
            del self.live[file.file_name]
        self.append(bucket, files)


class Interleaving:
    """Runs commits on a storage with faults, and others inside of them, and holds the table against the model."""

    def __init__(self, root: Path, seed: int, rate: float) -> None:
        self.paths: TablePaths = make_table(root, {"manifest.merge-min-count": "4"})
        self.file_io = FaultyFileIO(IO, seed=seed, operations=[*WRITES, *READS])
        self.rate = rate
        self.clean = committer(self.paths)
        self.faulty = committer(self.paths, self.file_io)
        self.model = Model()

    def step(self, kind: str, bucket: int, between: str | None) -> None:
        """One commit under faults, with a clean one before its first publish when `between` names a kind."""
        self.file_io.heal()
        if between is not None:
            self.file_io.run_before(
                "publish", lambda: self._perform(self.clean, between, bucket), "snapshot-"
            )
        self.file_io.rate = self.rate
        self._perform(self.faulty, kind, bucket)
        self.file_io.heal()
        self.check()

    def check(self) -> None:
        MANIFEST_CACHE.clear()
        reader = committer(self.paths)
        assert live_names(reader) == sorted(self.model.live)
        latest = reader.snapshots.latest()
        assert (latest.id if latest else 0) == self.model.snapshots
        rows = sum(file.row_count for _, file in self.model.live.values())
        assert (latest.total_record_count if latest else 0) == rows
        assert named_metadata_files(reader) <= metadata_files(self.paths)

    def _perform(self, table: Committer, kind: str, bucket: int) -> None:
        identifier, self.model.next_identifier = (
            self.model.next_identifier,
            self.model.next_identifier + 1,
        )
        user = f"{kind}-{identifier}"
        new = [data_file(), data_file()]
        if kind == "compact":
            self._compact(table, bucket, identifier)
            return
        commit = self._append if kind == "append" else self._overwrite
        try:
            result = commit(table, bucket, new, user, identifier)
        except StorageError as error:
            was_in, reported = self._is_in(user), "same user and identifier" in str(error)
        else:
            assert result.committed
            was_in = reported = True
        assert reported or not was_in
        # Asked again on a storage that works, it counts once.
        assert commit(self.clean, bucket, new, user, identifier).committed is not was_in
        assert self._is_in(user)
        if kind == "append":
            self.model.append(bucket, new)
        else:
            self.model.overwrite(bucket, new)

    def _append(
        self, table: Committer, bucket: int, new: list[DataFileMeta], user: str, identifier: int
    ) -> CommitResult:
        return table.append([written(*new, bucket=bucket)], Identity.of(user, identifier))

    def _overwrite(
        self, table: Committer, bucket: int, new: list[DataFileMeta], user: str, identifier: int
    ) -> CommitResult:
        return table.overwrite(None, [written(*new, bucket=bucket)], Identity.of(user, identifier))

    def _compact(self, table: Committer, bucket: int, identifier: int) -> None:
        before = [file for at, file in self.model.live.values() if at == bucket and file.level == 0]
        if not before:
            return
        # Keys of its own, so that only the files of `before` can be fought over.
        after = [data_file(level=5, low=100 * identifier, high=100 * identifier + 9)]
        may_be_published = True
        try:
            assert table.compact([compacted(before, after, bucket)]).committed
        except ConflictError:
            may_be_published = False
        except StorageError as error:
            may_be_published = "same user and identifier" in str(error)
        else:
            assert after[0].file_name in live_names(self.clean)
        is_in = after[0].file_name in live_names(self.clean)
        assert may_be_published or not is_in
        if is_in:
            self.model.compact(before, bucket, after)

    def _is_in(self, user: str) -> bool:
        ids = self.clean.snapshots.ids()
        return any(self.clean.snapshots.load(id).commit_user == user for id in ids)


KINDS = st.sampled_from(["append", "append", "compact", "overwrite"])
STEPS = st.lists(
    st.tuples(KINDS, st.integers(0, 1), st.one_of(st.none(), KINDS)), min_size=1, max_size=8
)


@given(steps=STEPS, seed=st.integers(0, 2**32), rate=st.sampled_from([0.0, 0.02, 0.2]))
def test_any_interleaving_under_faults_is_what_was_reported(
    steps: list[tuple[str, int, str | None]], seed: int, rate: float
) -> None:
    with TemporaryDirectory() as root:
        run = Interleaving(Path(root) / "t", seed, rate)
        for kind, bucket, between in steps:
            run.step(kind, bucket, between)
