"""The columns of samples: values, defaults and labels; and which negative ones are kept. Pure.

    row      exposed_at 10:00, bought_at null, label null       defaults {"label": 0}, a label within 7 h
    sample   exposed_at 10:00, bought_at null, label 0, bought false, _weight 10

A negative sample is kept if a number drawn from its key and the seed is below the share. The number depends on nothing
else: so each machine, each restart and each backfill keeps the same ones. On disk: never change.

    draw     number h of the draws of the key (seed), h: the hash of the primary key without partition columns that
             dynamic buckets use, as 32 bits without a sign                                     (`drawn_order`)

In: rows of the table, with the columns of a plan. Out: samples without `_snapshot` and `_correction`. Raises
InvalidError for a time that 64 bits do not hold.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from widetable.derive.loading.drawn_order import draws_at, key_of
from widetable.derive.samples.label import SampleLabel
from widetable.derive.samples.sample_plan import WEIGHT, SamplePlan
from widetable.derive.samples.sample_rule import Negatives
from widetable.derive.samples.sample_verdict import times
from widetable.format.bucket_hash import key_hashes
from widetable.kernels.array_types import Mask
from widetable.schema.table_schema import TableSchema


class SampleRows(NamedTuple):
    """rows: samples. is_kept: whether each is given, as some negative ones are not."""

    rows: pa.Table
    is_kept: Mask


def sample_rows(plan: SamplePlan, rows: pa.Table) -> SampleRows:
    """Return the samples that the rows make, in their order."""
    columns: dict[str, Any] = {name: rows.column(name) for name in plan.given}
    for name, label in plan.rule.labels.items():
        columns[name] = _labelled(plan, rows, label)
    for name, value in plan.defaults.items():
        columns[name] = columns[name].fill_null(value)
    is_kept = np.ones(rows.num_rows, np.bool_)
    negatives = plan.rule.negatives
    if negatives is not None:
        is_negative = _are_zero(columns[negatives.column])
        is_kept = ~is_negative | _are_drawn(rows, plan.schema, negatives)
        columns[WEIGHT] = pa.array(np.where(is_negative, 1 / negatives.share, 1.0))
    names = [name for name in plan.values if name in columns]
    fields = pa.schema([plan.fields.field(name).with_nullable(True) for name in names])
    return SampleRows(
        pa.Table.from_arrays([columns[name] for name in names], schema=fields), is_kept
    )


def _labelled(plan: SamplePlan, rows: pa.Table, label: SampleLabel) -> pa.Array | pa.ChunkedArray:
    start, has_start = times(plan, rows, plan.rule.on or "")
    event, has_event = times(plan, rows, label.event_time)
    # An age of more than 64 bits wraps around and is negative.
    with np.errstate(over="ignore"):
        age = event - start
    is_in = (
        has_start & has_event & (event >= start) & (age >= 0) & (age <= label.within_millis * 1000)
    )
    if label.value is None:
        return pa.array(is_in)
    value = rows.column(label.value)
    return pc.if_else(pa.array(is_in), value, pa.scalar(None, value.type))


def _are_zero(column: pa.Array | pa.ChunkedArray) -> Mask:
    """Return bool[n]: where the column is 0 or false. A null is neither."""
    zero = pa.scalar(0, pa.int8()).cast(column.type)
    equal: Mask = pc.equal(column, zero).fill_null(False).to_numpy(zero_copy_only=False)
    return equal


def _are_drawn(rows: pa.Table, schema: TableSchema, negatives: Negatives) -> Mask:
    """Return bool[n]: which keys are in the share."""
    (keys,) = rows.select(list(schema.primary_keys)).combine_chunks().to_batches() or [None]
    if keys is None:
        return np.zeros(0, np.bool_)
    hashes = key_hashes(keys, schema).astype(np.uint32).astype(np.uint64)
    drawn = draws_at(key_of(negatives.seed), hashes)
    last = max(int(negatives.share * 2.0**64), 1) - 1
    return drawn <= np.uint64(last)
