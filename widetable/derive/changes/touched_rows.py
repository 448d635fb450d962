"""Rows whose keys were written since a snapshot: what was computed from that snapshot is out of date for them.

In: rows with the columns of the primary key. Out: the untouched rows; `append_untouched` commits them on the condition
that nobody writes their keys first. Raises what reading manifests and data files, writing and committing raises.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.commit.barriers.barrier_step import BarrierStep
from widetable.commit.transaction.commit_identity import Identity
from widetable.commit.transaction.touched_keys import (
    TouchedFiles,
    touched_among,
    touched_files,
    touched_near,
)
from widetable.errors import ConflictError, InvalidError
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.queries.lookup_keys import key_rows
from widetable.operations.queries.requested_keys import request_keys
from widetable.operations.writes.table_commit import append_messages, discard
from widetable.operations.writes.table_write import any_writer
from widetable.write.commit_message import CommitMessage
from widetable.write.places import CountedBuckets

_TRIES: Final = 8


def untouched_rows(
    table: OpenTable, rows: pa.Table, read_id: int, but_user: str, until_id: int | None = None
) -> pa.Table:
    """Return the rows whose keys nobody wrote after snapshot `read_id`, up to `until_id`, by default the newest.

    but_user: the commit user whose commits do not count. The function reads manifests of the range, and keys of files
    that may hold one of the rows. The caller must keep all snapshots of the range from expiry.
    """
    committer, state = table._committer, table._state()
    until_id = until_id or committer.snapshots.latest_id() or read_id
    files = touched_files(state, committer.live_files, read_id, until_id, but_user, waiting=True)
    if not files or not rows.num_rows:
        return rows
    return rows.filter(pa.array(~are_in(table, rows, files)))


def are_in(
    table: OpenTable, rows: pa.Table, files: TouchedFiles, *, retracted: bool = False
) -> npt.NDArray[np.bool_]:
    """Return bool[n]: the rows whose keys are in one of these files; with `retracted`, in a retraction there."""
    state = table._state()
    schema = state.schema
    whole_partitions = CountedBuckets(schema, lambda _: 1) if schema.postpones_buckets else None
    keys = key_rows(rows.select(list(schema.primary_keys)), schema)
    request = request_keys(keys, schema, whole_partitions)
    is_touched = np.zeros(request.keys.num_rows, np.bool_)
    starts = request.starts
    for bucket, first, end in zip(request.buckets, starts[:-1], starts[1:], strict=True):
        keys = request.keys.slice(int(first), int(end - first))
        near = touched_near(state, files, bucket)
        is_touched[first + touched_among(state, keys, near, retracted=retracted)] = True
    return is_touched[request.places]


def append_untouched(
    table: OpenTable,
    rows: pa.Table,
    read_id: int,
    by: Identity,
    properties: Mapping[str, str] | None = None,
) -> int | None:
    """Write and commit the rows whose keys nobody wrote since `read_id`; return their number.

    Return None if the commit was published before. If another commit writes some of the keys first, the function
    retries without them:

        ours      rows of k 1, 2, 3 at s = 5         leaves out k 2, writes files         commit refused
        others                                 6: k 2                                7: k 3

    The retry writes new files without k 2 and k 3. The rows that are left out are not lost: the caller computes them
    again in its next round. Properties are committed even where no row is left. Raises ConflictError when other
    commits are first in each try.
    """

    def left() -> tuple[pa.Table, int]:
        return untouched_rows(table, rows, read_id, by.user), read_id

    return append_left(table, left, by, properties)


def append_left(
    table: OpenTable,
    rows_left: Callable[[], tuple[pa.Table, int | None]],
    by: Identity,
    properties: Mapping[str, str] | None,
    barrier: BarrierStep | None = None,
) -> int | None:
    """Write and commit the rows that `rows_left` returns; it is called in each try.

    It returns the rows with the snapshot after which nobody may write their keys. The result and the errors are those
    of `append_untouched`. A barrier is committed even where no row is left.
    """
    for tries_left in reversed(range(_TRIES)):
        left, read_id = rows_left()
        messages = written(table, left)
        try:
            done = append_messages(
                table,
                messages,
                by,
                properties=properties,
                read_snapshot_id=read_id,
                barrier=barrier,
            )
        except (ConflictError, InvalidError) as refused:
            # After another error the commit may have been published, so its files stay.
            discard(table, messages)
            if isinstance(refused, InvalidError) or not tries_left:
                raise
            continue
        if not done.committed and (messages or properties or barrier):
            discard(table, messages)
            return None
        return int(left.num_rows)
    raise AssertionError("the last try returns or raises")


def written(table: OpenTable, rows: pa.Table) -> list[CommitMessage]:
    """Write the rows and return the messages to commit; an empty list for no rows."""
    if not rows.num_rows:
        return []
    with any_writer(table, rows.column_names) as writer:
        writer.write(rows)
        return writer.finish()
