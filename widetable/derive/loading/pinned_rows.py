"""The snapshot that a loader reads, its pieces, and the lease that keeps it.

In: a table, a snapshot or None for the newest, columns and a filter. Out: the pieces (`piece_plan`), and the lease. A
pickle has all but the lease: a worker takes one of its own before it reads. A snapshot that is named by its tag needs
no lease. Where the storage takes none (it is read-only), nothing else keeps the snapshot from expiry.

Raises NotFoundError for a snapshot that has expired, and what scans and `piece_plan` raise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from widetable.commit.holds.read_lease import ReadLease
from widetable.derive.loading.piece import Piece
from widetable.derive.loading.piece_plan import pieces_of
from widetable.errors import NotFoundError
from widetable.messages.error_code import ErrorCode
from widetable.operations.handle.chosen_state import ChosenState, chosen_state
from widetable.operations.handle.newest_snapshot import lease_on
from widetable.operations.handle.open_table import OpenTable
from widetable.runtime.derived_value import derived_value
from widetable.schema.types import DataField
from widetable.write.table_state import TableState


@dataclass(eq=False)
class PinnedRows:
    """The rows of one snapshot. snapshot_id: None for a table without snapshots, which has no pieces. fields: of the
    columns, in their order. `pinned_rows` makes it.
    """

    state: TableState
    snapshot_id: int | None
    tag: str | None
    fields: tuple[DataField, ...]
    pieces: tuple[Piece, ...]
    lease: ReadLease | None

    def __getstate__(self) -> dict[str, Any]:
        kept = {name: value for name, value in self.__dict__.items() if name != "piece_rows"}
        return {**kept, "lease": None}

    @derived_value
    def piece_rows(self) -> tuple[int, ...]:
        """The number of rows of each piece."""
        return tuple(piece.rows for piece in self.pieces)

    def hold(self) -> None:
        """Take a lease in this process, if it needs one and has none."""
        if self.snapshot_id is None or self.tag is not None:
            return
        if self.lease is None or not self.lease.is_ours:
            try:
                self.lease = lease_on(self.state, self.snapshot_id)
            except NotFoundError as cause:
                raise snapshot_expired(self.snapshot_id, self.state.paths.root) from cause

    def release(self) -> None:
        """Let the snapshot expire."""
        lease, self.lease = self.lease, None
        if lease is not None:
            lease.release()


def pinned_rows(
    table: OpenTable,
    columns: Sequence[str] | None,
    filter: str | pc.Expression | None,
    snapshot_id: int | None,
    tag: str | None,
    schema_id: int | None = None,
) -> PinnedRows:
    """Pin a snapshot, and plan its pieces. schema_id: of the columns; None: as a scan has them."""
    chosen, lease = _held(table, snapshot_id, tag)
    try:
        if schema_id is not None:
            schema = table._committer.schemas.load(schema_id)
            chosen = chosen._replace(state=table._state(schema))
        scan = chosen.scan(columns, filter)
        names = scan.arrow_schema.names
        return PinnedRows(
            chosen.state,
            None if chosen.snapshot is None else chosen.snapshot.id,
            tag,
            tuple(chosen.state.schema.field(name) for name in names),
            tuple(pieces_of(scan.split_reads())),
            lease,
        )
    except BaseException:
        if lease is not None:
            lease.release()
        raise


def snapshot_expired(snapshot_id: int, root: str) -> NotFoundError:
    """Return the error for a training whose snapshot is gone."""
    return NotFoundError(
        f"snapshot {snapshot_id} of {root}",
        found="that it has expired: the rows of the epoch are gone",
        expected="a snapshot that is kept for as long as a training may be resumed",
        action="Begin the epoch again with a new loader. Next time name the snapshot by a tag, which keeps it, "
        "or keep snapshots for longer by the option snapshot.time-retained.",
        code=ErrorCode.SNAPSHOT_EXPIRED,
    )


def _held(
    table: OpenTable, snapshot_id: int | None, tag: str | None
) -> tuple[ChosenState, ReadLease | None]:
    """Return a snapshot with the lease on it. If the newest one expires meanwhile, choose again."""
    committer = table._committer
    while True:
        chosen = chosen_state(table, snapshot_id, tag=tag)
        if chosen.snapshot is None or tag is not None:
            return chosen, None
        try:
            return chosen, lease_on(chosen.state, chosen.snapshot.id)
        except NotFoundError:
            if snapshot_id is not None or committer.snapshots.latest_id() == chosen.snapshot.id:
                raise
