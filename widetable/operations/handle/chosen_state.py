"""The state of a table that a reader asks for: a snapshot, or a barrier, with the columns that it is read with.

    chosen_state     of a snapshot: the newest, or one by id, time, tag or watermark
    state_of_view    of a barrier

Choosing refuses no table, because a session chooses many and may read few. `ChosenState.scan` and `LookupView` refuse a
table with options that this version does not honour, as whatever reads rows does.

Raises NotFoundError for a missing snapshot; a scan raises UnsupportedError.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow.compute as pc

from widetable.acceptance.acceptance import Use, accept
from widetable.commit.snapshots.hash_indexes import HashIndexes
from widetable.commit.snapshots.live_files import LiveFiles
from widetable.commit.transaction.partition_buckets import places_of
from widetable.format.snapshot import Snapshot
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.handle.snapshot_choice import choose_snapshot
from widetable.read.barrier_view import BarrierView
from widetable.read.filters import parse
from widetable.read.predicate import Predicate
from widetable.read.scan import TableScan
from widetable.runtime.moment import Moment
from widetable.schema.table_schema import TableSchema
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
    live_files: LiveFiles
    is_rescaled: bool
    view: BarrierView | None = None

    def places(self) -> Places | None:
        """Return how the buckets of keys are found; None if the schema's number of buckets suffices."""
        indexes = HashIndexes(self.state.file_io, self.state.paths)
        return places_of(
            self.state, self.live_files, indexes, lambda: self.snapshot, lambda: self.is_rescaled
        )

    def scan(
        self,
        columns: Sequence[str] | None,
        filter: str | pc.Expression | Predicate | None = None,
    ) -> TableScan:
        """Return a scan of the rows. columns, filter: as in `Table.scan`."""
        accept(self.state.schema, Use.READ)
        if filter is not None and not isinstance(filter, Predicate):
            filter = parse(filter, self.state.schema)
        return TableScan(
            self.state,
            self.live_files,
            self.snapshot,
            columns,
            filter,
            rescaled=self.is_rescaled,
            barrier=self.view,
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
    is_rescaled = committer.schemas.is_rescaled()
    return ChosenState(snapshot, table._state(schema), committer.live_files, is_rescaled)


def state_of_view(
    table: OpenTable, view: BarrierView, schema: TableSchema | None = None
) -> ChosenState:
    """Return the state of a table as of a barrier.

    schema: the schema of its columns; None: the one that the table had when the barrier was complete.
    """
    committer = table._committer
    state = table._state(schema or committer.schemas.load(view.end.schema_id))
    is_rescaled = committer.schemas.is_rescaled()
    return ChosenState(view.base, state, committer.live_files, is_rescaled, view)
