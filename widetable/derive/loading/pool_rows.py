"""The rows of a pool in memory, from which batches are cut.

In: record batches, and the order of their rows (None: as they are). Out: rows start : stop of that order, as arrays of
numpy by column, or as a record batch. Columns of numpy have one length; those of another column form raise what
`column_form` raises.

A shuffle is a gather, and a gather of one column misses the processor's cache for every value. So columns of one width
stand beside one another, row by row, and a row of twenty columns is fetched at once. A batch turns its rows back into
columns, within the cache:

    columns a b c, of 8 bytes      block   a0 b0 c0 | a1 b1 c1 | a2 b2 c2 | ..      rows 2, 0: a2 b2 c2 | a0 b0 c0
                                                                                    columns:   a2 a0, b2 b0, c2 c0
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.derive.loading.column_form import ColumnForm, lengths_differ
from widetable.kernels.arrow_buffers import one_array

Order: TypeAlias = npt.NDArray[np.intp] | None
NumpyRows: TypeAlias = dict[str, npt.NDArray[Any]]
# The name of the column that says which rows of another one are valid.
VALID: Final = "__valid"
# So many rows are brought into a block at once: with tens of columns they fit the processor's cache.
_BLOCK_ROWS: Final = 4096


class PoolRows(Protocol):
    """The rows of a pool."""

    def rows(self, start: int, stop: int) -> Any:
        """Return rows start : stop of the pool's order."""
        ...


class ArrowPool:
    """A pool whose batches are Arrow's."""

    def __init__(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema, order: Order) -> None:
        self._table = pa.Table.from_batches(batches, schema)
        if order is not None:
            # Arrow would look for the chunk of each row.
            self._table = self._table.combine_chunks()
        self._order = order

    def rows(self, start: int, stop: int) -> pa.RecordBatch:
        """Return rows start : stop as one record batch."""
        if self._order is None:
            chosen = self._table.slice(start, stop - start)
        else:
            chosen = self._table.take(pa.array(self._order[start:stop]))
        columns = [one_array(column) for column in chosen.columns]
        return pa.RecordBatch.from_arrays(columns, schema=chosen.schema)


class NumpyPool:
    """A pool whose batches are arrays of numpy by column."""

    def __init__(
        self, batches: Iterable[pa.RecordBatch], forms: Sequence[ColumnForm], order: Order
    ) -> None:
        self._order = order
        chunks = [_formed(batch, forms) for batch in batches]
        self._types = {name: array.dtype for name, array in chunks[0].items()} if chunks else {}
        self._columns: NumpyRows = {}
        self._blocks: list[tuple[list[str], npt.NDArray[Any]]] = []
        if order is None:
            self._columns = {name: _joined(name, chunks) for name in self._types}
            return
        for names in _of_one_width(chunks[0] if chunks else {}):
            if len(names) == 1:
                self._columns[names[0]] = _joined(names[0], chunks)
            else:
                self._blocks.append((names, _block(names, chunks)))

    def rows(self, start: int, stop: int) -> NumpyRows:
        """Return rows start : stop: an array for each column, contiguous."""
        if self._order is None:
            return {name: column[start:stop] for name, column in self._columns.items()}
        chosen = self._order[start:stop]
        taken = {name: column.take(chosen, axis=0) for name, column in self._columns.items()}
        for names, block in self._blocks:
            columns = np.ascontiguousarray(block.take(chosen, axis=0).T)
            taken.update(zip(names, columns, strict=True))
        return {name: taken[name].view(kind) for name, kind in self._types.items()}


def joined_rows(parts: Sequence[Any]) -> Any:
    """Return parts of one batch as one, all of the same kind of pool."""
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], pa.RecordBatch):
        table = pa.Table.from_batches(parts).combine_chunks()
        return pa.RecordBatch.from_arrays(
            [one_array(column) for column in table.columns], schema=table.schema
        )
    return {name: _joined(name, parts) for name in parts[0]}


def _formed(batch: pa.RecordBatch, forms: Sequence[ColumnForm]) -> NumpyRows:
    """Return a batch as arrays by column, each followed by its valid rows where they are asked for."""
    columns: NumpyRows = {}
    for number, form in enumerate(forms):
        values, valid = form.formed(batch.column(number))
        columns[form.field.name] = values
        if valid is not None:
            columns[form.field.name + VALID] = valid
    return columns


def _joined(name: str, chunks: Sequence[Mapping[str, npt.NDArray[Any]]]) -> npt.NDArray[Any]:
    arrays = [chunk[name] for chunk in chunks]
    if len(arrays) == 1:
        return arrays[0]
    lengths = sorted({array.shape[1] for array in arrays if array.ndim == 2})
    if len(lengths) > 1:
        raise lengths_differ(name, lengths)
    return np.concatenate(arrays)


def _of_one_width(columns: Mapping[str, npt.NDArray[Any]]) -> list[list[str]]:
    """Return names of columns that can stand in one block together; objects and matrices stand alone."""
    groups: dict[Any, list[str]] = {}
    for name, array in columns.items():
        alone = array.dtype == object or array.ndim > 1
        groups.setdefault(name if alone else array.dtype.itemsize, []).append(name)
    return list(groups.values())


def _block(
    names: Sequence[str], chunks: Sequence[Mapping[str, npt.NDArray[Any]]]
) -> npt.NDArray[Any]:
    """Return columns of one width as a block, as unsigned numbers of that width."""
    kind = np.dtype(f"u{chunks[0][names[0]].dtype.itemsize}")
    rows = sum(len(chunk[names[0]]) for chunk in chunks)
    block = np.empty((rows, len(names)), kind)
    at = 0
    for chunk in chunks:
        columns = [np.ascontiguousarray(chunk[name]).view(kind) for name in names]
        count = len(columns[0])
        for start in range(0, count, _BLOCK_ROWS):
            stop = min(start + _BLOCK_ROWS, count)
            np.stack(
                [column[start:stop] for column in columns],
                axis=1,
                out=block[at + start : at + stop],
            )
        at += count
    return block
