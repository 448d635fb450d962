"""The candidates of a round at a barrier: rows of a fact, as of the barrier, whose widened columns may have to change.

    touched   facts with records of (P, T]; and of barriers up to P, which other clients have written since
    followed  facts whose foreign key leads to a row of the dim with records of (P, T]: by the index on the foreign key,
              which has the newest rows, plus all facts that were written after T; else by a scan

All facts are candidates if P is None, if records have expired, and if one scan is cheaper than lookups. Surplus
candidates only cost time. Raises what lookups and scans raise.

    dim     1: id 7 = a @10    2: id 7 = b @20    3: id 7 = c @30
    fact    1: k 1, cust 7 @10    2: k 2, cust 7 @20    3: k 1, cust 8 @30
    P = 10, T = 20    touched k 2    the dim's row 7 has a record @20: followed k 2 by the index; k 1 now leads to 8,
                      but its record came after T, so it is a candidate, too: as of T it leads to 7
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
from widetable.operations.handle.barrier_scan import barrier_changes
from widetable.operations.handle.chosen_state import state_of_view
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.queries.lookup_view import LookupView
from widetable.operations.queries.table_at import view_at
from widetable.read.barrier_changes import BarrierChanges
from widetable.read.barrier_view import BarrierView, BarrierViews
from widetable.schema import options as opt
from widetable.schema.derived_options import WidenOption


class DoneBarrier(NamedTuple):
    """The barrier whose values the columns have, and the newest snapshot of the fact that its round read.

    The snapshot shows which commits came late: another client's append gets the label of the first incomplete barrier,
    and may have come during the round.
    """

    barrier: int
    snapshot_id: int


class ReadBarrier(NamedTuple):
    """A table as of a barrier, by the snapshots of `views`."""

    table: OpenTable
    views: BarrierViews
    view: BarrierView

    @property
    def first_kept(self) -> int:
        """Return the first snapshot that is needed to continue from the barrier."""
        return self.views.floor_id(self.view.barrier) or self.view.first_id

    def commits(self, after: int, until: int) -> list[int]:
        """Return the ids of commits whose records belong to barriers after one up to another."""
        return BarrierChanges(self.table._state(), self.views).commits(after, until)

    def late_commits(self, done: DoneBarrier) -> list[int]:
        """Return the ids of commits that came after the done barrier but belong to it: those of foreign clients."""
        load, ids = self.table._committer.snapshots.load, self.views.ids
        later = (load(id) for id in ids if id > done.snapshot_id)
        labels = ((one.id, self.views.label(one.id)) for one in later if is_foreign_commit(one))
        return [id for id, label in labels if label is not None and label <= done.barrier]


class BarrierRound(NamedTuple):
    """A round that brings the columns to a barrier. before: the barrier whose values they have, None if unknown.

    after: the barrier up to which the widener's records are committed, 0 for none.
    """

    numbered: NumberedRound
    before: DoneBarrier | None
    after: int
    fact: ReadBarrier
    dim: ReadBarrier

    @property
    def barrier(self) -> int:
        return self.fact.view.barrier


def candidate_facts(of: BarrierRound, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Yield the candidates, each once, piece by piece. columns: they include the primary key and the foreign key.

    The rows are those of the fact's view, whatever came later. In the first round, and if the barrier before is
    unknown, all facts are candidates.
    """
    (table, _, view), names = of.fact, list(dict.fromkeys(columns))
    keys = None if of.before is None else _keys(of, of.before)
    at = state_of_view(table, view, table.schema)
    return rows_of_keys(keys, partial(at.scan, names), partial(LookupView, at, names))


def lookup_as_of(table: OpenTable, view: BarrierView, columns: Sequence[str]) -> LookupView:
    """Return a lookup by key as of a barrier, with the current columns. The caller closes it."""
    return LookupView(state_of_view(table, view, table.schema), columns)


def not_deleted(table: OpenTable, rows: pa.Table, barrier: int) -> tuple[pa.Table, int | None]:
    """Return the rows that no record of a later barrier has deleted, and the newest snapshot that was checked.

    The snapshot is None if records delete no rows in this table. A retraction need not delete: it may decrease a sum,
    or come too late. It did delete the row if the row does not exist at the snapshot of the retraction.

    Each commit is checked separately: a row that one commit deletes and a later one writes again counts as deleted,
    because its old values do not belong to the new row. Passed on as `read_snapshot_id`, the snapshot lets the commit
    check the commits that follow.
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
            keys = rows.filter(pa.array(is_retracted)).select(key)
            is_gone = one_array(view.lookup(keys).column(0)).is_null()
        is_deleted = is_retracted.copy()
        is_deleted[is_retracted] = is_gone.to_numpy(zero_copy_only=False)
        rows = rows.filter(pa.array(~is_deleted))
    return rows, changes.newest_id


def _keys(of: BarrierRound, done: DoneBarrier) -> pa.Table | None:
    """Return the keys of the candidates, or None: scan all facts."""
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

    splits = state_of_view(table, fact.view, table.schema).scan([]).splits()
    return few_keys(table, _files(table, ids), follow, sum(split.rows for split in splits))


def _followed(fact: ReadBarrier, option: WidenOption, changed: pa.Table, last_id: int) -> pa.Table:
    """Return the keys of the facts that refer to these rows of the dim.

    last_id: the last commit up to the barrier. An index must have reached it; otherwise a scan as of the barrier finds
    the facts.
    """
    table = fact.table
    by_index = followed_by_index(table, option, changed, last_id)
    if by_index is not None:  # it misses facts whose foreign key later records have changed
        later_ids = barrier_changes(table).commits(fact.view.barrier)
        later = keys_in(table, _files(table, later_ids))
        return pa.concat_tables([by_index.select(later.schema.names), later])
    field = table.schema.arrow_schema([option.column]).field(0)
    leads_there = pc.field(option.column).isin(one_array(changed.column(0)).cast(field.type))
    keys = list(table.schema.primary_keys)
    rows = state_of_view(table, fact.view, table.schema).scan(keys, leads_there).to_arrow()
    return rows.cast(nullable_keys(table))


def _files(table: OpenTable, ids: Sequence[int]) -> TouchedFiles:
    committer = table._committer
    files: dict[BucketId, list[DataFileMeta]] = {}
    for id in ids:
        for entry in committer.live_files.delta_entries(committer.snapshots.load(id)):
            if entry.kind == ADD:
                files.setdefault(BucketId(entry.partition, entry.bucket), []).append(entry.file)
    return files
