"""Which of some rows were written since a snapshot: what was made from that snapshot is no news for them.

In: rows with the columns of the primary key. Out: the others; `append_untouched` commits them on the condition that
this stays so. Raises what reading manifests and data files, writing and committing raises.
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
from widetable.operations.queries.requested_keys import asked_keys
from widetable.operations.writes.table_commit import append_messages, discard
from widetable.operations.writes.table_write import any_writer
from widetable.write.commit_message import CommitMessage

_TRIES: Final = 8


def untouched_rows(
    table: OpenTable, rows: pa.Table, read_id: int, but_user: str, until_id: int | None = None
) -> pa.Table:
    """The rows whose keys nobody wrote after `read_id`, up to another snapshot, by default the newest. but_user: whose
    commits do not count. Reads manifests of the range, and keys of files that may hold one of
    them; both snapshots and those between are to be kept.
    """
    committer, state = table._committer, table._state()
    until_id = until_id or committer.snapshots.latest_id() or read_id
    files = touched_files(state, committer.live_files, read_id, until_id, but_user)
    if not files or not rows.num_rows:
        return rows
    return rows.filter(pa.array(~are_in(table, rows, files)))


def are_in(
    table: OpenTable, rows: pa.Table, files: TouchedFiles, *, retracted: bool = False
) -> npt.NDArray[np.bool_]:
    """Which rows have their keys in one of these files; retracted: in a retraction."""
    state = table._state()
    schema = state.schema
    asked = asked_keys(key_rows(rows.select(list(schema.primary_keys)), schema), schema)
    is_touched = np.zeros(asked.keys.num_rows, np.bool_)
    for bucket, first, end in zip(asked.buckets, asked.starts[:-1], asked.starts[1:], strict=True):
        keys = asked.keys.slice(int(first), int(end - first))
        near = touched_near(state, files, bucket)
        is_touched[first + touched_among(state, keys, near, retracted=retracted)] = True
    return is_touched[asked.places]


def append_untouched(
    table: OpenTable,
    rows: pa.Table,
    read_id: int,
    by: Identity,
    properties: Mapping[str, str] | None = None,
) -> int | None:
    """Write what nobody touched, and commit it; again without what was touched meanwhile. How many rows that were;
    None: the commit was in already.

        ours      rows of k 1, 2, 3 at s = 5         leaves out k 2, writes files         commit refused
        others                                 6: k 2                                7: k 3

    and again without k 2 and k 3, from new files.

    What is left out is not lost: who made the rows asks for them again in the next round.
    Raises ConflictError where somebody was faster each time. by: of one commit; properties are
    committed even where no row is left.
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
    """The same of rows that others have left, asked for anew in each try, with the snapshot from which on nobody may
    touch them. barrier: it is committed, too, where no row is left.
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
            # Of other errors it is not known whether it is in.
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
    """Their files, to be committed; none for no rows."""
    if not rows.num_rows:
        return []
    with any_writer(table, rows.column_names) as writer:
        writer.write(rows)
        return writer.finish()
