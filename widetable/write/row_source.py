"""Rows as callers have them, as a stream of Arrow record batches: one place for writes and for the keys of lookups.

    Arrow     Table, RecordBatch, RecordBatchReader, Dataset, Scanner, and all that has the C stream or C array
              interface (frames of polars, results of DuckDB): streamed, in the types that it has
    a frame   of pandas: its columns, and levels of its index that have a name; without one they only count rows
    columns   a dict of names to values: lists, numpy arrays (one of two dimensions is a list per row), Series, Index,
              Arrow arrays
    rows      an iterable of dicts, held in memory. A name that no dict has is an absent column; one that some have is
              null in the others, and `sets` says which have it
    parts     an iterable of Arrow data and frames, one at a time, all with the columns of the first
    values    of a single column, where the caller says which: any of those that a dict of columns takes

Values of Python, numpy and pandas, and of polars in types that Arrow lacks (Int128), become the column's type as
`safe_cast.python_cast` says; Arrow data keeps its own.
Raises UnsupportedError for what has no rows, InvalidError naming the column whose values make none. What a caller's own
iterator or reader raises passes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from widetable.arguments import refused, shown, text
from widetable.errors import InvalidError, UnsupportedError
from widetable.format.row_budget import BATCH_BYTES, pieces
from widetable.schema.table_schema import TableSchema
from widetable.schema.types import MOST_NESTED, DataField
from widetable.write.python_array import NO_ARRAY, python_array
from widetable.write.safe_cast import python_cast

_Rows: TypeAlias = pa.RecordBatch | pa.Table | pa.RecordBatchReader
_Values: TypeAlias = pa.Array | pa.ChunkedArray
_TEXTS: Final = (str, bytes, bytearray, memoryview)
_WITHOUT_PARTS: Final = (float, int, *_TEXTS, type(None))
_WITH_PARTS: Final = (list, tuple, Mapping, Set)


@dataclass(frozen=True)
class RowSource:
    """columns: None when there is nothing to say which. batches: to be read once; empty ones are left out.

    Nothing is read ahead: batches come as they are asked for, but for lists of dicts and
    columns of Python values, which are Arrow arrays by then. Their types are the caller's own,
    or the table's (module). sets: of dicts with different names, each set of them and the place of its first row.
    """

    columns: tuple[str, ...] | None
    batches: Iterator[pa.RecordBatch]
    sets: Mapping[frozenset[str], int] = field(default_factory=dict)


def row_source(data: Any, schema: TableSchema, single: str | None = None) -> RowSource:
    """The rows of what a caller gave. single: the column of values that stand alone; None where they are refused."""
    source = _at_once(data, schema, single)
    if source is not None:
        return source
    if isinstance(data, _TEXTS) or not isinstance(data, Iterable):
        raise _no_rows(data)
    try:
        iterator = iter(data)
    except TypeError:  # such as a numpy array of no dimension
        raise _no_rows(data) from None
    for first in iterator:
        return _listed(first, iterator, schema, single)
    return RowSource(None, iter(()))


def _at_once(data: Any, schema: TableSchema, single: str | None) -> RowSource | None:
    """The rows of what is no plain iterable; None for such a one.

    In this order, as a thing may be several: what pyarrow made, frames of pandas, dicts,
    datasets, then whoever has Arrow's C interface, and values of a single column last.
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
    found = _arrow(data)
    if found is None and _is_of(data, "polars", "DataFrame"):
        return _of_columns(((column.name, column) for column in data), schema)
    if isinstance(found, _Rows):
        batches = found.to_batches() if isinstance(found, pa.Table) else found
        batches = [found] if isinstance(found, pa.RecordBatch) else batches
        return RowSource(tuple(found.schema.names), (each for each in batches if each.num_rows))
    if found is None and not (
        isinstance(data, np.ndarray)
        or _is_of(data, "pandas", *_PANDAS_VALUES)
        or _is_of(data, "polars", "Series")
    ):
        return None
    if single is None:
        raise _no_rows(data)
    return _of_columns([(single, data)], schema)


def _listed(first: Any, rest: Iterator[Any], schema: TableSchema, single: str | None) -> RowSource:
    """The rows of a plain iterable, by what comes first.

    By the first thing alone: dicts are all read and held, for a name may come up in the last;
    Arrow data and frames are taken one at a time, and the writer checks that their columns
    agree.
    """
    if isinstance(first, Mapping):
        rows = [first, *rest]
        for row in rows:
            if not isinstance(row, Mapping):
                raise InvalidError(
                    "data",
                    found=f"a {type(row).__name__} among dicts",
                    expected="dicts, or none",
                    action="Give all rows alike.",
                )
        names = dict.fromkeys(chain.from_iterable(rows))
        found = _of_columns(((name, [row.get(name) for row in rows]) for name in names), schema)
        return replace(found, sets=_sets(rows, len(names)))
    if single is not None and not hasattr(first, "__arrow_c_stream__"):
        return _of_columns([(single, [first, *rest])], schema)
    source = _at_once(first, schema, None)
    if source is None:
        raise _no_rows(first)
    others = (row_source(part, schema).batches for part in rest)
    return RowSource(source.columns, chain(source.batches, chain.from_iterable(others)))


def _sets(rows: Sequence[Mapping[str, Any]], names: int) -> Mapping[frozenset[str], int]:
    """names: how many all rows have together."""
    if all(len(row) == names for row in rows):
        return {}
    found: dict[frozenset[str], int] = {}
    for place, row in enumerate(rows):
        found.setdefault(frozenset(row), place)
    return found


# Arrow and pandas

_PANDAS_VALUES: Final = ("Series", "Index", "api.extensions.ExtensionArray")


def _is_of(data: Any, module: str, *names: str) -> bool:
    """Whether it is of a class of a module that is not imported for the question: who has such an object did that."""
    for name in names:
        found: Any = sys.modules.get(module)
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is not None and isinstance(data, found):
            return True
    return False


def _arrow(data: Any) -> _Rows | _Values | None:
    """Arrow data as rows or, where it has no columns, as values; None for what is none."""
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
        pass  # values, or none of both
    try:
        return _arrow_values(data)
    except (pa.ArrowException, TypeError) as cause:
        raise _no_rows(data) from cause


def _is_known(data: Any) -> bool:
    """Whether Arrow has all types of a frame or Series of polars; it has none for Int128, UInt128 and Object."""
    try:
        pa.RecordBatchReader.from_stream(data.to_frame() if hasattr(data, "to_frame") else data)
    except pa.ArrowException:
        return False
    return True


def _arrow_values(data: Any) -> _Values | None:
    """Arrow data as one column, rows as structs; None for what is none. Raises what Arrow does."""
    if isinstance(data, _Values):
        return data
    if _is_of(data, "polars", "Series") and not _is_known(data):
        return None
    if _has_interface(data, "stream"):
        return pa.chunked_array(data)
    return pa.array(data) if _has_interface(data, "array") else None


def _has_interface(data: Any, which: str) -> bool:
    """Not a class, which has the method too; nor pandas, whose values are more than Arrow is given."""
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
    """columns: (name, values) each; names may come twice, which is for others to refuse."""
    names: list[str] = []
    arrays: list[_Values] = []
    of_python: dict[int, DataField] = {}
    for given, values in columns:
        name = text(given, "name of a column")
        field = schema.by_name.get(name)
        try:
            array = _arrow_values(values)
            if array is None:
                array = _python_values(values, name, field)
                if field is not None:
                    of_python[len(names)] = field
        except NO_ARRAY as cause:
            raise _no_column(values, name, cause) from cause
        if arrays and len(array) != len(arrays[0]):
            raise InvalidError(
                f"column {name!r}",
                found=f"a column of length {len(array)}",
                expected=f"{len(arrays[0])}, as column {names[0]!r} has",
                action="Give columns of one length.",
            )
        names.append(name)
        arrays.append(array)
    rows = pa.Table.from_arrays(arrays, names=names)
    batches = _in_types(rows, of_python) if of_python else iter(rows.to_batches())
    return RowSource(tuple(names), batches)


def _in_types(rows: pa.Table, of_python: Mapping[int, DataField]) -> Iterator[pa.RecordBatch]:
    """Batches with the values of Python in the columns' types."""
    for batch in rows.to_batches():
        for piece in pieces(batch, BATCH_BYTES):
            columns = piece.columns
            for at, column in of_python.items():
                columns[at] = python_cast(columns[at], column)
            yield pa.RecordBatch.from_arrays(columns, names=rows.column_names)


def _python_values(values: Any, name: str, field: DataField | None) -> _Values:
    """Values of Python, numpy or pandas, in the type that these have. Raises what Arrow does."""
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
        raise refused(
            values, f"column {name!r}", f"a list, {MOST_NESTED} within each other at most"
        )
    # Arrow takes an empty text for a map without entries.
    if field and field.type.root == "MAP" and any(isinstance(each, _TEXTS) for each in values):
        raise _no_column(values, name, "a text, which is no map")
    return python_array(values, field, is_pandas=is_pandas)


def _is_shallow(values: Sequence[Any]) -> bool:
    """Whether Arrow, which follows lists in lists until its stack is full, may look at the values."""
    level: list[Any] = [values]
    for _ in range(MOST_NESTED + 2):
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
        expected="Arrow data (a table, batches, a reader, anything of the C stream), a frame of pandas or polars, "
        "a dict of columns, or a list of dicts",
        action="Give the rows in one of these forms.",
    )


def _no_column(values: Any, name: str, cause: object = None) -> InvalidError:
    found = shown(values) if cause is None else f"values that make no column: {cause}"
    return InvalidError(
        f"column {name!r}",
        found=found,
        expected="values of one type, none too large for it, such as a list, an array of numpy or Arrow, or a Series",
        action="Correct the values.",
    )
