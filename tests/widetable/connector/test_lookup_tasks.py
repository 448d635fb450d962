"""What lookup joins leave behind in a process: leases and open files, also between threads and after a fork."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from widetable import Catalog, Table
from widetable.connector import JoinArguments, LookupTasks, plan_lookup_join
from widetable.connector.lookup_tasks import KEPT

LEFT = pa.schema([("k", pa.int64())])


@pytest.fixture
def dim(tmp_path: Path) -> Table:
    columns = {"k": "BIGINT", "a": "BIGINT"}
    table = Catalog(tmp_path).create_table(
        "db.dim", columns, primary_key=["k"], options={"bucket": "1"}
    )
    table.write([{"k": 1, "a": 10}])
    return table


@pytest.fixture
def join(dim: Table) -> LookupTasks:
    KEPT.release_leases()
    return plan_lookup_join(LEFT, dim, JoinArguments(["k"]))


def rows(join: LookupTasks) -> list[dict[str, object]]:
    joined = join.joined([pa.record_batch({"k": [1]})], join.newest_pin())
    return [row for batch in joined for row in batch.to_pylist()]


def test_leases_that_threads_take_at_once_are_all_kept(dim: Table, join: LookupTasks) -> None:
    with ThreadPoolExecutor(16) as threads:
        list(threads.map(lambda _: join.newest_pin(), range(32)))
    assert len(KEPT._leases) == 32
    KEPT.release_leases()
    assert KEPT._leases == []


def test_a_join_that_nobody_reads_leaves_the_open_files_where_they_are(join: LookupTasks) -> None:
    assert rows(join) == [{"k": 1, "a": 10}]
    kept = dict(KEPT._joins)
    join.joined([pa.record_batch({"k": [1]})], join.newest_pin())
    assert dict(KEPT._joins) == kept
    assert len(kept) >= 1


def test_a_join_that_is_left_in_the_middle_keeps_its_files(join: LookupTasks) -> None:
    batches = [pa.record_batch({"k": [1]})] * 2
    joined = join.joined(batches, join.newest_pin())
    next(joined)
    taken = len(KEPT._joins)
    joined.close()  # type: ignore[attr-defined]
    assert len(KEPT._joins) == taken + 1
    assert rows(join) == [{"k": 1, "a": 10}]


def test_a_forked_child_begins_without_files_and_leases(dim: Table, join: LookupTasks) -> None:
    assert rows(join) == [{"k": 1, "a": 10}]
    child = os.fork()
    if not child:
        is_empty = not KEPT._joins and not KEPT._leases
        os._exit(0 if is_empty and rows(join) == [{"k": 1, "a": 10}] else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert len(KEPT._leases) == 1, "the parent keeps its own"
