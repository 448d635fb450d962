"""Requests to an object store that operations make, and what a million of them cost at list prices (scale/prices.py).

Counted at the tests' server on loopback, behind their proxy; a count is the same on every machine. The table has two
buckets; each operation is done twice before it is counted.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa

import widetable as wt
from benchmarks.engine.wide_rows import wide_rows, wide_schema
from benchmarks.harness import Row, Size
from benchmarks.scale.costs import Requests
from benchmarks.scale.prices import CLOUD
from benchmarks.scale.request_counts import CountingProxy, counting_store
from tests.object_stores.s3_server import BUCKET
from widetable.write.commit_message import CommitMessage

_COLUMNS = {"k": "BIGINT", "a": "INT", "a_at": "BIGINT", "b": "STRING", "b_at": "BIGINT"}
_OPTIONS = {
    "merge-engine": "partial-update",
    "bucket": "2",
    "write-only": "true",
    "changelog-producer": "lookup",
    "fields.a_at.sequence-group": "a",
    "fields.b_at.sequence-group": "b",
}
_MAX_OF_COMMIT, _MAX_OF_LOOKUP = 8, 0
_TIMES = 3
_WIDE_ROWS = {Size.FULL: 600_000, Size.SHORT: 100_000, Size.TINY: 1_000}


def run(size: Size) -> list[Row]:
    with counting_store() as counter:
        rows = _rows(_Operations(counter, _WIDE_ROWS[size]))
    for row in rows:
        row.ok = row.ok if size is Size.FULL else None
    return rows


class _Operations:
    """On a table of its own."""

    def __init__(self, counter: CountingProxy, wide_rows: int) -> None:
        self._counter = counter
        self._wide_rows = wide_rows
        catalog = wt.Catalog(f"s3://{BUCKET}/{uuid.uuid4().hex}")
        self.table = catalog.create_table("db.t", _COLUMNS, primary_key=["k"], options=_OPTIONS)
        self._number = 0
        self._wide: wt.Table | None = None

    def data(self) -> pa.Table:
        self._number += 1
        at = pa.array([self._number] * 100)
        return pa.table({"k": range(100), "a": at.cast(pa.int32()), "a_at": at})

    def files(self) -> list[CommitMessage]:
        data = self.data()
        with self.table.new_writer(data.column_names) as writer:
            writer.write(data.to_batches())
            return writer.finish()

    def counted(self, call: Callable[[], object]) -> Requests:
        """Of the last of some calls."""
        return [self._counter.counted(call) for _ in range(_TIMES)][-1]

    def commit(self) -> Requests:
        """Without the files that are committed."""
        return [
            self._counter.counted(partial(self.table.commit_append, files))
            for files in [self.files() for _ in range(_TIMES)]
        ][-1]

    def write(self) -> Requests:
        return self.counted(lambda: self.table.write(self.data()))

    def commit_after_another(self) -> Requests:
        """Somebody else has committed since ours."""
        other = wt.Table.open(self.table.path)
        found = Requests()
        for files in [self.files() for _ in range(_TIMES)]:
            other.write(self.data())
            found = self._counter.counted(partial(self.table.commit_append, files))
        return found

    def compaction(self) -> Requests:
        self.table.compact()
        found = Requests()
        for _ in range(_TIMES):
            self.table.write(self.data())
            found = self._counter.counted(self.table.compact)
        return found

    def scan(self) -> Requests:
        return self.counted(lambda: self.table.scan().to_arrow())

    def wide_scan(self, columns: list[str] | None) -> Requests:
        """Of one file of 20 columns; of 40 MB and eight row groups in full size."""
        if self._wide is None:
            schema = wide_schema(20)
            url = f"s3://{BUCKET}/{uuid.uuid4().hex}"
            self._wide = wt.Catalog(url).create_table(
                "db.wide", schema, primary_key=["k"], options={"bucket": "1"}
            )
            self._wide.write(wide_rows(schema, np.arange(self._wide_rows), 3))
            self._wide.compact(full=True)
        scan = self._wide.scan(columns=columns)
        return self.counted(lambda: scan.to_arrow())

    def lookup(self) -> Requests:
        return self.counted(lambda: self.table.lookup([1, 2, 3]))

    def session_lookup(self) -> Requests:
        with self.table.lookup_session() as session:
            return self.counted(lambda: session.lookup([1, 2, 3]))

    def opening(self) -> Requests:
        return self.counted(lambda: wt.Table.open(self.table.path))


def _rows(done: _Operations) -> list[Row]:
    return [
        _row("commit", done.commit(), _MAX_OF_COMMIT),
        _row("commit after another writer's", done.commit_after_another()),
        _row("write into 2 buckets, 2 files", done.write()),
        _row("compaction of 2 buckets with lookup changelog", done.compaction()),
        _row("scan of 2 files", done.scan()),
        _row("scan of 40 MB in a file, 20 columns", done.wide_scan(None)),
        _row("scan of 3 of its columns", done.wide_scan(["k", "c3", "c12"])),
        _row("lookup of the newest rows, warm", done.lookup()),
        _row("lookup of a session, warm", done.session_lookup(), _MAX_OF_LOOKUP),
        _row("open a table", done.opening()),
    ]


def _row(name: str, asked: Requests, most: int | None = None) -> Row:
    dollars = 1e6 * ((asked.puts + asked.lists) * CLOUD.prices.put + asked.gets * CLOUD.prices.get)
    kinds = {"puts": asked.puts, "lists": asked.lists, "gets": asked.gets, "deletes": asked.deletes}
    said = ", ".join(f"{count:g} {kind}" for kind, count in kinds.items() if count)
    return Row(
        f"requests: {name}",
        f"{asked.total:g}" + (f" ({said})" if said else "") + f"; ${dollars:.2f} a million",
        target="" if most is None else f"≤ {most}",
        ok=None if most is None else asked.total <= most and not asked.lists,
        details=kinds,
    )
