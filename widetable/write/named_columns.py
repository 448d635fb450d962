"""Rows of a batch that list their columns in an extra column; columns that a row does not list are not written.

    columns id, city, street, at and `written`, a list of names; sequence group `at` of city and street
    1, "Bergen", null, 2, ["city", "at"]             refused: alone, its null would overwrite street of 1
    1, null, null, null, ["note"]                    city, street and at stay as they are
    2, "Bari", "?", 3, ["note"]                      they stay as well: values that are not listed are ignored
    3, null, null, null, []                          only the key is written
    4, "Rome", null, 5, null                         all columns are written, street with its null

The rows keep their order, and `column_sets` cuts them by their lists. Pure. Raises InvalidError for a column that is
not a list of texts, a null name, a name that is not among the written columns, and sets of columns that may not be
written alone, naming the key of the first such row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from widetable.errors import InvalidError
from widetable.format.printed_value import printed
from widetable.messages.near_word import did_you_mean
from widetable.schema.table_schema import TableSchema
from widetable.write.column_sets import RowSets
from widetable.write.row_columns import RowColumns
from widetable.write.safe_cast import is_text

_Flags: TypeAlias = npt.NDArray[np.bool_]
_SHOWN: Final = 20


def check_names_column(schema: TableSchema, column: str, kind: pa.DataType | None) -> None:
    """Check before there are rows whether a column may name the columns that each row carries.

    Parameters
    ----------
    schema : TableSchema
        The schema of the table.
    column : str
        The name of the column.
    kind : pyarrow.DataType or None
        Its type. None: the rows have no such column.

    Raises
    ------
    InvalidError
        The column cannot name columns.
    """
    if column in schema.by_name:
        problem = "a column of the table"
    elif kind is None:
        problem = "no such column"
    elif pa.types.is_null(kind) or (_is_list(kind) and _is_name(kind.value_type)):
        return
    else:
        problem = f"a column of {kind}"
    raise InvalidError(
        f"column {column!r}, which names the columns of each row",
        found=problem,
        expected="a column of the rows, not of the table, with lists of texts",
        action="Add such a column to the rows, or pass the name of the one that they have.",
    )


@dataclass
class NamedColumns:
    """The listed columns of one writer's rows. columns: those of the writer, row kinds included. column: the column
    with the names.

    The key, and the row kind if the rows have one, are always written.
    """

    schema: TableSchema
    columns: Sequence[str]
    column: str

    def __post_init__(self) -> None:
        self._check = RowColumns(self.schema).check
        self._places = {name: place for place, name in enumerate(self.columns)}
        keys = self.schema.primary_keys
        self._always = [
            name for name in self.columns if name in keys or name not in self.schema.by_name
        ]

    def rows(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, RowSets | None]:
        """Return the written columns, with null where the row does not list them, and the sets of columns; None if all
        rows carry all columns.
        """
        if self.column not in batch.schema.names:
            check_names_column(self.schema, self.column, None)
        lists = batch.column(self.column)
        check_names_column(self.schema, self.column, lists.type)
        written = batch.drop_columns([self.column])
        if set(written.schema.names) != self._places.keys():
            return written, None  # the writer refuses the batch
        written = written.select(list(self.columns))
        if lists.null_count == batch.num_rows:
            return written, None
        is_named = self._named(batch, lists)
        arrays = [_only(column, is_named[at]) for at, column in enumerate(written.columns)]
        written = pa.RecordBatch.from_arrays(arrays, names=list(self.columns))
        return written, self._sets(batch, is_named)

    def _named(self, batch: pa.RecordBatch, lists: pa.Array) -> _Flags:
        """Return whether each row lists each column, bool[column, row]. A null list lists all columns."""
        flat, rows = lists.flatten(), _numbers(pc.list_parent_indices(lists))
        if flat.null_count:
            row = int(rows[np.argmax(_flags(flat.is_null()))])
            raise self._refused(batch, row, "null among the names", "names of columns")
        coded = flat.cast(pa.string()).dictionary_encode()
        names = coded.dictionary.to_pylist()
        places = np.array([self._places.get(name, -1) for name in names], np.int64)
        codes = _numbers(coded.indices)
        unknown = [at for at, place in enumerate(places) if place < 0]
        if unknown:
            row = int(rows[np.argmax(codes == unknown[0])])
            raise self._unknown(batch, row, names[unknown[0]])
        flags = np.zeros((len(self.columns), batch.num_rows), np.bool_)
        flags[places[codes], rows] = True
        flags[[self._places[name] for name in self._always]] = True
        if lists.null_count:
            flags[:, _flags(lists.is_null())] = True
        return flags

    def _sets(self, batch: pa.RecordBatch, is_named: _Flags) -> RowSets:
        """Return the sets of columns; each is checked once, by its first row."""
        packed = np.ascontiguousarray(np.packbits(is_named, axis=0).T)
        bits = packed.view(np.dtype((np.void, packed.shape[1]))).ravel()
        _, first_rows, of_row = np.unique(bits, return_index=True, return_inverse=True)
        sets = [[n for n, at in self._places.items() if is_named[at, row]] for row in first_rows]
        for place in np.argsort(first_rows).tolist():
            self._check(sets[place], self._row(batch, int(first_rows[place])))
        return RowSets(tuple(map(frozenset, sets)), of_row.astype(np.int64))

    def _row(self, batch: pa.RecordBatch, row: int) -> str:
        one = batch.slice(row, 1)  # whose values Python may not have
        keys = {name: printed(one.column(name))[0] for name in self.schema.primary_keys}
        return "the row with " + ", ".join(f"{name} = {value!r}" for name, value in keys.items())

    def _unknown(self, batch: pa.RecordBatch, row: int, name: str) -> InvalidError:
        shown = ", ".join(self.columns[:_SHOWN]) + (", ..." if len(self.columns) > _SHOWN else "")
        expected = f"names of columns that are written: {shown}"
        meant = did_you_mean(name, self.columns)
        return self._refused(batch, row, repr(name), expected, meant)

    def _refused(
        self, batch: pa.RecordBatch, row: int, problem: str, expected: str, meant: str = ""
    ) -> InvalidError:
        return InvalidError(
            f"column {self.column!r} of {self._row(batch, row)}",
            found=problem,
            expected=expected,
            action=f"List the columns of the row.{meant}",
        )


def _is_name(kind: pa.DataType) -> bool:
    """Whether values may be names. Lists of Python have this type even if all of them are empty."""
    return is_text(kind) or bool(pa.types.is_null(kind))


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _only(column: pa.Array, is_named: _Flags) -> pa.Array:
    """Return the values of the rows that list the column, of any type; null in the others."""
    if is_named.all():
        return column
    return column.take(pa.array(np.arange(len(column)), mask=~is_named))


def _flags(values: pa.Array) -> _Flags:
    return np.asarray(values.to_numpy(zero_copy_only=False), np.bool_)


def _numbers(values: pa.Array) -> npt.NDArray[Any]:
    return np.asarray(values.to_numpy(zero_copy_only=False), np.int64)
