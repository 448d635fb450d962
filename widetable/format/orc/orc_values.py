"""ORC values that Arrow does not give as Paimon means them, mended: texts of CHAR, times far away, wall clocks.

In: arrays as Arrow reads them, and the ORC types that they are of (orc_data_file.py says what is wrong with them).
Out: arrays of the same types, and of times far away. Pure, but for the zone of the process. Raises UnsupportedError for
times that no unit holds, ValueError for values that are not whole.

How ORC stores a fraction of a second, and what `far_times` makes of it:

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
class Mending:
    """types, index: the ORC type of the values. zone: in which wall clocks are values: "" for that of the process, None
    for instants. column, path: for messages.
    One is made per column and stripe; `of` goes down to its parts.
    """

    types: Sequence[OrcType]
    index: int
    zone: str | None
    column: str
    path: str

    @property
    def kind(self) -> int:
        return self.types[self.index].kind

    def of(self, child: int) -> Mending:
        """For a child."""
        return replace(self, index=self.types[self.index].children[child])


def mended_values(array: pa.Array, mending: Mending) -> pa.Array:
    """The same type of array.

    Arrays that need nothing come back as they are. Of lists and maps the offsets and nulls are
    kept, and only the values below are replaced, all of them: those below nulls and outside of a
    slice too.
    """
    kind = mending.kind
    if kind == CHAR:
        return pc.utf8_rtrim(array, characters=" ")
    if kind == INSTANT and mending.zone is not None:
        return _wall_clock(array, mending)
    if kind not in (STRUCT, LIST, MAP):
        return array
    found = array.type
    children = [
        mended_values(part, mending.of(child)) for child, part in enumerate(_children(array))
    ]
    if kind == STRUCT:
        return pa.StructArray.from_arrays(children, fields=list(found), mask=array.is_null())
    if kind == MAP:
        entries = [found.key_field, found.item_field]
        children = [pa.StructArray.from_arrays(children, fields=entries)]
    return pa.Array.from_buffers(
        found, len(array), array.buffers()[:2], offset=array.offset, children=children
    )


def _children(array: pa.Array) -> list[pa.Array]:
    if pa.types.is_struct(array.type):
        return [array.field(index) for index in range(array.type.num_fields)]
    return [array.keys, array.items] if pa.types.is_map(array.type) else [array.values]


def far_times(
    seconds: pa.Array,
    nanos: npt.NDArray[np.int64],
    writer_zone: str | None,
    target: pa.DataType,
    mending: Mending,
) -> pa.Array:
    """Times in microseconds or nanoseconds of what ORC stores of them: seconds since 2015 began in the writer's zone,
    and nanoseconds of the values that are not null, each with the zeros at its end cut off and counted in three bits.

    seconds: of the column read as LONG, null where the value is. The steps:

        + 2015-01-01                    seconds since 1970, in the writer's clock for TIMESTAMP
        TIMESTAMP                       less the zone's offset at 2015, plus that at the moment: wall clock again
        before 1970 with milliseconds   less one second, as Java rounded the other way
        * units + fraction              checked by dividing again: what wrapped around is refused

    Raises UnsupportedError for a fraction or time that the unit does not hold.
    """
    subject = f"column {mending.column!r} of {mending.path}"
    valid = seconds.is_valid().to_numpy(zero_copy_only=False)
    if len(nanos) != np.count_nonzero(valid):
        raise ValueError(f"{len(nanos)} nanoseconds of {np.count_nonzero(valid)} times")
    is_clock = mending.kind != INSTANT
    since = np.where(valid, fixed_values(seconds, np.int64), 0)[valid]
    zone = writer_zone or "UTC"
    since = since + _ORC_EPOCH
    if is_clock:
        since = since - zone_offsets(np.array([_ORC_EPOCH]), zone, subject)
        since = since + zone_offsets(since, zone, subject)
    parts = (nanos >> 3) * np.where(nanos & 7, 10 ** ((nanos & 7) + 1), 1)
    # Java cuts seconds before 1970 towards it, where there are milliseconds.
    since = since - ((since < 0) & (parts > 999_999))
    per_second = {"us": 10**6, "ns": 10**9}[target.unit]
    fractions, lost = np.divmod(parts, 10**9 // per_second)
    values = since * per_second + fractions
    # What is too much has wrapped around.
    if np.any(lost) or np.any((values - fractions) // per_second != since):
        raise times_beyond(mending.column, mending.path, "64 bits do not hold it")
    every = np.zeros(len(seconds), np.int64)
    every[valid] = values
    return _with_values(seconds, target, every)


def _with_values(array: pa.Array, kind: pa.DataType, values: npt.NDArray[np.int64]) -> pa.Array:
    """The array's nulls with other values. values: one per row, anything where it is null."""
    buffers = [bitmap(validity(array)), pa.py_buffer(np.ascontiguousarray(values))]
    return pa.Array.from_buffers(kind, len(array), buffers)


def _wall_clock(array: pa.Array, mending: Mending) -> pa.Array:
    """What clocks in the zone show at these instants.

    Of a summer day in Berlin 08:00 UTC becomes 10:00, which is then called UTC: the value that
    Paimon's Java wrote. The values are shifted, the type stays.
    """
    if mending.zone == "UTC":
        return array
    per_second = {"us": 10**6, "ns": 10**9}[array.type.unit]
    values = fixed_values(array, np.int64)
    assert mending.zone is not None
    subject = f"column {mending.column!r} of {mending.path}"
    shifts = zone_offsets(values // per_second, mending.zone, subject) * per_second
    return _with_values(array, array.type, values + shifts)
