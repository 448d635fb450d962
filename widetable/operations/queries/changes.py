"""Reads the changes of snapshots.

In: their ids; a range has an exclusive start and an inclusive end. Out: record batches in the order of snapshot,
partition values, bucket, key and event.

`derive.incremental` has the public functions, which choose the ids by snapshots, tags, times or barriers. Files are
opened batch by batch, so a snapshot that expires while a caller reads it raises NotFoundError then, unless a lease or a
consumer keeps it. Raises InvalidError for a range that runs backwards or includes a rollback, NotFoundError for one
with missing snapshots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa

from widetable.acceptance.acceptance import Use, accept
from widetable.arguments import flag, one_of, refused, whole_number
from widetable.errors import NotFoundError
from widetable.messages.error_code import ErrorCode
from widetable.operations.handle.open_table import OpenTable
from widetable.read.change_plan import ChangeSplit
from widetable.read.change_read import StreamRead
from widetable.read.change_source import MODES, ChangeSource
from widetable.read.commit_columns import COMMIT, KIND, commit_times, in_form, schema_of_form
from widetable.read.stream_plan import Piece, Step, range_went_back


def change_schema(
    table: OpenTable, columns: Sequence[str] | None = None, *, commit_columns: bool = False
) -> pa.Schema:
    """Return the Arrow schema of what `changes` returns."""
    schema = change_source(table, columns).arrow_schema
    return schema_of_form(schema, COMMIT if flag(commit_columns, "commit_columns") else KIND)


def change_batches(
    table: OpenTable,
    ids: Sequence[int],
    columns: Sequence[str] | None = None,
    *,
    mode: str = "auto",
    commit_columns: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yield the changes of snapshots, in their order, and read them batch by batch.

    mode: `auto`, `delta` or `changelog`, as `incremental` says.
    """
    source = change_source(table, columns, mode=mode)
    form = COMMIT if flag(commit_columns, "commit_columns") else KIND
    # Checks the names now rather than with the first batch, because the rest is a generator.
    schema_of_form(source.arrow_schema, form)
    times = commit_times(source.table)
    steps = _steps(source, ids, mode)
    return (in_form(batch, form, id, times) for id, batch in _read(source, steps))


def change_splits(table: OpenTable, ids: Sequence[int], mode: str = "auto") -> list[ChangeSplit]:
    """Return the splits that `change_batches` reads, in its order.

    Engines read them elsewhere: each is picklable, and names its snapshot and bucket.
    """
    source = change_source(table, (), mode=mode)
    steps = _steps(source, ids, mode)
    return [split for step in steps for split in step.splits if isinstance(split, ChangeSplit)]


def change_reads(
    table: OpenTable, ids: Sequence[int], columns: Sequence[str] | None = None
) -> list[StreamRead]:
    """Return what reads the changes of snapshots, in their order: each is picklable, and reads one split."""
    source = change_source(table, columns)
    steps = list(_steps(source, ids, "auto"))
    return [read for step in steps for read in source.reads(Piece(step, 0, len(step.splits)))]


def snapshot_range(table: OpenTable, start: int, end: int) -> range:
    """Return the snapshots after `start` up to `end`. Raises NotFoundError unless all of them exist.

    start = end gives an empty range and needs no snapshot, so 0 to 0 is allowed in an empty table. start itself may
    have expired, because only later snapshots are read. With 3 .. 6 kept, (2, 6] and (4, 5] exist; (1, 6] and (4, 7]
    raise.
    """
    start, end = whole_number(start, "start", least=0), whole_number(end, "end", least=0)
    if end < start:
        raise refused(end, "end", f"{start}, the start, or more")
    if start < end:
        with table._same_table():
            _check_kept(table, start, end)
    return range(start + 1, end + 1)


def change_source(
    table: OpenTable, columns: Sequence[str] | None = None, *, mode: str = "auto"
) -> ChangeSource:
    """Make what streams of changes read from.

    Its columns stay as they are now, whatever happens to the table.

    Parameters
    ----------
    columns : list of str, default None
        The columns, in the order wanted. None: all of now.
    mode : str, default "auto"
        `auto`, `delta` or `changelog`, as in `changes`.

    Returns
    -------
    ChangeSource
        The source; it holds nothing open.

    Raises
    ------
    NotFoundError
        There is no such column.
    InvalidError
        The mode is unknown.
    UnsupportedError
        The table has an option that changes its rows and that this version does not honour.
    """
    return prepared_source(table, columns, mode)


def prepared_source(
    table: OpenTable,
    columns: Sequence[str] | None,
    mode: str = "auto",
    prepare: Callable[[], object] | None = None,
) -> ChangeSource:
    """Make a source. prepare: brings the table up to date; it is called before each look for new snapshots."""
    schema = table.schema
    accept(schema, Use.READ)
    committer = table._committer
    state, identity = table._state(schema), committer.identity
    return ChangeSource(
        state,
        committer.snapshots,
        committer.live_files,
        columns,
        identity,
        one_of(mode, MODES, "mode"),
        prepare,
    )


def _steps(source: ChangeSource, ids: Sequence[int], mode: str) -> Iterator[Step]:
    """Yield the steps of snapshots. Raises InvalidError for a rollback, except in the mode `delta`."""
    for snapshot_id in ids:
        step = source.step(snapshot_id, False)
        if step.refusal is not None and mode != "delta":
            raise range_went_back(step, source.table.paths.root)
        yield step


def _read(source: ChangeSource, steps: Iterable[Step]) -> Iterator[tuple[int, pa.RecordBatch]]:
    for step in steps:
        for batch in source.batches(Piece(step, 0, len(step.splits))):
            yield step.snapshot_id, batch


def _check_kept(table: OpenTable, start: int, end: int) -> None:
    snapshots = table._committer.snapshots
    first, last = snapshots.earliest_id(), snapshots.latest_id()
    if first is not None and last is not None and first <= start + 1 and end <= last:
        return
    if first is None or last is None:
        expected, action = "a table with snapshots; it has none yet", "Write to it first."
    else:
        expected = f"a start from {first - 1} and an end up to {last}"
        action = "Choose a range within."
        if start + 1 < first:
            action = (
                f"Everything before snapshot {first} has expired: read the rows with "
                f"scan(snapshot_id={first}), then the changes from there; a consumer keeps its snapshots."
            )
    raise NotFoundError(
        f"changes of the snapshots after {start} up to {end}",
        found="snapshots that do not exist",
        expected=expected,
        action=action,
        code=ErrorCode.CHANGES_EXPIRED,
    )
