"""The normal form of records that functions merge (docs/decisions/0001, 0031): merging one such record leaves it as is.

Lists and maps lose what their function would drop: repeated elements, rows beyond a limit. A retraction that
could never be merged is refused here, because once it is stored the table cannot be read.

    collect, distinct       [1 1 2]  becomes  [1 2]
    nested_update, limit 1  [a b]    becomes  [a]

Other functions leave a record as it is: merging it alone gives its own value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.errors import InvalidError
from widetable.kernels.aggregate import ADD, RETRACT, SKIP
from widetable.kernels.array_types import Mask
from widetable.kernels.arrow_buffers import fixed_values
from widetable.merge.aggregate_columns import applies_retractions, refuses_retractions
from widetable.merge.aggregate_function import AggregateColumn
from widetable.merge.aggregate_functions import function_of
from widetable.merge.fold import Fold, one_or_other
from widetable.merge.normal_form import clear
from widetable.merge.plan import Computed, SourceList
from widetable.merge.printed_key import printed_key_of
from widetable.merge.window import Window
from widetable.schema.row_kind import TEXTS, is_retraction
from widetable.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND, TableSchema


def aggregate_normal_form(
    schema: TableSchema,
    row_batch: pa.RecordBatch,
    columns: Iterable[AggregateColumn],
    cleared: Mapping[str, Mask],
) -> pa.RecordBatch:
    """Return the records in normal form. cleared: by column, the rows that lose their value.

    columns: those that functions fill. Values of retractions stay: they are the values to retract.
    """
    kinds = fixed_values(row_batch.column(VALUE_KIND), np.int8)
    steps = np.where(is_retraction(kinds), SKIP, ADD).astype(np.int8)
    for column in columns:
        normal_form = function_of(column).normal_form(column)
        at = row_batch.schema.get_field_index(column.name)
        if at < 0 or normal_form is None:
            continue
        values = normal_form(
            _single_records(schema, row_batch, steps), column, row_batch.column(at)
        )
        row_batch = row_batch.set_column(
            at, row_batch.schema.field(at), one_or_other(steps == ADD, values, row_batch.column(at))
        )
    return clear(schema, row_batch, dict(cleared))


def refuse_retractions(
    row_batch: pa.RecordBatch, retractions: Mask, columns: Iterable[AggregateColumn]
) -> None:
    """Raise InvalidError for the first of these rows that a function cannot retract."""
    for column in columns:
        if retractions.any() and refuses_retractions(column):
            row = int(retractions.argmax())
            kind = fixed_values(row_batch.column(VALUE_KIND), np.int8)[row]
            raise _irreversible(column, kind, printed_key_of(column.schema, row_batch, row))


def fill(
    sources: SourceList, column: AggregateColumn, fold: Fold, without_retractions: Fold
) -> None:
    """Add the source of a column that a function fills. without_retractions: the same fold with retractions skipped.
    Raises InvalidError for a retraction that the function does not support; only another client writes one.
    """
    if refuses_retractions(column) and (fold.steps == RETRACT).any():
        row = int(fold.rows[(fold.steps == RETRACT).argmax()])
        raise _irreversible(column, fold.window.kinds[row], fold.window.printed_key(row))
    applied = fold if applies_retractions(column) else without_retractions
    values = function_of(column).aggregate(applied, column)
    if not isinstance(values, Computed):
        values = fold.indices(values, or_last=not column.field.type.nullable)
    sources.add(column.name, values)


def _irreversible(column: AggregateColumn, kind: int, key: str) -> InvalidError:
    return InvalidError(
        f"column {column.name!r}, function {column.function!r}",
        found=f"a {TEXTS[kind]} record of the key {key}",
        expected="+I and +U only, as the function does not support retractions",
        action=f"Set 'fields.{column.name}.ignore-retract' or 'ignore-delete', or filter the records.",
    )


def _single_records(
    schema: TableSchema, row_batch: pa.RecordBatch, steps: npt.NDArray[np.int8]
) -> Fold:
    """Return a fold in which each record is a key of its own, without older ones: what removes those stays."""
    count = row_batch.num_rows
    places = np.arange(count + 1)
    kinds = fixed_values(row_batch.column(VALUE_KIND), np.int8)
    numbers = fixed_values(row_batch.column(SEQUENCE_NUMBER), np.int64)
    window = Window(schema, (row_batch,), places[:-1], places, kinds, numbers)
    return Fold(
        window, places[:-1], places[:-1], places, np.full(count, -1, np.int64), steps, composes=True
    )
