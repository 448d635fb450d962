"""Reads the changes after one state of a table up to another by tasks: the driver's side of a batch read.

    driver    range_reads(table, start, end)      plans the splits of the snapshots in between
    tasks     StreamRead.to_batches, or ChangeForm.batches

Raises what `Table.changes` raises.
"""

from __future__ import annotations

from collections.abc import Sequence

from widetable.derive.upkeep.incremental import changed_ids
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.queries.changes import change_reads
from widetable.read.change_read import StreamRead


def range_reads(
    table: OpenTable, start: int | str, end: int | str, columns: Sequence[str] | None = None
) -> list[StreamRead]:
    """Plan the read of the changes between two states of a table.

    Parameters
    ----------
    table : OpenTable
        The table.
    start : int or str
        The id of a snapshot (0: before the first), or a tag. Its own changes are excluded.
    end : int or str
        The same; its own changes are the last.
    columns : list of str, default None
        The columns, in the order wanted. None: all.

    Returns
    -------
    list of StreamRead
        A read for each split, in the order of snapshots. Any process that reaches the storage may do it.

    Raises
    ------
    NotFoundError
        A column or tag does not exist, or snapshots of the range have expired or do not exist yet.
    InvalidError
        The range runs backwards, or contains a rollback.
    UnsupportedError
        The table has an option that changes its rows and that this version does not honour.
    """
    return change_reads(table, changed_ids(table, start, end), columns)
