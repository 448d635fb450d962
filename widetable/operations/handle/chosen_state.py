"""The snapshot that a reader asks for, with the columns that it is read with.

Raises NotFoundError for a snapshot that is not there, UnsupportedError for a table that needs what this version does
not honour.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow.compute as pc

from widetable.format.snapshot import Snapshot
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.handle.snapshot_choice import choose_snapshot
from widetable.operations.handle.supported import check_readable
from widetable.read.barrier_view import BarrierView
from widetable.read.filters import parse
from widetable.read.scan import TableScan
from widetable.runtime.moment import Moment
from widetable.write.table_state import TableState


class ChosenState(NamedTuple):
    """snapshot: None: there is none yet. is_rescaled: whether the number of buckets was ever changed. view: of a
    barrier, whose base is the snapshot; None for the snapshot as it is.

    state is by the schema that rows are read with; the files may be of older and newer ones. It
    holds nothing: who reads for long sees to it that the snapshot stays.
    """

    snapshot: Snapshot | None
    state: TableState
    is_rescaled: bool
    view: BarrierView | None = None


def scan_of(
    table: OpenTable,
    at: ChosenState,
    columns: Sequence[str] | None,
    filter: str | pc.Expression | None,
) -> TableScan:
    """Its rows. columns, filter: as of `Table.scan`."""
    condition = None if filter is None else parse(filter, at.state.schema)
    return TableScan(
        at.state,
        table._committer.live_files,
        at.snapshot,
        columns,
        condition,
        rescaled=at.is_rescaled,
        barrier=at.view,
    )


def chosen_state(
    table: OpenTable,
    snapshot_id: int | None = None,
    timestamp: Moment | None = None,
    tag: str | None = None,
    watermark: Moment | None = None,
) -> ChosenState:
    """The newest snapshot with the newest columns, or one that is asked for with the columns of its time.

    At most one of the four may be given (InvalidError), as `snapshot_choice` says. The newest one
    is one look at the storage, in which schema and snapshot belong together (0040).
    """
    chosen = unchecked_state(table, snapshot_id, timestamp, tag, watermark)
    check_readable(chosen.state.schema)
    return chosen


def unchecked_state(
    table: OpenTable,
    snapshot_id: int | None = None,
    timestamp: Moment | None = None,
    tag: str | None = None,
    watermark: Moment | None = None,
) -> ChosenState:
    """The same, also of a table whose rows nobody here may read (`check_readable`): perhaps nobody asks for them."""
    committer = table._committer
    choice = snapshot_id, timestamp, tag, watermark
    if all(each is None for each in choice):
        head = committer.refresh()
        schema, snapshot = head.schema, head.latest
    else:
        with table._of_one_life():
            snapshot = choose_snapshot(committer.snapshots, table._tags, *choice)
        schema = committer.schemas.latest()
        if snapshot is not None:
            schema = committer.schemas.load(snapshot.schema_id)
    return ChosenState(snapshot, table._state(schema), committer.schemas.is_rescaled())
