"""Which rows of a fact may have other widened columns at a barrier than at one before, as they are at it.

    touched   facts with records of (P, T]; and of barriers up to P, which other clients have written since
    followed  facts whose foreign key leads to a row of the dim with records of (P, T]: by the index on the foreign key,
              which knows the newest rows, with all that was written after T; else by a scan

All facts where P is None, where records have expired, and where one scan is cheaper than lookups. Candidates too many
cost time only. Raises what lookups and scans raise.

    dim     1: id 7 = a @10    2: id 7 = b @20    3: id 7 = c @30
    fact    1: k 1, cust 7 @10    2: k 2, cust 7 @20    3: k 1, cust 8 @30
    P = 10, T = 20    touched k 2    the dim's row 7 has a record @20: followed k 2 by the index; k 1 leads to 8 by now,
                      but its record came after T, so it is asked of, too: as of T it leads to 7
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from widetable.commit.barriers.barrier_state import is_foreign_commit
from widetable.commit.transaction.touched_keys import TouchedFiles
from widetable.derive.changes.touched_rows import are_in
from widetable.derive.widening.widen_candidates import (
    few_keys,
    followed_by_index,
    keys_in,
    nullable_keys,
    rows_of_keys,
)
from widetable.derive.widening.widen_commits import NumberedRound
from widetable.errors import NotFoundError
from widetable.format.bucket_id import BucketId
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.manifest_entry import ADD
from widetable.kernels.arrow_buffers import one_array
from widetable.operations.handle.barrier_scan import barrier_changes, scan_of_view, state_of_view
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.queries.lookup_view import LookupView
from widetable.operations.queries.table_at import view_at
from widetable.read.barrier_changes import BarrierChanges
from widetable.read.barrier_view import BarrierView, BarrierViews
from widetable.schema import options as opt
from widetable.schema.derived_options import WidenOption


class DoneBarrier(NamedTuple):
    """The barrier that the columns are those of, and the newest snapshot of the fact that its round knew.

    The second tells what came late: another client's append, which gets the label of the first
    barrier that is not complete, may have come while the round was under way.
    """

    barrier: int
    snapshot_id: int


class ReadBarrier(NamedTuple):
    """A table as of a barrier, by the snapshots that `views` knows."""

    table: OpenTable
    views: BarrierViews
    view: BarrierView

    @property
    def first_kept(self) -> int:
        """The first snapshot that is needed to go on from the barrier."""
        return self.views.floor_id(self.view.barrier) or self.view.first_id

    def commits(self, after: int, until: int) -> list[int]:
        """Whose records belong to barriers after one up to another."""
        return BarrierChanges(self.table._state(), self.views).commits(after, until)

    def late_commits(self, done: DoneBarrier) -> list[int]:
        """Whose records belong to a barrier that is done, and came later: of clients that know of none."""
        load, ids = self.table._committer.snapshots.load, self.views.ids
        later = (load(id) for id in ids if id > done.snapshot_id)
        labels = ((one.id, self.views.label(one.id)) for one in later if is_foreign_commit(one))
        return [id for id, label in labels if label is not None and label <= done.barrier]


class BarrierRound(NamedTuple):
    """before: the barrier that the columns are those of, None where nobody knows. after: up to which barrier the
    widener's records are in, 0 for none.
    """

    numbered: NumberedRound
    before: DoneBarrier | None
    after: int
    fact: ReadBarrier
    dim: ReadBarrier

    @property
    def barrier(self) -> int:
        return self.fact.view.barrier


def asked_facts(of: BarrierRound, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Each once, piece by piece. columns: those of the key and the foreign key among them.

    Rows as of the fact's view, whatever came later: all facts in the first round, and where nobody
    knows the one before.
    """
    (table, _, view), wanted = of.fact, list(dict.fromkeys(columns))
    keys = None if of.before is None else _keys(of, of.before)
    scan = partial(scan_of_view, table, view, wanted, None, table.schema)
    return rows_of_keys(keys, scan, partial(lookup_as_of, table, view, wanted))


def lookup_as_of(table: OpenTable, view: BarrierView, columns: Sequence[str]) -> LookupView:
    """By key, with the columns of now; to be closed."""
    at = state_of_view(table, view, table.schema)
    return LookupView(at, table._committer.live_files, columns)


def not_deleted(table: OpenTable, rows: pa.Table, barrier: int) -> tuple[pa.Table, int | None]:
    """The rows that no record of a later barrier has deleted, and the snapshot up to which that is known; None where
    records delete no rows. A retraction need not delete: it may take something off a sum, or come too late. It did
    where the row is not there at the snapshot that it came with.

    Each commit is looked at by itself: a row that one deletes and a later one writes anew is
    deleted all the same, as what it had before is not the new row's. Given as
    `read_snapshot_id`, the snapshot lets the commit ask about those that follow.
    """
    if not table.schema.typed_options.get(opt.REMOVE_RECORD_ON_SEQUENCE_GROUP):
        return rows, None
    changes = barrier_changes(table)
    for id in changes.commits(barrier):
        files = _files(table, [id])
        retracts = any(file.delete_row_count != 0 for members in files.values() for file in members)
        if not retracts or not rows.num_rows:
            continue
        is_retracted = are_in(table, rows, files, retracted=True)
        if not is_retracted.any():
            continue
        key = list(table.schema.primary_keys)
        with closing(view_at(table, id, key[:1])) as view:
            asked = rows.filter(pa.array(is_retracted)).select(key)
            is_gone = one_array(view.lookup(asked).column(0)).is_null()
        is_deleted = is_retracted.copy()
        is_deleted[is_retracted] = is_gone.to_numpy(zero_copy_only=False)
        rows = rows.filter(pa.array(~is_deleted))
    return rows, changes.newest_id


def _keys(of: BarrierRound, done: DoneBarrier) -> pa.Table | None:
    """Keys of candidates; None: scan all."""
    fact, dim, barrier, table = of.fact, of.dim, of.barrier, of.fact.table
    try:
        ids = sorted([*fact.commits(done.barrier, barrier), *fact.late_commits(done)])
        changed = keys_in(dim.table, _files(dim.table, dim.commits(done.barrier, barrier)))
    except NotFoundError:  # records that have expired
        return None

    def follow() -> pa.Table:
        if not changed.num_rows:
            return nullable_keys(table).empty_table()
        last_id = ids[-1] if ids else fact.views.ids[-1]
        return _followed(fact, of.numbered.widening.option, changed, last_id)

    splits = scan_of_view(table, fact.view, [], None, table.schema).splits()
    return few_keys(table, _files(table, ids), follow, sum(split.rows for split in splits))


def _followed(fact: ReadBarrier, option: WidenOption, changed: pa.Table, last_id: int) -> pa.Table:
    """Keys of the facts that refer to these rows of the dim. last_id: of the records up to the barrier.
    An index must have seen these; without such a one a scan as of the barrier looks for them.
    """
    table = fact.table
    by_index = followed_by_index(table, option, changed, last_id)
    if by_index is not None:  # but of facts that later records have taken elsewhere
        later_ids = barrier_changes(table).commits(fact.view.barrier)
        later = keys_in(table, _files(table, later_ids))
        return pa.concat_tables([by_index.select(later.schema.names), later])
    field = table.schema.arrow_schema([option.column]).field(0)
    leads_there = pc.field(option.column).isin(one_array(changed.column(0)).cast(field.type))
    keys = list(table.schema.primary_keys)
    rows = scan_of_view(table, fact.view, keys, leads_there, table.schema).to_arrow()
    return rows.cast(nullable_keys(table))


def _files(table: OpenTable, ids: Sequence[int]) -> TouchedFiles:
    committer = table._committer
    found: dict[BucketId, list[DataFileMeta]] = {}
    for id in ids:
        for entry in committer.live_files.delta_entries(committer.snapshots.load(id)):
            if entry.kind == ADD:
                found.setdefault(BucketId(entry.partition, entry.bucket), []).append(entry.file)
    return found
