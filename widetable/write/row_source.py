"""Converts a caller's rows into a stream of Arrow record batches, for writes and for the keys of lookups.

    Arrow     Table, RecordBatch, RecordBatchReader, Dataset, Scanner, and all objects with the C stream or C array
              interface (frames of polars, results of DuckDB): streamed, with their own types
    a frame   of pandas: its columns, and the named levels of its index; unnamed levels only count rows
    columns   a dict of names to values: lists, numpy arrays (one of two dimensions is a list per row), Series, Index,
              Arrow arrays
    rows      an iterable of dicts, loaded into memory. A name that no dict has is an absent column; a name that some
              have is null in the others, and `sets` says which rows carry it
    parts     an iterable of Arrow data and frames, read one at a time, all with the columns of the first
    values    of a single column that the caller names: any values that a dict of columns accepts

Values of Python, numpy and pandas, and of polars in types that Arrow lacks (Int128), are converted to the column's type
by `safe_cast.python_cast`; Arrow data keeps its types.
Raises UnsupportedError for data without rows, InvalidError naming the column whose values cannot form one. Errors of a
caller's own iterator or reader are not translated.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from widetable.arguments import refused, shown, text
from widetable.errors import InvalidError, UnsupportedError
from widetable.format.row_budget import BATCH_BYTES, pieces
from widetable.schema.table_schema import TableSchema
from widetable.schema.types import MAX_NESTED, DataField, arrow_type
from widetable.write.column_sets import RowSets
from widetable.write.python_array import NO_ARRAY, python_array
from widetable.write.safe_cast import python_cast

_Rows: TypeAlias = pa.RecordBatch | pa.Table | pa.RecordBatchReader
_Values: TypeAlias = pa.Array | pa.ChunkedArray
_TEXTS: Final = (str, bytes, bytearray, memoryview)
_WITHOUT_PARTS: Final = (float, int, *_TEXTS, type(None))
_WITH_PARTS: Final = (list, tuple, Mapping, Set)


@dataclass(frozen=True)
class RowSource:
    """The rows of a caller. columns: None if the data has no columns. batches: to be read once, without empty ones.

    Nothing is read ahead, except lists of dicts and columns of Python values, which are already
    Arrow arrays. The types are the caller's own, or the table's (see the module). sets: for dicts, the names of each,
    by row over all batches; None for data in which each row has all columns. held: all batches, where they are in
    memory as Arrow rows already.
    """

    columns: tuple[str, ...] | None
    batches: Iterator[pa.RecordBatch]
    sets: RowSets | None = None
    held: tuple[pa.RecordBatch, ...] = ()


def row_source(data: Any, schema: TableSchema, single: str | None = None) -> RowSource:
    """Convert a caller's data. single: the column of values without a name; None: such values are refused."""
    source = _at_once(data, schema, single)
    if source is not None:
        return source
    if isinstance(data, _TEXTS) or not isinstance(data, Iterable):
        raise _no_rows(data)
    try:
        iterator = iter(data)
    except TypeError:  # such as a numpy array without dimensions
        raise _no_rows(data) from None
    for first in iterator:
        return _listed(first, iterator, schema, single)
    return RowSource(None, iter(()))


def _at_once(data: Any, schema: TableSchema, single: str | None) -> RowSource | None:
    """Convert data that is not a plain iterable; None for a plain iterable.

    The order matters, because data may be of several kinds: pyarrow's objects, frames of pandas,
    dicts, datasets, then objects with Arrow's C interface, and values of a single column last.
    """
    if not isinstance(data, (_Rows, _Values)):
        if _is_of(data, "pandas", "MultiIndex"):
            data = data.to_frame(index=False)
        if _is_of(data, "pandas", "DataFrame"):
            return _of_columns(_frame_columns(data), schema)
        if isinstance(data, Mapping):
            return _of_columns(data.items(), schema)
        if _is_of(data, "pyarrow.dataset", "Dataset"):
            data = data.scanner()
        if _is_of(data, "pyarrow.dataset", "Scanner"):
            data = data.to_reader()
    arrow = _arrow(data)
    if arrow is None and _is_of(data, "polars", "DataFrame"):
        return _of_columns(((column.name, column) for column in data), schema)
    if isinstance(arrow, _Rows):
        batches = arrow.to_batches() if isinstance(arrow, pa.Table) else arrow
        batches = [arrow] if isinstance(arrow, pa.RecordBatch) else batches
        filled = (each for each in batches if each.num_rows)
        names = tuple(arrow.schema.names)
        if isinstance(arrow, pa.RecordBatchReader):
            return RowSource(names, filled)
        in_memory = tuple(filled)
        return RowSource(names, iter(in_memory), held=in_memory)
    if arrow is None and not (
        isinstance(data, np.ndarray)
        or _is_of(data, "pandas", *_PANDAS_VALUES)
        or _is_of(data, "polars", "Series")
    ):
        return None
    if single is None:
        raise _no_rows(data)
    return _of_columns([(single, data)], schema)


def _listed(first: Any, rest: Iterator[Any], schema: TableSchema, single: str | None) -> RowSource:
    """Convert a plain iterable, by the kind of its first element.

    Dicts are all loaded into memory, because the last one may have a new name. Arrow data and frames
    are read one at a time, and the writer checks that their columns agree.
    """
    if isinstance(first, Mapping):
        rows = [first, *rest]
        for row in rows:
            if not isinstance(row, Mapping):
                raise InvalidError(
                    "data",
                    found=f"a {type(row).__name__} among dicts",
                    expected="only dicts, or no dict",
                    action="Pass all rows in the same form.",
                )
        names = dict.fromkeys(chain.from_iterable(rows))
        rows_source = _of_columns(
            ((name, [row.get(name) for row in rows]) for name in names), schema
        )
        return replace(rows_source, sets=RowSets.of_dicts(rows, names))
    if single is not None and not hasattr(first, "__arrow_c_stream__"):
        return _of_columns([(single, [first, *rest])], schema)
    source = _at_once(first, schema, None)
    if source is None:
        raise _no_rows(first)
    others = (row_source(part, schema).batches for part in rest)
    return RowSource(source.columns, chain(source.batches, chain.from_iterable(others)))


# Arrow and pandas

_PANDAS_VALUES: Final = ("Series", "Index", "api.extensions.ExtensionArray")


def _is_of(data: Any, module: str, *names: str) -> bool:
    """Return whether data is an instance of a class, by its name. The module is not imported: the owner of such an
    object has imported it.
    """
    for name in names:
        member: Any = sys.modules.get(module)
        for part in name.split("."):
            member = getattr(member, part, None)
        if member is not None and isinstance(data, member):
            return True
    return False


def _arrow(data: Any) -> _Rows | _Values | None:
    """Return Arrow data as rows or, if it has no columns, as values; None for other data."""
    if isinstance(data, _Rows):
        return data
    if isinstance(data, _Values) and not pa.types.is_struct(data.type):
        return data
    if _is_of(data, "polars", "DataFrame") and not _is_known(data):
        return None
    try:
        if _has_interface(data, "stream"):
            return pa.RecordBatchReader.from_stream(data)
        if _has_interface(data, "array"):
            return pa.record_batch(data)
    except pa.ArrowException:
        pass  # the data are values, or not convertible
    try:
        return _arrow_values(data)
    except (pa.ArrowException, TypeError) as cause:
        raise _no_rows(data) from cause


def _is_known(data: Any) -> bool:
    """Return whether Arrow has all types of a frame or Series of polars; it lacks Int128, UInt128 and Object."""
    try:
        pa.RecordBatchReader.from_stream(data.to_frame() if hasattr(data, "to_frame") else data)
    except pa.ArrowException:
        return False
    return True


def _arrow_values(data: Any) -> _Values | None:
    """Return Arrow data as one column, with rows as structs; None for other data. Raises what Arrow raises."""
    if isinstance(data, _Values):
        return data
    if _is_of(data, "polars", "Series") and not _is_known(data):
        return None
    if _has_interface(data, "stream"):
        return pa.chunked_array(data)
    return pa.array(data) if _has_interface(data, "array") else None


def _has_interface(data: Any, which: str) -> bool:
    """Return whether data has an Arrow C interface. A class, which has the method too, does not count; nor do pandas
    objects, whose interface omits information.
    """
    return hasattr(data, f"__arrow_c_{which}__") and not (
        isinstance(data, type) or _is_of(data, "pandas", *_PANDAS_VALUES)
    )


def _frame_columns(frame: Any) -> Iterator[tuple[Any, Any]]:
    for level, name in enumerate(frame.index.names):
        if name is not None and name not in frame.columns:
            yield name, frame.index.get_level_values(level)
    yield from frame.items()


# Columns


def _of_columns(columns: Iterable[tuple[Any, Any]], schema: TableSchema) -> RowSource:
    """Convert columns of (name, values). Repeated names are refused elsewhere."""
    names: list[str] = []
    arrays: list[_Values] = []
    of_python: dict[int, DataField] = {}
    for column_name, values in columns:
        name = text(column_name, "name of a column")
        field = schema.by_name.get(name)
        try:
            array = _arrow_values(values)
            if array is None:
                array = _python_values(values, name, field)
                if field is not None and array.type != arrow_type(field.type):
                    of_python[len(names)] = field
        except NO_ARRAY as cause:
            raise _no_column(values, name, cause) from cause
        if arrays and len(array) != len(arrays[0]):
            raise InvalidError(
                f"column {name!r}",
                found=f"a column of length {len(array)}",
                expected=f"{len(arrays[0])}, the length of column {names[0]!r}",
                action="Pass columns of one length.",
            )
        names.append(name)
        arrays.append(array)
    rows = pa.Table.from_arrays(arrays, names=names)
    if of_python:
        return RowSource(tuple(names), _in_types(rows, of_python))
    in_memory = tuple(rows.to_batches())
    return RowSource(tuple(names), iter(in_memory), held=in_memory)


def _in_types(rows: pa.Table, of_python: Mapping[int, DataField]) -> Iterator[pa.RecordBatch]:
    """Yield batches in which columns of Python values have the table's types."""
    for batch in rows.to_batches():
        for piece in pieces(batch, BATCH_BYTES):
            columns = piece.columns
            for at, column in of_python.items():
                columns[at] = python_cast(columns[at], column)
            yield pa.RecordBatch.from_arrays(columns, names=rows.column_names)


def _python_values(values: Any, name: str, field: DataField | None) -> _Values:
    """Convert values of Python, numpy or pandas, with their own types. Raises what Arrow raises."""
    is_pandas = _is_of(values, "pandas", *_PANDAS_VALUES)
    if is_pandas or isinstance(values, np.ndarray):
        if values.dtype != object:
            if isinstance(values, np.ndarray) and values.ndim == 2:
                flat = pa.array(values.reshape(-1))
                return pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
            return pa.array(values, from_pandas=is_pandas)
        values = values.tolist()
    elif _is_of(values, "polars", "Series"):
        values = values.to_list()
    elif isinstance(values, (*_TEXTS, Mapping)) or not isinstance(values, Iterable):
        raise _no_column(values, name)
    else:
        values = list(values)
    if not isinstance(values, list) or not _is_shallow(values):
        raise refused(values, f"column {name!r}", f"a list, nested at most {MAX_NESTED} deep")
    # Arrow reads an empty text as a map without entries.
    if field and field.type.root == "MAP" and any(isinstance(each, _TEXTS) for each in values):
        raise _no_column(values, name, "a text, which is not a map")
    return python_array(values, field, is_pandas=is_pandas)


def _is_shallow(values: Sequence[Any]) -> bool:
    """Return whether Arrow can convert the values: it recurses over nested lists until its stack overflows."""
    level: list[Any] = [values]
    for _ in range(MAX_NESTED + 2):
        parts = (each.values() if isinstance(each, Mapping) else each for each in level)
        inside = (part for part in chain.from_iterable(parts) if _has_parts(part))
        level = list({id(part): part for part in inside}.values())
        if not level:
            return True
    return False


def _has_parts(value: Any) -> bool:
    if isinstance(value, _WITHOUT_PARTS):
        return False
    if isinstance(value, np.ndarray):
        return value.dtype == object and value.ndim > 0
    return isinstance(value, _WITH_PARTS)


def _no_rows(data: Any) -> UnsupportedError:
    return UnsupportedError(
        "data",
        found=f"a {type(data).__name__}",
        expected="Arrow data (a table, batches, a reader, any object with the C stream interface), a frame of pandas "
        "or polars, a dict of columns, or a list of dicts",
        action="Pass the rows in one of these forms.",
    )


def _no_column(values: Any, name: str, cause: object = None) -> InvalidError:
    problem = shown(values) if cause is None else f"values that do not form a column: {cause}"
    return InvalidError(
        f"column {name!r}",
        found=problem,
        expected="values of one type and in its range, such as a list, an array of numpy or Arrow, or a Series",
        action="Correct the values.",
    )
