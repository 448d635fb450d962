"""How often the buckets of an append are planned: once for each scope, and again only where files differ by then."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.faults.faults import FaultyFileIO
from tests.support.tables.barrier_tables import NAME, new_table
from widetable.format.data_file_meta import DataFileMeta
from widetable.lsm import table_kind
from widetable.lsm.bucket_plan import Plan, Scope, plan_bucket
from widetable.merge.merge_engine import MergeEngine
from widetable.schema.table_schema import TableSchema
from widetable.storage.local import LocalFileIO
from widetable.storage.paths import TablePaths

COLUMNS = pa.schema([pa.field("k", pa.int64(), nullable=False), ("a", pa.int64())])
LOOKUP = {"changelog-producer": "lookup"}
# Old levels are compacted behind a commit as soon as there are two of them.
BEHIND = LOOKUP | {
    "widetable.inline-compaction-size": "0 b",
    "num-sorted-run.compaction-trigger": "3",
}


class Planned:
    """Spies on the pure function. calls: scope and number of files of each call, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[Scope, int]] = []
        monkeypatch.setattr(table_kind, "plan_bucket", self._plan)

    def _plan(
        self, schema: TableSchema, engine: MergeEngine, files: Iterable[DataFileMeta], scope: Scope
    ) -> Plan:
        files = list(files)
        self.calls.append((scope, len(files)))
        return plan_bucket(schema, engine, files, scope)

    def of(self, scope: Scope) -> int:
        return sum(call == scope for call, _ in self.calls)


def make(path: Path, **options: str) -> wt.Table:
    options = {
        "merge-engine": "partial-update",
        "bucket": "4",
        "widetable.fsync": "false",
    } | options
    return wt.Catalog(str(path)).create_table("db.t", COLUMNS, primary_key=["k"], options=options)


def write(table: wt.Table, value: int, keys: Iterable[int] = range(100)) -> None:
    keys = list(keys)
    table.write(pa.table({"k": keys, "a": [value] * len(keys)}))
    table.wait_for_compactions()


@pytest.mark.parametrize("waits", ["true", "false"])
def test_a_bucket_of_an_append_is_planned_once_per_scope(
    waits: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(tmp_path, **LOOKUP, **{"lookup-wait": waits})
    write(table, 1)
    planned = Planned(monkeypatch)
    write(table, 2)
    assert table.snapshots()[-1].commit_kind == "COMPACT"
    assert (planned.of(Scope.COMMIT), planned.of(Scope.REST), len(planned.calls)) == (4, 4, 8)
    write(table, 3, [7])
    assert (planned.of(Scope.COMMIT), planned.of(Scope.REST), len(planned.calls)) == (5, 5, 10)


def test_a_bucket_without_a_changelog_is_planned_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(tmp_path, **{"num-sorted-run.compaction-trigger": "3"})
    planned = Planned(monkeypatch)
    for value in range(3):
        write(table, value)
    assert table.snapshots()[-1].commit_kind == "COMPACT"
    assert planned.calls == [(Scope.COMMIT, files) for files in (1, 2, 3) for _ in range(4)]


def test_what_is_left_to_the_other_thread_is_not_planned_there_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(tmp_path, **BEHIND)
    planned = Planned(monkeypatch)
    for value in range(6):
        write(table, value)
    rests = [
        s for s in table.snapshots() if s.commit_kind == "COMPACT" and not s.changelog_record_count
    ]
    assert rests
    assert (planned.of(Scope.COMMIT), planned.of(Scope.REST)) == (24, 24)
    assert table.audit(start=0).ok


@pytest.mark.parametrize("producer", ["none", "lookup"])
def test_what_a_thread_compacts_up_to_a_barrier_is_not_planned_there_again(
    producer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_table(
        tmp_path, widetable__inline_compaction_size="0 b", changelog_producer=producer
    )
    writer = wt.Catalog(tmp_path).writer(NAME, "w")
    planned = Planned(monkeypatch)
    for at in range(6):
        writer.write({"id": [at], "a": [at]}, barrier=10, complete=at == 5)
    table.wait_for_compactions()
    assert [call for call in planned.calls if call[0] is Scope.COMMIT] == [(Scope.COMMIT, 6)]
    assert all(file.level for split in table.scan().splits() for file in split.files)


class OvertakenFileIO(LocalFileIO):
    """Another writer appends the key 7 while an append stands in the queue of compactions. roots: its table, once."""

    def __init__(self) -> None:
        super().__init__(fsync=False)
        self.roots: list[str] = []

    def turn(self, path: str) -> AbstractContextManager[bool]:
        if path in [TablePaths(root).compaction_queue for root in self.roots]:
            other = wt.Table.open(self.roots.pop(), file_io=FaultyFileIO(LocalFileIO(fsync=False)))
            with other.new_writer(["k", "a"]) as writer:
                writer.write([pa.RecordBatch.from_pydict({"k": [7], "a": [99]})])
                other._committer.append(writer.finish())
        return super().turn(path)


def test_a_bucket_that_got_a_file_meanwhile_is_planned_again_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file_io = OvertakenFileIO()
    table = wt.Table.open(make(tmp_path, **LOOKUP).path, file_io=file_io)
    write(table, 1)
    planned = Planned(monkeypatch)
    file_io.roots = [table.path]
    write(table, 2)
    assert not file_io.roots
    assert planned.calls[:5] == [*[(Scope.COMMIT, 2)] * 4, (Scope.COMMIT, 3)]
    assert planned.of(Scope.COMMIT) == 5
    assert all(file.level for split in table.scan().splits() for file in split.files)
    assert {row["a"] for row in table.scan().to_arrow().to_pylist() if row["k"] == 7} == {99}
    assert table.audit(start=0).ok
