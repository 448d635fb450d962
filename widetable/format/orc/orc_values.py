"""Correct ORC values that Arrow reads in another way than Paimon: texts of CHAR, far times, wall clocks.

In: arrays from Arrow, and their ORC types (orc_data_file.py lists the differences).
Out: arrays of the same types, and far times. Pure, except for the zone of the process. Raises UnsupportedError for
times that no unit holds, ValueError for incomplete values.

How ORC stores a fraction of a second, and the result of `wide_times`:

    stored          47 = 5 << 3 | 7      10 = 1 << 3 | 2      40 = 5 << 3 | 0
    nanoseconds     5 * 10**8            1 * 10**3            5
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from widetable.format.orc.orc_tail import CHAR, INSTANT, LIST, MAP, STRUCT, OrcType
from widetable.format.parquet_data_file import times_beyond
from widetable.format.zone_offsets import zone_offsets
from widetable.kernels.arrow_buffers import bitmap, fixed_values, validity

# 2015-01-01, from which ORC counts seconds.
_ORC_EPOCH: Final = 1_420_070_400


@dataclass(frozen=True)
class Correction:
    """How to correct a column of a stripe. types, index: the ORC type of the values. zone: its wall clock gives the
    values: "" for the zone of the process, None for instants. column, path: for messages. `of` serves the parts.
    """

    types: Sequence[OrcType]
    index: int
    zone: str | None
    column: str
    path: str

    @property
    def kind(self) -> int:
        return self.types[self.index].kind

    def of(self, child: int) -> Correction:
        """Return the corrections of a child."""
        return replace(self, index=self.types[self.index].children[child])


def corrected_values(array: pa.Array, correction: Correction) -> pa.Array:
    """Return corrected values in an array of the same type.

    Arrays that need no correction are returned as they are. Lists and maps keep their offsets and
    nulls; all values below them are replaced, including those below nulls and outside of a
    slice.
    """
    kind = correction.kind
    if kind == CHAR:
        return pc.utf8_rtrim(array, characters=" ")
    if kind == INSTANT and correction.zone is not None:
        return _wall_clock(array, correction)
    if kind not in (STRUCT, LIST, MAP):
        return array
    arrow = array.type
    children = [
        corrected_values(part, correction.of(child)) for child, part in enumerate(_children(array))
    ]
    if kind == STRUCT:
        return pa.StructArray.from_arrays(children, fields=list(arrow), mask=array.is_null())
    if kind == MAP:
        entries = [arrow.key_field, arrow.item_field]
        children = [pa.StructArray.from_arrays(children, fields=entries)]
    return pa.Array.from_buffers(
        arrow, len(array), array.buffers()[:2], offset=array.offset, children=children
    )


def _children(array: pa.Array) -> list[pa.Array]:
    if pa.types.is_struct(array.type):
        return [array.field(index) for index in range(array.type.num_fields)]
    return [array.keys, array.items] if pa.types.is_map(array.type) else [array.values]


def wide_times(
    seconds: pa.Array,
    nanos: npt.NDArray[np.int64],
    writer_zone: str | None,
    target: pa.DataType,
    correction: Correction,
) -> pa.Array:
    """Return times in microseconds or nanoseconds. ORC stores seconds since 2015 began in the writer's zone, and
    nanoseconds of the values that are not null, each with its trailing zeros cut off and counted in three bits.

    seconds: of the column read as LONG, null where the value is null. The steps:

        + 2015-01-01                    seconds since 1970, in the writer's clock for TIMESTAMP
        TIMESTAMP                       less the zone's offset at 2015, plus that at the time: the wall clock
        before 1970 with milliseconds   less one second, as Java rounded the other way
        * units + fraction              checked by division: an overflow is refused

    Raises UnsupportedError for a fraction or time that the unit does not hold.
    """
    subject = f"column {correction.column!r} of {correction.path}"
    valid = seconds.is_valid().to_numpy(zero_copy_only=False)
    if len(nanos) != np.count_nonzero(valid):
        raise ValueError(f"{len(nanos)} nanoseconds of {np.count_nonzero(valid)} times")
    is_clock = correction.kind != INSTANT
    since = np.where(valid, fixed_values(seconds, np.int64), 0)[valid]
    zone = writer_zone or "UTC"
    since = since + _ORC_EPOCH
    if is_clock:
        since = since - zone_offsets(np.array([_ORC_EPOCH]), zone, subject)
        since = since + zone_offsets(since, zone, subject)
    parts = (nanos >> 3) * np.where(nanos & 7, 10 ** ((nanos & 7) + 1), 1)
    # Java rounds seconds before 1970 towards 1970, where there are milliseconds.
    since = since - ((since < 0) & (parts > 999_999))
    per_second = {"us": 10**6, "ns": 10**9}[target.unit]
    fractions, lost = np.divmod(parts, 10**9 // per_second)
    values = since * per_second + fractions
    # A value that is too large has wrapped around.
    if np.any(lost) or np.any((values - fractions) // per_second != since):
        raise times_beyond(correction.column, correction.path, "64 bits do not hold it")
    every = np.zeros(len(seconds), np.int64)
    every[valid] = values
    return _with_values(seconds, target, every)


def _with_values(array: pa.Array, kind: pa.DataType, values: npt.NDArray[np.int64]) -> pa.Array:
    """Return an array with these values and the nulls of `array`. values: one per row, ignored at nulls."""
    buffers = [bitmap(validity(array)), pa.py_buffer(np.ascontiguousarray(values))]
    return pa.Array.from_buffers(kind, len(array), buffers)


def _wall_clock(array: pa.Array, correction: Correction) -> pa.Array:
    """Return the wall clock of the zone at these instants.

    On a summer day in Berlin 08:00 UTC becomes 10:00, which is then labelled UTC: the value that
    Paimon's Java wrote. The values are shifted, the type stays.
    """
    if correction.zone == "UTC":
        return array
    per_second = {"us": 10**6, "ns": 10**9}[array.type.unit]
    values = fixed_values(array, np.int64)
    assert correction.zone is not None
    subject = f"column {correction.column!r} of {correction.path}"
    shifts = zone_offsets(values // per_second, correction.zone, subject) * per_second
    return _with_values(array, array.type, values + shifts)
