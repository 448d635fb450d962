"""Converts a user's data into row batches: checked, cast to the table's types, with row kinds and sequence numbers.

In: record batches (`row_source`), one set of columns per writer (`owned_columns`); out: row batches in the merge
engine's normal form (docs/decisions/0001), rows in arrival order. Raises InvalidError for data that the schema does not
allow, naming the column, what was found and what is expected.

All steps are column-wise: columns -> casts -> nulls -> row kinds -> kind filters (`ignore-delete`,
`ignore-update-before`) -> sequence numbers -> normal form. Dropped rows get no sequence number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from widetable.errors import InvalidError
from widetable.format.row_batch import row_batch_schema
from widetable.merge.engine import engine_of
from widetable.messages.counted import counted
from widetable.schema import options as opt
from widetable.schema.row_kind import INSERT, TEXTS, UPDATE_BEFORE, is_retraction, parse_texts
from widetable.schema.table_schema import TableSchema
from widetable.schema.types import DataField
from widetable.write.column_sets import RowSets
from widetable.write.owned_columns import WriteColumns
from widetable.write.safe_cast import check_values, is_text, key_cast, safe_cast
from widetable.write.sequence import SequenceAllocator


def _invalid(column: str, problem: str, expected: str, action: str) -> InvalidError:
    return InvalidError(f"column {column!r}", found=problem, expected=expected, action=action)


class BatchNormalizer:
    """Converts batches with one set of columns into row batches. Not thread-safe: calls get numbers in their order.
    expected: the names of the columns of each batch. inserts_only: all rows are +I, so no filter drops any.

    `records` and `normal_form` are separate because a changelog of producer `input` contains the records.
    """

    def __init__(
        self, schema: TableSchema, columns: WriteColumns, allocator: SequenceAllocator
    ) -> None:
        self._schema = schema
        self._columns = columns
        self._allocator = allocator
        self._engine = engine_of(schema)
        self._arrow = row_batch_schema(schema, columns.names)
        self._fields = [schema.field(name) for name in columns.names]
        extra = () if columns.kind_column is None else (columns.kind_column,)
        self.expected = frozenset(columns.names + extra)
        self.inserts_only = columns.kind_column is None
        options = schema.typed_options
        self._checked_rows = 0
        self._ignore_delete = options.get(opt.IGNORE_DELETE)
        self._ignore_update_before = options.get(opt.IGNORE_UPDATE_BEFORE)

    def check_batch(self, batch: pa.RecordBatch) -> None:
        """Check a batch. Raises InvalidError for other columns than the writer's, and for values that are invalid for
        their Arrow type.
        """
        self._check_columns(batch.schema.names)
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            check_values(column, name, self._checked_rows)
        self._checked_rows += batch.num_rows

    def _check_columns(self, names: Sequence[str]) -> None:
        """Check that a batch has the writer's columns, in any order."""
        if len(names) == len(self.expected) and self.expected == set(names):
            return
        wrong = sorted(self.expected.symmetric_difference(names)) or [names[0]]
        raise _invalid(
            wrong[0],
            f"a batch with the columns {sorted(names)}",
            f"the writer's columns {sorted(self.expected)}, each once",
            "Give all batches of one writer the same columns.",
        )

    def row_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Convert a user's batch into a row batch, which may have fewer rows, or none."""
        return self.normal_form(self.records(batch))

    def normal_form(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """Convert records into a row batch in normal form (docs/decisions/0001)."""
        return self._engine.normal_form(self._schema, records) if records.num_rows else records

    def records(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Convert a checked batch into numbered records that passed the filters, with the user's values."""
        return self.records_of_sets(batch, None)[0]

    def records_of_sets(
        self, batch: pa.RecordBatch, sets: RowSets | None
    ) -> tuple[pa.RecordBatch, RowSets | None]:
        """Return the records of a batch, as `records` does, with the sets of columns of those that passed."""
        arrays = [self._column(batch, field, at) for at, field in enumerate(self._fields)]
        kinds = self._kinds(batch)
        keep = self._kept(kinds)
        if keep is not None:
            mask = pa.array(keep)
            arrays = [array.filter(mask) for array in arrays]
            kinds = kinds[keep]
        numbers = self._allocator.take(len(kinds))
        records = pa.RecordBatch.from_arrays(
            [_plain(numbers, pa.int64()), _plain(kinds, pa.int8()), *arrays], schema=self._arrow
        )
        return records, None if sets is None else sets.kept(keep)

    def with_all_columns(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch with nulls in each table column of the writer that it lacks."""
        for name in self._columns.names:
            if name not in batch.schema.names:
                kind = self._arrow.field(name).type
                batch = batch.append_column(name, pa.nulls(batch.num_rows, kind))
        return batch

    def _column(self, batch: pa.RecordBatch, field: DataField, at: int) -> pa.Array:
        cast = key_cast if field.name in self._schema.primary_keys else safe_cast
        array = cast(batch.column(field.name), field, self._arrow.field(at + 2).type)
        if array.null_count and not field.type.nullable:
            what = "key" if field.name in self._schema.primary_keys else "NOT NULL"
            raise _invalid(
                field.name,
                f"null in {array.null_count} of {counted(len(array), 'row')}",
                f"a value in every row of a {what} column",
                "Fill the nulls, or drop the rows.",
            )
        return array

    def _kinds(self, batch: pa.RecordBatch) -> npt.NDArray[np.int8]:
        name = self._columns.kind_column
        if name is None:
            return np.full(batch.num_rows, INSERT, np.int8)
        return row_kinds(batch.column(name), name)

    def _kept(self, kinds: npt.NDArray[np.int8]) -> npt.NDArray[np.bool_] | None:
        """Return the mask of the rows that the kind filters keep; None if they keep all."""
        if self._ignore_delete:
            dropped = is_retraction(kinds)
        elif self._ignore_update_before:
            dropped = np.asarray(kinds == UPDATE_BEFORE)
        else:
            return None
        return ~dropped if dropped.any() else None


def row_kinds(column: pa.Array, name: str) -> npt.NDArray[np.int8]:
    """Convert a column of texts, or of 0 to 3, into row kinds. Raises InvalidError for other types and values."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_integer(kind):
        return _kinds_of_numbers(column, name)
    if is_text(kind):
        return parse_texts(column.cast(pa.string()), name)
    raise _invalid(
        name, f"the type {column.type}", "row kinds as strings or integers", "Cast the column."
    )


def _kinds_of_numbers(column: pa.Array, name: str) -> npt.NDArray[np.int8]:
    valid = pc.is_in(column, value_set=pa.array(range(len(TEXTS)), column.type))
    if not pc.all(valid, min_count=0).as_py():
        wrong = column.filter(pc.invert(valid))[0].as_py()
        raise _invalid(
            name,
            f"the row kind {wrong}",
            "0 (+I), 1 (-U), 2 (+U) or 3 (-D)",
            "Correct the row kinds.",
        )
    return np.asarray(column.cast(pa.int8()).to_numpy(zero_copy_only=False), np.int8)


def _plain(values: npt.NDArray[Any], kind: pa.DataType) -> pa.Array:
    """Wrap a numpy array as an Arrow array, without a copy. `pa.array` is not used, because its first call imports
    pandas, which takes half a second, also in the many short-lived processes that only check a schema.
    """
    return pa.Array.from_buffers(
        kind, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))]
    )
