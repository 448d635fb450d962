"""Which rows are ready to be samples at a watermark, and when the others are due. Pure.

    row        complete  eager  due      watermark 10:29   10:30
    exposure 1 yes       yes    10:30    ready             ready
    exposure 2 yes       no     10:30    waits             ready
    a click    no        yes    unknown  no                no

A row that is due may lack a column of `complete` if that has a default. Without a wait it must have them all.

In: rows with the columns of a plan. Out: one verdict each. Raises InvalidError for a time that 64 bits do not hold.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from widetable.derive.samples.sample_plan import SamplePlan
from widetable.derive.versions.event_micros import event_micros
from widetable.kernels.array_types import Mask, Positions
from widetable.kernels.arrow_buffers import one_array

# The due time of rows without a time. No watermark is above it.
NEVER: Final = np.iinfo(np.int64).max
_MILLI: Final = 1000


class Verdicts(NamedTuple):
    """is_sample: the row has what a sample cannot do without. is_ready: it may be given. due_micros: when it is due,
    whatever it has; NEVER if unknown.
    """

    is_sample: Mask
    is_ready: Mask
    due_micros: Positions


def verdicts(plan: SamplePlan, rows: pa.Table, watermark: int | None) -> Verdicts:
    """Judge the rows. watermark: of the slowest writer, epoch millis; None: no row is due."""
    rule = plan.rule
    is_complete = all_valid(rows, [plan.schema.primary_keys[0], *rule.complete])
    if not rule.waits or rule.on is None:
        return Verdicts(is_complete, is_complete, np.full(rows.num_rows, NEVER))
    starts, is_known = times(plan, rows, rule.on)
    latest = NEVER - 1 - rule.longest_millis * _MILLI
    due = np.where(is_known, np.minimum(starts, latest) + rule.longest_millis * _MILLI, NEVER)
    needed = [name for name in rule.complete if name not in rule.defaults]
    is_sample = all_valid(rows, [plan.schema.primary_keys[0], *needed])
    is_early = is_complete & all_valid(rows, rule.eager) & bool(rule.eager)
    is_due = is_known & (due <= micros_of(watermark))
    return Verdicts(is_sample, is_early | (is_sample & is_due), due)


def micros_of(watermark: int | None) -> int:
    """Return a watermark in microseconds, in 64 bits: 2^63 - 1 milliseconds, the end of a stream, is above all."""
    return -NEVER if watermark is None else min(max(watermark * _MILLI, -NEVER), NEVER)


def times(plan: SamplePlan, rows: pa.Table, name: str) -> tuple[Positions, Mask]:
    """Return a column of times in microseconds, and where it is not null."""
    column = rows.column(name)
    is_known = all_valid(rows, [name])
    filled = column.fill_null(pa.scalar(0, pa.int32()).cast(_whole(column.type)).cast(column.type))
    return event_micros(filled, plan.units[name]), is_known


def all_valid(rows: pa.Table, columns: Iterable[str]) -> Mask:
    """Return bool[n]: where none of the columns is null."""
    is_valid = np.ones(rows.num_rows, np.bool_)
    for name in columns:
        column = one_array(rows.column(name))
        if column.null_count:
            is_valid &= column.is_valid().to_numpy(zero_copy_only=False)
    return is_valid


def _whole(kind: pa.DataType) -> pa.DataType:
    """Return the integer type from which Arrow casts to a type of times, or the type itself."""
    if pa.types.is_date32(kind):
        return pa.int32()
    return pa.int64() if pa.types.is_timestamp(kind) or pa.types.is_date(kind) else kind
