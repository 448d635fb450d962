"""A table that is dropped and made again while an operation of an old handle goes on: its answer is that of the first
table, or an error that says what happened. Never another table's rows, an expired snapshot or a missing file.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.faults.faults import Fault, FaultyFileIO
from tests.support.tables.later_state import LaterState
from widetable.storage.local import LocalFileIO

OPTIONS = {"bucket": "1", "widetable.fsync": "false", "write-only": "true"}
FIRST: dict[str, pa.DataType | str] = {"k": "BIGINT", "a": "BIGINT"}
# The columns of the second table come in another order: by the schema of the first its rows would be wrong.
SECOND: dict[str, pa.DataType | str] = {"k": "BIGINT", "b": "BIGINT", "a": "BIGINT"}


def create(root: Path, columns: dict[str, pa.DataType | str]) -> wt.Table:
    return wt.Catalog(root).create_table("d.t", columns, primary_key=["k"], options=OPTIONS)


def first_table(root: Path) -> wt.Table:
    """Four snapshots; tag `second` is of the second."""
    table = create(root, FIRST)
    for k in (1, 2, 3, 4):
        table.write({"k": [1, k + 1], "a": [10 * k, k]})
    table.create_tag("second", 2)
    return table


def make_again(root: Path) -> None:
    """With fewer snapshots, whose rows have other values."""
    wt.Catalog(root).drop_table("d.t")
    second = create(root, SECOND)
    for value in (777, 778, 779):
        second.write({"k": [1], "b": [value], "a": [value]})


class InterruptedFileIO(FaultyFileIO):
    """Does something else before one of the calls that come, whichever it is."""

    calls_left: int | None = None
    action: Callable[[], object] = staticmethod(lambda: None)

    @property
    def was_interrupted(self) -> bool:
        return self.calls_left is None

    def _fault(self, operation: str, path: str) -> Fault | None:
        if self.calls_left is not None:
            self.calls_left -= 1
            if self.calls_left < 0:
                self.calls_left = None
                self.action()
        return super()._fault(operation, path)


def followed(table: wt.Table, **how: Any) -> list[Any]:
    return [row for batch in table.follow(timeout=0, **how) for row in batch.to_pylist()]


def looked_up(table: wt.Table) -> list[Any]:
    with table.lookup_session(snapshot_id=3) as session:
        found: list[Any] = session.lookup([1]).to_pylist()
        return found


def joined(table: wt.Table) -> list[Any]:
    left = pa.RecordBatch.from_pydict({"k": pa.array([1], pa.int64())})
    found = wt.lookup_join([left], table, on=["k"], snapshot_id=3)
    return [row for batch in found for row in batch.to_pylist()]


LONG_AFTER = [{"k": 1, "t": datetime(2100, 1, 1)}]
READS: dict[str, Callable[[wt.Table], Any]] = {
    "scan": lambda table: table.scan().to_arrow().to_pylist(),
    "scan of a snapshot": lambda table: table.scan(snapshot_id=3).to_arrow().to_pylist(),
    "scan of a tag": lambda table: table.scan(tag="second").to_arrow().to_pylist(),
    "count": lambda table: table.scan(snapshot_id=2).count(),
    "lookup": lambda table: table.lookup([1]).to_pylist(),
    "lookup in a snapshot": lambda table: table.lookup([1], snapshot_id=3).to_pylist(),
    "lookup by prefix": lambda table: table.lookup_prefix([1], snapshot_id=3).to_pylist(),
    "point in time": lambda table: table.point_in_time(LONG_AFTER, "t").to_pylist(),
    "lookup session": looked_up,
    "lookup join": joined,
    "changes": lambda table: table.changes(1, 3).to_pylist(),
    "changes from a tag": lambda table: table.changes("second", 3).to_pylist(),
    "difference": lambda table: table.changes(1, 3, mode="diff").to_pylist(),
    "follow": followed,
    "follow from a snapshot": lambda table: followed(table, snapshot_id=3),
    "follow from a whole snapshot": lambda table: followed(
        table, scan_mode="from-snapshot-full", snapshot_id=3
    ),
    "follow as a consumer": lambda table: followed(table, consumer_id="c", snapshot_id=2),
    "explain": lambda table: table.explain(1, as_of=3).to_dict() | {"path": ""},
    "snapshots": lambda table: [snapshot.uuid for snapshot in table.snapshots()],
    "tags": lambda table: [snapshot.uuid for snapshot in table.tags().values()],
}


def outcome(read: str, table: wt.Table) -> Any:
    """What a read gives, or says of a table that was made again. What it says otherwise is raised."""
    try:
        return READS[read](table)
    except wt.InvalidError as error:
        if "dropped and made again" not in str(error):
            raise
        return "dropped and made again"


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root of the first table."""
    root = tmp_path_factory.mktemp("first") / "root"
    first_table(root)
    return root


@pytest.fixture(scope="module")
def again(first: Path, tmp_path_factory: pytest.TempPathFactory) -> LaterState:
    return LaterState.made(first, make_again, tmp_path_factory.mktemp("again") / "root")


@pytest.mark.parametrize("read", READS)
def test_a_read_is_of_the_table_that_was_opened_or_says_that_it_was_made_again(
    first: Path, again: LaterState, tmp_path: Path, read: str
) -> None:
    """Interrupted before each call to the storage that it makes, by turns with and without lists that are kept."""
    undisturbed = shutil.copytree(first, tmp_path / "undisturbed")
    expected = READS[read](wt.Catalog(undisturbed).table("d.t"))
    was_interrupted, calls = True, 0
    while was_interrupted:
        root = shutil.copytree(first, tmp_path / str(calls))
        path = wt.Catalog(root).table("d.t").path
        storage = InterruptedFileIO(LocalFileIO(fsync=False))
        table = wt.Table.open(path, file_io=storage)
        if calls % 2:
            table.scan().to_arrow()
        storage.action, storage.calls_left = partial(again.play, root), calls
        assert outcome(read, table) in (expected, "dropped and made again")
        was_interrupted = storage.was_interrupted
        calls += 1
    assert calls > 1
