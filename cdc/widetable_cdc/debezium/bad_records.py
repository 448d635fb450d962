"""Records that cannot be applied, with what is known of them.

In: ordinals, texts and reasons. Out: an Arrow table, which `error_table` stores. Pure. Raises nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

# ordinal: the number of the record in its batch. kind: the letter of `op`. key: the record's key, or the key columns.
# row: the record's value.
SCHEMA: Final = pa.schema(
    [
        pa.field("ordinal", pa.int64(), nullable=False),
        pa.field("kind", pa.string()),
        pa.field("key", pa.large_string()),
        pa.field("row", pa.large_string()),
        pa.field("reason", pa.string()),
    ]
)


def bad_records(
    ordinals: npt.NDArray[np.int64],
    kinds: Sequence[str | None],
    keys: pa.Array,
    rows: pa.Array,
    reasons: Sequence[str],
) -> pa.Table:
    """Return a table of records, one for each ordinal."""
    columns = [
        pa.array(ordinals, pa.int64()),
        pa.array(kinds, pa.string()),
        keys.cast(pa.large_string()),
        rows.cast(pa.large_string()),
        pa.array(reasons, pa.string()),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def joined(tables: Sequence[pa.Table]) -> pa.Table:
    """Return all records, by their ordinals; the first reason of each."""
    every = pa.concat_tables([SCHEMA.empty_table(), *tables])
    ordinals = np.asarray(every.column("ordinal"))
    _, firsts = np.unique(ordinals, return_index=True)
    return every.take(pa.array(firsts))
