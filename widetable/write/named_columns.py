"""Rows of a batch that say in a column of their own which columns they carry; what they do not name is not written.

    columns id, city, street, at and `written`, a list of names; sequence group `at` of city and street
    1, "Bergen", null, 2, ["city", "at"]             refused: alone, its null would overwrite street of 1
    1, null, null, null, ["note"]                    city, street and at stay as they are
    2, "Bari", "?", 3, ["note"]                      the same: values that are not named do not count
    3, null, null, null, []                          the key alone

A row that may be written with the columns that it names is the same with nulls in the others (`row_columns`), so the
batch stays one: its rows keep their order, and no set of columns needs a file of its own. Pure. Raises InvalidError for
a column that is no list of texts, a null list or name, a name that is not among the columns that are written, and sets
of columns that may not be written alone, naming the key of the first such row.
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
from widetable.messages.near_word import did_you_mean
from widetable.schema.table_schema import TableSchema
from widetable.write.row_columns import RowColumns
from widetable.write.safe_cast import is_text

_Flags: TypeAlias = npt.NDArray[np.bool_]
_SHOWN: Final = 20


def check_names_column(schema: TableSchema, column: str, kind: pa.DataType | None) -> None:
    """Whether a column of rows may name what each of them carries, before there are any. kind: None where the rows have
    no such column.
    """
    if column in schema.by_name:
        found = "a column of the table"
    elif kind is None:
        found = "no such column"
    elif _is_list(kind) and is_text(kind.value_type):
        return
    else:
        found = f"a column of {kind}"
    raise InvalidError(
        f"column {column!r}, which names the columns of each row",
        found=found,
        expected="a column of the rows, beside those of the table, that holds lists of texts",
        action="Add such a column to the rows, or name the one that they have.",
    )


@dataclass
class NamedColumns:
    """Of one writer. columns: that it writes, row kinds among them. column: of the names.

    The key, and row kinds where the rows have them, count as named.
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

    def written(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The columns that are written, null where their row does not name them."""
        if not batch.num_rows:
            return batch.select(list(self.columns))
        is_named = self._named(batch)
        self._check_sets(batch, is_named)
        arrays = [_only(batch.column(name), is_named[at]) for name, at in self._places.items()]
        return pa.RecordBatch.from_arrays(arrays, names=list(self.columns))

    def _named(self, batch: pa.RecordBatch) -> _Flags:
        """bool[column, row]: whether the row has the column."""
        lists = batch.column(self.column)
        if lists.null_count:
            row = int(np.argmax(_flags(lists.is_null())))
            raise self._refused(batch, row, "null", "a list of names, which may be empty")
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
        found = np.zeros((len(self.columns), batch.num_rows), np.bool_)
        found[places[codes], rows] = True
        found[[self._places[name] for name in self._always]] = True
        return found

    def _check_sets(self, batch: pa.RecordBatch, is_named: _Flags) -> None:
        """Each set of columns once, by its first row."""
        packed = np.ascontiguousarray(np.packbits(is_named, axis=0).T)
        sets = packed.view(np.dtype((np.void, packed.shape[1]))).ravel()
        for row in sorted(np.unique(sets, return_index=True)[1].tolist()):
            names = [name for name, at in self._places.items() if is_named[at, row]]
            self._check(names, self._row(batch, row))

    def _row(self, batch: pa.RecordBatch, row: int) -> str:
        keys = {name: batch.column(name)[row].as_py() for name in self.schema.primary_keys}
        return "the row with " + ", ".join(f"{name} = {value!r}" for name, value in keys.items())

    def _unknown(self, batch: pa.RecordBatch, row: int, name: str) -> InvalidError:
        shown = ", ".join(self.columns[:_SHOWN]) + (", ..." if len(self.columns) > _SHOWN else "")
        expected = f"names of columns that are written: {shown}"
        meant = did_you_mean(name, self.columns)
        return self._refused(batch, row, repr(name), expected, meant)

    def _refused(
        self, batch: pa.RecordBatch, row: int, found: str, expected: str, meant: str = ""
    ) -> InvalidError:
        return InvalidError(
            f"column {self.column!r} of {self._row(batch, row)}",
            found=found,
            expected=expected,
            action=f"Name the columns that the row carries.{meant}",
        )


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _only(column: pa.Array, is_named: _Flags) -> pa.Array:
    """The values of the rows that are named, in any type; null in the others."""
    if is_named.all():
        return column
    return column.take(pa.array(np.arange(len(column)), mask=~is_named))


def _flags(values: pa.Array) -> _Flags:
    return np.asarray(values.to_numpy(zero_copy_only=False), np.bool_)


def _numbers(values: pa.Array) -> npt.NDArray[Any]:
    return np.asarray(values.to_numpy(zero_copy_only=False), np.int64)
