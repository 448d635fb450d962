"""The snapshot that a reader asks for, with the columns that it is read with.

Raises NotFoundError for a missing snapshot, and UnsupportedError for a table with options that this version does not
honour.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow.compute as pc

from widetable.commit.snapshots.hash_indexes import HashIndexes
from widetable.commit.snapshots.live_files import LiveFiles
from widetable.commit.transaction.partition_buckets import places_of
from widetable.format.snapshot import Snapshot
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.handle.snapshot_choice import choose_snapshot
from widetable.operations.handle.supported import check_readable
from widetable.read.barrier_view import BarrierView
from widetable.read.filters import parse
from widetable.read.scan import TableScan
from widetable.runtime.moment import Moment
from widetable.write.places import Places
from widetable.write.table_state import TableState


class ChosenState(NamedTuple):
    """A chosen snapshot and what is needed to read it.

    snapshot: None if there is none yet. is_rescaled: whether the number of buckets was ever changed. view: the
    barrier view whose base is the snapshot; None for the snapshot as it is.

    state has the schema that rows are read with; the files may have older and newer schemas. Nothing here keeps the
    snapshot from expiry: a caller that reads for long must do so itself.
    """

    snapshot: Snapshot | None
    state: TableState
    is_rescaled: bool
    view: BarrierView | None = None

    def places(self, live_files: LiveFiles) -> Places | None:
        """Return how the buckets of keys are found; None if the schema's number of buckets suffices."""
        indexes = HashIndexes(self.state.file_io, self.state.paths)
        return places_of(
            self.state, live_files, indexes, lambda: self.snapshot, lambda: self.is_rescaled
        )


def scan_of(
    table: OpenTable,
    at: ChosenState,
    columns: Sequence[str] | None,
    filter: str | pc.Expression | None,
) -> TableScan:
    """Return a scan of the rows of a chosen state. columns, filter: as in `Table.scan`."""
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
    """Return the newest snapshot with the newest columns, or a requested one with the columns of its time.

    At most one of the four may be given, else InvalidError is raised (`snapshot_choice`). The newest snapshot takes
    one look at the storage, in which schema and snapshot belong together (0040).
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
    """Return the chosen state without `check_readable`, for callers that may never read its rows."""
    committer = table._committer
    choice = snapshot_id, timestamp, tag, watermark
    if all(each is None for each in choice):
        head = committer.refresh()
        schema, snapshot = head.schema, head.latest
    else:
        with table._same_table():
            snapshot = choose_snapshot(committer.snapshots, table._tags, *choice)
        schema = committer.schemas.latest()
        if snapshot is not None:
            schema = committer.schemas.load(snapshot.schema_id)
    return ChosenState(snapshot, table._state(schema), committer.schemas.is_rescaled())
