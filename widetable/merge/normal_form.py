"""The normal form of partial-update records (docs/decisions/0001): values that have no meaning become null.

The form is made column by column and record by record. `sequence.field`s keep their values, because they order
records. Key and other NOT NULL columns keep theirs too. With a group of
sequence s that protects a, and b in no group:

    record      s  a  b        normal    s  a  b
    +I          ·  5  6                  ·  ·  6        without a sequence the group is skipped
    -D          3  5  6                  3  ·  ·        a retraction clears; its sequence is stored
    +I          3  5  6                  3  5  6
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.errors import InvalidError
from widetable.kernels.array_types import Mask
from widetable.kernels.arrow_buffers import fixed_values, validity
from widetable.kernels.gather import take
from widetable.merge.aggregate_columns import columns_of_group
from widetable.merge.aggregate_function import IGNORE_RETRACT
from widetable.merge.printed_key import printed_key_of
from widetable.schema import options as opt
from widetable.schema.row_kind import DELETE, is_retraction
from widetable.schema.table_schema import VALUE_KIND, TableSchema


def cleared_of_partial_update(schema: TableSchema, row_batch: pa.RecordBatch) -> dict[str, Mask]:
    """Return, by column, the rows whose value has no meaning. Where a function retracts, retractions keep their value.

    Columns that are not in the result keep all values. Columns may share one mask, so do not
    write into a mask. The names are those of the batch's columns, and of all others of their groups.
    """
    kinds = fixed_values(row_batch.column(VALUE_KIND), np.int8)
    retractions = is_retraction(kinds)
    cleared: dict[str, Mask] = {}
    names = [name for name in row_batch.schema.names if name in schema.by_name]
    if schema.sequence_groups:
        grouped: set[str] = set()
        for group in schema.groups_of(names):
            grouped.update(group.columns)
            written = (name for name in group.sequence if name in names)
            columns = map(row_batch.column, written)
            without_sequence = ~has_sequence(columns, row_batch.num_rows)
            without_values = retractions | without_sequence
            filled = columns_of_group(schema, group)
            for name in group.protected:
                keeps_retractions = name in filled and not filled[name].get(IGNORE_RETRACT)
                if name not in group.sequence:
                    cleared[name] = without_sequence if keeps_retractions else without_values
        cleared.update({name: retractions for name in names if name not in grouped})
    elif schema.typed_options.get(opt.REMOVE_RECORD_ON_DELETE):
        cleared.update(dict.fromkeys(names, kinds == DELETE))
    return cleared


def first_retraction(schema: TableSchema, row_batch: pa.RecordBatch) -> tuple[int, str] | None:
    """Return the kind and the key, as text, of the first -U or -D: for engines that refuse them, because a key that has
    one could not be read any more.
    """
    kinds = fixed_values(row_batch.column(VALUE_KIND), np.int8)
    retractions = np.flatnonzero(is_retraction(kinds))
    if not len(retractions):
        return None
    row = int(retractions[0])
    return int(kinds[row]), printed_key_of(schema, row_batch, row)


def first_empty_delete(
    schema: TableSchema, row_batch: pa.RecordBatch, names: Iterable[str]
) -> str | None:
    """Return the key, as text, of the first -D without a value in any of these columns. A missing column is null."""
    deletes = fixed_values(row_batch.column(VALUE_KIND), np.int8) == DELETE
    if not deletes.any():
        return None
    there = [row_batch.column(name) for name in names if name in row_batch.schema.names]
    empty = np.flatnonzero(deletes & ~has_sequence(there, row_batch.num_rows))
    return printed_key_of(schema, row_batch, int(empty[0])) if len(empty) else None


def ineffective_delete(subject: str, key: str, expected: str, names: Iterable[str]) -> InvalidError:
    """Return the error for a -D that changes nothing. expected: what the record must carry."""
    return InvalidError(
        subject,
        found=f"a -D record of the key {key} that would change nothing: no value in {', '.join(map(repr, names))}",
        expected=expected,
        action="Add the values, or leave such records out; the option ignore-delete leaves out every -D. To remove the "
        "row, call delete with rewrite=True.",
    )


def has_sequence(columns: Iterable[pa.Array], rows: int) -> Mask:
    """Return bool[rows]: whether at least one of the columns has a value; they are a group's sequence columns."""
    has_value = np.zeros(rows, np.bool_)
    for column in columns:
        valid = validity(column)
        has_value |= True if valid is None else valid
    return has_value


def _has_value(array: pa.Array, rows: npt.NDArray[np.bool_]) -> bool:
    """Whether any of these rows is not null."""
    valid = validity(array)
    return bool((rows if valid is None else valid & rows).any())


def clear(
    schema: TableSchema, row_batch: pa.RecordBatch, cleared: dict[str, npt.NDArray[np.bool_]]
) -> pa.RecordBatch:
    """Return the batch with nulls where a column's mask is set; the key, columns that order records and NOT NULL
    columns stay.
    """
    arrays = []
    rows = np.arange(row_batch.num_rows)
    for name, array in zip(row_batch.schema.names, row_batch.columns, strict=True):
        clear = cleared.get(name)
        stays = (
            name in schema.sequence_fields or clear is None or not schema.field(name).type.nullable
        )
        # Most columns lose no value: they are passed on, not copied.
        if not stays and clear is not None and _has_value(array, clear):
            array = take(array, np.where(clear, -1, rows))
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=row_batch.schema)
