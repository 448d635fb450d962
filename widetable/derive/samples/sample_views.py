"""The rows that a step of samples reads by key: of the table before and after a snapshot, and the samples of now.

    step of 8     before 7    after 8
    step of 9     before 8    after 9        the files that 7 and 9 share stay open

In: tables, and the snapshots of the steps, in their order; the consumer of the samples keeps them. Out: rows by key,
nulls for a missing key. Close them. Raises what lookups raise.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from widetable.derive.changes.row_changes import ChangedRows, changed_rows, rows_between
from widetable.derive.samples.sample_rule import Late
from widetable.derive.samples.sample_tables import SampleTables
from widetable.operations.queries.lookup_view import LookupView
from widetable.operations.queries.table_at import view_at


class SampleViews:
    """The views of one round. after_id: the snapshot of the step before; None at the beginning of the samples."""

    def __init__(self, tables: SampleTables, after_id: int | None) -> None:
        self._tables = tables
        self._ids = after_id, after_id
        self._before: LookupView | None = None
        self._after = None if after_id is None else self._of_table(after_id)
        self._samples: tuple[int, LookupView] | None = None

    def step_to(self, snapshot_id: int) -> None:
        """Go on to the next snapshot of the table, and to the samples of now."""
        newer = self._of_table(snapshot_id)
        if self._before is not None:
            newer.take_over(self._before)
        self._before, self._after = self._after, newer
        self._ids = self._ids[1], snapshot_id
        plan, samples = self._tables.plan, self._tables.samples
        columns = plan.values if plan.rule.late is Late.CORRECT else plan.schema.primary_keys
        now_id = samples._committer.snapshots.latest_id() or 0
        if self._samples is None or self._samples[0] != now_id:
            view = view_at(samples, now_id, columns)
            if self._samples is not None:
                view.take_over(self._samples[1])
            self._samples = now_id, view

    def changed(self) -> Iterator[ChangedRows]:
        """Yield the rows that the snapshot touched."""
        base, (before_id, id) = self._tables.base, self._ids
        if self._before is None or self._after is None or before_id is None or id is None:
            yield from changed_rows(base, None, id or 0, self._tables.plan.read)
        else:
            yield from rows_between(base, before_id, id, self._before, self._after)

    def rows(self, keys: pa.Table) -> ChangedRows:
        """Return the rows of keys before and after. There are none before the beginning."""
        assert self._after is not None, "after the first step_to"
        after = self._after.lookup(keys)
        return ChangedRows(after if self._before is None else self._before.lookup(keys), after)

    def samples(self, keys: pa.Table) -> pa.Table:
        """Return the samples that keys have."""
        assert self._samples is not None, "after the first step_to"
        return self._samples[1].lookup(keys)

    def close(self) -> None:
        """Close what is open."""
        views = [self._before, self._after, *(self._samples or ())[1:]]
        for view in views:
            if view is not None:
                view.close()

    def _of_table(self, snapshot_id: int) -> LookupView:
        return view_at(self._tables.base, snapshot_id, self._tables.plan.read)
