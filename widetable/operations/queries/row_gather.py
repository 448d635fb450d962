"""Gathers rows in the order of the requested keys, -1 for a row of nulls: one column, or all columns of a few rows.

Raises TooManyBytesError where texts do not fit into one array.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from widetable.errors import InvalidError
from widetable.kernels.gather import take
from widetable.kernels.row_widths import check_capacity_of_rows
from widetable.messages.counted import counted

Numbers = npt.NDArray[np.int64]


class TooManyBytesError(InvalidError):
    """The rows of all keys do not fit into arrays; those of fewer may."""


def taken_rows(rows: pa.RecordBatch, places: Numbers) -> pa.RecordBatch:
    """Take all columns in one call, because its fixed cost is what counts."""
    with _fitting("one of its columns", places):
        check_capacity_of_rows(rows, places)
        return pc.take(rows, pa.array(places, mask=places < 0))


def taken_column(batches: Sequence[pa.RecordBatch], field: pa.Field, places: Numbers) -> pa.Array:
    """Return one column of the result; without batches it has nulls only."""
    column = pa.chunked_array([batch.column(field.name) for batch in batches], field.type)
    with _fitting(repr(field.name), places):
        return take(column, places)


@contextlib.contextmanager
def _fitting(column: str, places: Numbers) -> Iterator[None]:
    """Raise TooManyBytesError where a `take` overflows.

    Text and bytes have 32-bit offsets, so the caller must divide more than 2 GiB of them; the table has no fault.
    """
    try:
        yield
    except pa.ArrowInvalid as cause:
        raise TooManyBytesError(
            "keys",
            found=f"{counted(len(places), 'key')}, with more values of {column} than fit into one array: {cause}",
            expected="less than 2 GiB of text or bytes in a column",
            action="Look up fewer keys at once.",
        ) from cause
