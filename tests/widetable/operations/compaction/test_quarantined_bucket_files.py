"""What is remembered of a bucket with a damaged file, and until when."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pyarrow as pa
import pytest

import widetable as wt
from widetable.errors import DamagedError
from widetable.format.bucket_id import BucketId
from widetable.format.data_file_meta import DataFileMeta
from widetable.lsm.bucket_plan import Scope, names_of, plan_bucket
from widetable.operations.compaction import quarantined_buckets as sick_buckets
from widetable.operations.compaction.quarantined_buckets import QuarantinedBuckets, is_of_bucket
from widetable.write.table_state import TableState

BUCKET = BucketId(b"", 0)
SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False)])


@pytest.fixture
def table(tmp_path: Path) -> wt.Table:
    options = {"write-only": "true", "widetable.fsync": "false", "bucket": "1"}
    made = wt.Catalog(str(tmp_path)).create_table("d.t", SCHEMA, primary_key=["k"], options=options)
    for number in range(3):
        made.write(pa.table({"k": [number]}, SCHEMA))
    return made


def files_of(table: wt.Table) -> list[DataFileMeta]:
    entries = table._committer.live_files.live_entries(table.snapshots()[-1])
    return [entry.file for entry in entries]


def plan_of(state: TableState, files: list[DataFileMeta]) -> list[str]:
    found = plan_bucket(state.schema, state.engine, files, Scope.FULL)
    assert found
    return names_of(found)


def damage(path: str) -> DamagedError:
    return DamagedError(path, found="no such file", expected="a file", action="Restore it.")


def test_a_plan_without_the_damaged_file_is_performed(table: wt.Table) -> None:
    state, files, known = table._state(table.schema), files_of(table), QuarantinedBuckets()
    met = damage(state.data_file(BUCKET, files[0].file_name))
    known.note(state, BUCKET, plan_of(state, files), met)
    found = known.find(state, BUCKET, plan_of(state, files))
    assert found is not None
    assert str(found.error) == str(met)
    assert known.find(state, BUCKET, plan_of(state, files[1:])) is None
    assert known.find(state, BucketId(b"", 1), plan_of(state, files)) is None


def test_a_damage_is_believed_for_a_while(table: wt.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file lies as before, but a storage may give wrong bytes for a time."""
    state, known = table._state(table.schema), QuarantinedBuckets()
    plan = plan_of(state, files_of(table))
    known.note(state, BUCKET, plan, damage("the bucket"))
    assert len(known.of(state)) == 1
    monkeypatch.setattr(sick_buckets, "RETRY_SECONDS", 0.0)
    known.note(state, BUCKET, plan, damage("the bucket"))
    assert known.of(state) == []
    known.note(state, BUCKET, plan, damage("the bucket"))
    assert known.find(state, BUCKET, plan) is None


@pytest.mark.parametrize("is_asked_by_plan", [False, True])
def test_a_file_that_lies_otherwise_is_not_the_damaged_one(
    table: wt.Table, is_asked_by_plan: bool
) -> None:
    state, files, known = table._state(table.schema), files_of(table), QuarantinedBuckets()
    path = state.data_file(BUCKET, files[0].file_name)
    known.note(state, BUCKET, plan_of(state, files), damage(path))
    assert [sick.subject for sick in known.of(state)] == [path]
    os.utime(path, (1, 1))
    if is_asked_by_plan:
        assert known.find(state, BUCKET, plan_of(state, files)) is None
    assert known.of(state) == []


def test_threads_keep_no_more_than_the_most(
    table: wt.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All look at their files at one time."""
    state, known, together = table._state(table.schema), QuarantinedBuckets(), Barrier(4)
    plan = plan_of(state, files_of(table))

    def lie(*_: object) -> dict[str, None]:
        together.wait(timeout=60)
        return {}

    with monkeypatch.context() as patched, ThreadPoolExecutor(4) as threads:
        patched.setattr(sick_buckets, "_MAX_BUCKETS", 1)
        patched.setattr(sick_buckets, "_statuses", lie)
        buckets = [BucketId(b"", number) for number in range(4)]
        list(threads.map(lambda each: known.note(state, each, plan, damage("f")), buckets))
    monkeypatch.setattr(sick_buckets, "_statuses", lambda *_: {})
    assert len(known.of(state)) == 1


def test_a_schema_is_of_all_buckets(table: wt.Table) -> None:
    state = table._state(table.schema)
    assert not is_of_bucket(state, damage(state.paths.schema(0)))
    assert is_of_bucket(state, damage(state.data_file(BUCKET, files_of(table)[0].file_name)))
