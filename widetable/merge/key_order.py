"""The order of rows: by the key columns and the user's sequence of a table.

Rows of a bucket are ordered by (trimmed primary key, `sequence.field`s, sequence number, retraction before add); the
last row wins. Source: Paimon `SortMergeReader`, `UserDefinedSeqComparator`. Null is the smallest value, also where
`sequence.field.sort-order` is descending. Partition columns are left out of the key, because
they are equal in a bucket. Ties are broken by position: older run first, then file order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.errors import InvalidError, UnsupportedError
from widetable.format.row_batch import column_or_nulls
from widetable.kernels.array_types import Lanes
from widetable.kernels.key_lanes import key_lanes
from widetable.schema import options as opt
from widetable.schema.row_kind import is_retraction
from widetable.schema.table_schema import TableSchema
from widetable.schema.types import DataType

# Doubling a number must stay an int64. Nanoseconds since 1970 get there in 2116.
_DOUBLED_MAX = 1 << 62


def lanes_of_keys(schema: TableSchema, batches: Sequence[pa.RecordBatch]) -> Lanes:
    """Return u64[n, L] for the key columns of all rows, batch after batch. Lanes are comparable only among the row
    batches of one call, because bits that all of its rows share are removed.
    """
    return key_lanes(_laid_end_to_end(schema, batches, schema.trimmed_primary_key))


def lanes_of_sequence(schema: TableSchema, batches: Sequence[pa.RecordBatch]) -> Lanes | None:
    """Return u64[n, L] for the `sequence.field`s; None in a table without them. A missing column is null."""
    names = schema.sequence_fields
    if not names:
        return None
    for name in names:
        check_order(opt.SEQUENCE_FIELD.key, name, schema.field(name).type)
    is_descending = schema.typed_options.get(opt.SEQUENCE_SORT_ORDER) == "descending"
    columns = _laid_end_to_end(schema, batches, names)
    return key_lanes(columns, descending=[is_descending] * len(columns))


def check_order(option: str, name: str, kind: DataType) -> None:
    """Raise unless records can be ordered by a column or field: UnsupportedError for lists, which Paimon orders by
    their elements; InvalidError, naming the option, for types that have no order.
    """
    if kind.root == "ARRAY":
        raise UnsupportedError(
            f"option {option!r}",
            found=f"{name!r} of type {kind}",
            expected="a type that is not nested",
            action="Use another column, or another client.",
        )
    if kind.is_nested:
        raise InvalidError(
            f"option {option!r}",
            found=f"{name!r} of type {kind}",
            expected="a type that has an order",
            action="Use another column.",
        )


def _laid_end_to_end(
    schema: TableSchema, batches: Sequence[pa.RecordBatch], names: Sequence[str]
) -> list[pa.ChunkedArray]:
    return [
        pa.chunked_array([column_or_nulls(batch, field) for batch in batches], field.type)
        for field in schema.arrow_schema(names)
    ]


def arrival_keys(
    sequence_numbers: npt.NDArray[np.int64], kinds: npt.NDArray[np.int8]
) -> npt.NDArray[np.int64]:
    """Return int64[n] that order rows like (sequence number, retraction before add).

        numbers   7   7   8      7   8                  -5  2^62   -5
        kinds    +I  -D  +U     +I  +U                  +I    -D   -D
        result   15  14  17      7   8 (all adds)        1     2    0 (ranks, doubled)

    The result may be the given array. Results are comparable within one call only.
    """
    retractions = is_retraction(kinds)
    if not retractions.any():
        return sequence_numbers
    if sequence_numbers.min() < 0 or sequence_numbers.max() >= _DOUBLED_MAX:
        sequence_numbers = np.unique(sequence_numbers, return_inverse=True)[1]
    return np.asarray(sequence_numbers * 2 + ~retractions, dtype=np.int64)
