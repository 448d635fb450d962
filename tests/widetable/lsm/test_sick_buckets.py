"""What is remembered of a bucket with a damaged file, and until when."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from widetable.errors import DamagedError
from widetable.format.bucket_id import BucketId
from widetable.format.data_file_meta import DataFileMeta
from widetable.lsm import sick_buckets
from widetable.lsm.bucket_plan import Plan, Scope, plan_bucket
from widetable.lsm.sick_buckets import SickBuckets, is_of_bucket
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


def plan_of(state: TableState, files: list[DataFileMeta]) -> Plan:
    found = plan_bucket(state.schema, state.engine, files, Scope.FULL)
    assert found
    return found


def damage(path: str) -> DamagedError:
    return DamagedError(path, found="no such file", expected="a file", action="Restore it.")


def test_a_plan_without_the_damaged_file_is_performed(table: wt.Table) -> None:
    state, files, known = table._state(table.schema), files_of(table), SickBuckets()
    met = damage(state.data_file(BUCKET, files[0].file_name))
    known.note(state, BUCKET, plan_of(state, files), met)
    found = known.known(state, BUCKET, plan_of(state, files))
    assert found is not None
    assert str(found.error) == str(met)
    assert known.known(state, BUCKET, plan_of(state, files[1:])) is None
    assert known.known(state, BucketId(b"", 1), plan_of(state, files)) is None


def test_a_damage_is_believed_for_a_while(table: wt.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file lies as before, but a storage may give wrong bytes for a time."""
    state, known = table._state(table.schema), SickBuckets()
    plan = plan_of(state, files_of(table))
    monkeypatch.setattr(sick_buckets, "LOOK_AGAIN_SECONDS", 0.0)
    known.note(state, BUCKET, plan, damage("the bucket"))
    assert known.of(table.path)
    assert known.known(state, BUCKET, plan) is None
    assert not known.of(table.path)


def test_a_schema_is_of_all_buckets(table: wt.Table) -> None:
    state = table._state(table.schema)
    assert not is_of_bucket(state, damage(state.paths.schema(0)))
    assert is_of_bucket(state, damage(state.data_file(BUCKET, files_of(table)[0].file_name)))
