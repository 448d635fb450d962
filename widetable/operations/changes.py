"""The changes of a range of snapshots, as `Table.changes` gives them.

In: start exclusive, end inclusive. Out: record batches in the order of snapshot, partition values, bucket, key and
event. Raises InvalidError for a range that runs backwards, NotFoundError for one with snapshots that are not there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from widetable.arguments import refused, whole_number
from widetable.errors import NotFoundError
from widetable.operations.open_table import OpenTable
from widetable.operations.supported import check_readable
from widetable.read.change_source import ChangeSource
from widetable.read.stream_plan import Piece


def changes(
    table: OpenTable, start: int, end: int, columns: Sequence[str] | None = None
) -> pa.Table:
    """What the snapshots after `start` up to `end` changed: the columns, and `_row_kind` (+I, -U, +U, -D) last.

    In the order of snapshot, partition values, bucket, key and event, in today's columns (None: all). Tables with a
    changelog producer give their changelog, others the records of each append as they were written. `start` = `end`
    gives nothing. Raises NotFoundError, which says what is there, when snapshots of the range have expired or are
    yet to come.
    """
    source = change_source(table, columns)
    return pa.Table.from_batches(batches_of(source, start, end), source.arrow_schema)


def change_batches(
    table: OpenTable, start: int, end: int, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """As `changes`, batch by batch: for ranges that memory does not hold."""
    return batches_of(change_source(table, columns), start, end)


def change_source(table: OpenTable, columns: Sequence[str] | None = None) -> ChangeSource:
    """What streams of changes read from; its columns stay as they are now."""
    schema = table.schema
    check_readable(schema)
    committer = table._committer
    state, identity = table._state(schema), committer.identity
    return ChangeSource(state, committer.snapshots, committer.live_files, columns, identity)


def batches_of(source: ChangeSource, start: int, end: int) -> Iterator[pa.RecordBatch]:
    """The changes of the snapshots after `start` up to `end`. The range is checked at once, and read batch by batch."""
    start, end = whole_number(start, "start", least=0), whole_number(end, "end", least=0)
    if end < start:
        raise refused(end, "end", f"{start}, the start, or more")
    if start < end:
        _check_kept(source, start, end)
    return _read(source, start, end)


def _read(source: ChangeSource, start: int, end: int) -> Iterator[pa.RecordBatch]:
    for snapshot_id in range(start + 1, end + 1):
        step = source.step(snapshot_id, False)
        yield from source.batches(Piece(step, 0, len(step.splits)))


def _check_kept(source: ChangeSource, start: int, end: int) -> None:
    first, last = source.kept()
    if first is not None and last is not None and first <= start + 1 and end <= last:
        return
    if first is None or last is None:
        expected, action = "a table with snapshots; it has none yet", "Write to it first."
    else:
        expected = f"a start from {first - 1} and an end up to {last}"
        action = "Choose a range within."
        if start + 1 < first:
            action = (
                f"What came before snapshot {first} has expired: read the rows with "
                f"scan(snapshot_id={first}), then the changes from there; a consumer keeps its snapshots."
            )
    raise NotFoundError(
        f"changes of the snapshots after {start} up to {end}",
        found="snapshots that are not there",
        expected=expected,
        action=action,
    )
