"""The difference of two sets of rows, by key: the records that turn the old rows into the new ones.

    old   a 1   b 2   c 3        new   b 2   c 4   d 5        written   -D a 1   +I d 5   +U c 4

In: two tables with the same columns, each key at most once in each. Out: rows with `_row_kind`: +I for keys that only
`new` has, +U for keys whose row differs, -D, with the old row, for keys that only `old` has. Equal rows are left out.
Rows are compared as in merges (merge/row_equality): null equals null, NaN equals NaN, -0.0 is not 0.0. Keys are
compared as in kernels/key_lanes. Pure. Raises TypeError for columns that cannot be a key.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from widetable.derive.changes.equal_keys import Numbers, key_numbers, rows_at
from widetable.kernels.array_types import Mask
from widetable.kernels.arrow_buffers import one_array
from widetable.merge.row_equality import equal_values
from widetable.schema.row_kind import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, to_texts
from widetable.schema.table_schema import ROW_KIND_COLUMN


def row_difference(
    old: pa.Table, new: pa.Table, key: Sequence[str], *, with_before: bool = False
) -> pa.Table:
    """Return the records that turn `old` into `new`.

    with_before: add the old row as -U before each +U, for a changelog that holds the written records. The example
    above then gives -D a 1, -U c 3, +I d 5, +U c 4, kind by kind. The -U of a key precedes its +U; a writer keeps
    the order of records of one key.
    """
    old_numbers, new_numbers = key_numbers([old, new], key)
    place = np.full(old.num_rows + new.num_rows, -1, np.int64)
    place[old_numbers] = np.arange(old.num_rows)
    match = place[new_numbers]
    both = np.flatnonzero(match >= 0)
    is_changed = ~equal_rows(rows_at(old, match[both]), rows_at(new, both))
    changed = both[is_changed]
    is_gone = np.ones(old.num_rows, np.bool_)
    is_gone[match[both]] = False
    parts = [
        _with_kind(old, np.flatnonzero(is_gone), DELETE),
        _with_kind(old, match[changed] if with_before else changed[:0], UPDATE_BEFORE),
        _with_kind(new, np.flatnonzero(match < 0), INSERT),
        _with_kind(new, changed, UPDATE_AFTER),
    ]
    return pa.concat_tables(parts)


def equal_rows(left: pa.Table, right: pa.Table) -> Mask:
    """Return bool[n]: True where two tables with the same columns hold the same row."""
    equal = np.ones(left.num_rows, np.bool_)
    for one, other in zip(left.columns, right.columns, strict=True):
        equal &= equal_values(one_array(one), one_array(other))
    return equal


def _with_kind(rows: pa.Table, places: Numbers, kind: int) -> pa.Table:
    kinds = to_texts(pa.array(np.full(len(places), kind, np.int8)))
    columns = [*rows_at(rows, places).columns, kinds]
    return pa.Table.from_arrays(columns, names=[*rows.column_names, ROW_KIND_COLUMN])
