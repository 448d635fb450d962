"""Decides which samples the rows of one snapshot give, correct or take back, and which rows wait. Pure.

    row                                   not given before               given before
    not ready, due later                  waits                          waits no more
    becomes ready, kept                   +I                             -
    becomes ready, a dropped negative     decided: nothing               -
    changes, late = drop                  a decided one: nothing         nothing
    changes, late = correct               a decided one is kept now:     another sample: +U, a correction
                                          +I, a correction               no sample, or dropped: -D

A dropped negative leaves nothing behind. That it was decided follows from the row before: it was ready then, and no
sample of its key was given.

In: rows before and after a snapshot, the samples that their keys have, null where they have none, and both watermarks.
Out: samples with their row kinds, and entries of those who wait. Raises what verdicts and sample_rows raise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from widetable.derive.changes.equal_keys import rows_at
from widetable.derive.changes.row_difference import equal_rows
from widetable.derive.samples.sample_plan import CORRECTION, DUE, SNAPSHOT, SamplePlan
from widetable.derive.samples.sample_rows import sample_rows
from widetable.derive.samples.sample_rule import Late
from widetable.derive.samples.sample_verdict import NEVER, all_valid, micros_of, verdicts
from widetable.kernels.array_types import Mask
from widetable.schema.row_kind import DELETE, INSERT, UPDATE_AFTER, to_texts
from widetable.schema.table_schema import ROW_KIND_COLUMN


class Marks(NamedTuple):
    """A snapshot, the watermark of the slowest writer before it and with it. None: unknown."""

    snapshot_id: int
    before: int | None
    now: int | None


class SampleChoice(NamedTuple):
    """samples: with `_row_kind`. waiting: due times and keys."""

    samples: pa.Table
    waiting: pa.Table


def choose(
    plan: SamplePlan, before: pa.Table, after: pa.Table, given: pa.Table, marks: Marks
) -> SampleChoice:
    """Return what the rows give. Rows of the three tables at one place have one key."""
    key = list(plan.schema.primary_keys)
    now = verdicts(plan, after, marks.now)
    rows, is_kept = sample_rows(plan, after)
    is_given = all_valid(given, key[:1])
    is_decided = verdicts(plan, before, marks.before).is_ready & ~is_given
    is_ready = now.is_ready & is_kept & ~is_given
    parts = [_samples(plan, rows, is_ready & ~is_decided, INSERT, marks)]
    if plan.rule.late is Late.CORRECT:
        stays = is_given & now.is_sample & is_kept
        differs = stays & ~equal_rows(rows.select(plan.values), given.select(plan.values))
        parts += [
            _samples(plan, rows, is_ready & is_decided, INSERT, marks, correction=True),
            _samples(plan, rows, differs, UPDATE_AFTER, marks, correction=True),
            _samples(plan, given, is_given & ~stays, DELETE, marks, correction=True),
        ]
    is_waiting = ~now.is_ready & (now.due_micros != NEVER) & all_valid(after, key[:1])
    is_waiting &= now.due_micros > micros_of(marks.now)
    waiting = rows_at(after.select(key), np.flatnonzero(is_waiting))
    due = pa.array(now.due_micros[is_waiting])
    return SampleChoice(pa.concat_tables(parts), waiting.add_column(0, DUE, due))


def _samples(
    plan: SamplePlan,
    rows: pa.Table,
    chosen: Mask,
    kind: int,
    marks: Marks,
    *,
    correction: bool = False,
) -> pa.Table:
    """Return the chosen samples with their own columns."""
    places = np.flatnonzero(chosen)
    values = rows_at(rows.select(plan.values), places)
    count = len(places)
    own = {
        SNAPSHOT: pa.array(np.full(count, marks.snapshot_id, np.int64)),
        CORRECTION: pa.array(np.full(count, correction, np.bool_)),
    }
    columns = [own[name] if name in own else values.column(name) for name in plan.fields.names]
    kinds = to_texts(pa.array(np.full(count, kind, np.int8)))
    return pa.Table.from_arrays([*columns, kinds], [*plan.fields.names, ROW_KIND_COLUMN])
