"""The indexes of one data file for its reader, by the columns of the table.

Source: Paimon `FileIndexEvaluator`. In: the meta of the file, which has the indexes, or names their file. A column is
matched by its id, and has an index only if its type is still that of the file. Indexes of kinds that this version does
not know are left out. Raises DamagedError, and the errors of opening a file.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Protocol, TypeAlias

import pyarrow as pa
from pyroaring import BitMap

from widetable.format.data_file_meta import DataFileMeta
from widetable.format.decoding_errors import mapped_errors
from widetable.format.file_index.bitmap_index import BitmapIndex
from widetable.format.file_index.bloom_filter import BloomFilter
from widetable.format.file_index.index_container import (
    INDEX_SUFFIX,
    IndexPart,
    container_parts,
    damaged_index,
)
from widetable.schema.file_index_options import BITMAP, BLOOM_FILTER
from widetable.schema.table_schema import TableSchema, file_column
from widetable.schema.types import DataField, DataType
from widetable.storage.kept_inputs import Inputs

# Read at once: small containers as a whole.
_FIRST_BYTES: Final = 64 << 10


class ColumnIndex(Protocol):
    """One index of a column. Rows are numbered from 0 on; None: any row. Both answers may have more rows."""

    def rows_with(self, values: pa.Array) -> BitMap | None:
        """Return the rows that may have one of the values (`sought_values`)."""

    def null_rows(self) -> BitMap | None:
        """Return the rows that are null. These are exact."""

    def hidden_rows(self, values: pa.Array, first_row: int) -> int:
        """Return how many rows with these values (`indexed_values`), in the order of the file from a row on, a filter
        would not see: 0 for an index that belongs to the file.
        """


# By the name of the column in the current schema.
ColumnIndexes: TypeAlias = Mapping[str, list[ColumnIndex]]

_KINDS: Final[Mapping[str, Callable[[IndexPart, int, DataType], ColumnIndex]]] = {
    BLOOM_FILTER: BloomFilter,
    BITMAP: BitmapIndex,
}


def has_index(file: DataFileMeta) -> bool:
    """Return whether a data file has indexes of any kind."""
    return file.embedded_index is not None or _index_file(file) is not None


@contextlib.contextmanager
def column_indexes(
    inputs: Inputs,
    path: str,
    file: DataFileMeta,
    file_schema: TableSchema,
    columns: Iterable[DataField],
) -> Iterator[ColumnIndexes]:
    """Open the indexes of these columns. path: of the data file. The indexes are read until the block ends."""
    name = _index_file(file)
    if file.embedded_index is not None:
        subject = f"the index of {path} in its manifest"
        parts = container_parts(_ManifestBytes(file.embedded_index), subject)
        yield _of_columns(parts, file, file_schema, columns)
    elif name is None:
        yield {}
    else:
        subject = f"{path.rpartition('/')[0]}/{name}"
        with inputs.open_input(subject) as source, mapped_errors(subject):
            parts = container_parts(_IndexFile(source), subject)
            yield _of_columns(parts, file, file_schema, columns)


def _index_file(file: DataFileMeta) -> str | None:
    names = [name for name in file.extra_files if name.endswith(INDEX_SUFFIX)]
    if len(names) > 1:
        raise damaged_index(
            f"data file {file.file_name!r}", f"the index files {', '.join(names)}", "one of them"
        )
    return names[0] if names else None


def _of_columns(
    parts: Mapping[str, Mapping[str, IndexPart]],
    file: DataFileMeta,
    file_schema: TableSchema,
    columns: Iterable[DataField],
) -> ColumnIndexes:
    indexes: dict[str, list[ColumnIndex]] = {}
    for column in columns:
        stored = file_column(column, file_schema)
        if stored is None or stored.type.as_nullable() != column.type.as_nullable():
            continue
        readable = [
            _KINDS[kind](part, file.row_count, column.type)
            for kind, part in parts.get(stored.name, {}).items()
            if kind in _KINDS
        ]
        if readable:
            indexes[column.name] = readable
    return indexes


class _ManifestBytes:
    """The bytes of a container in a manifest."""

    def __init__(self, data: bytes) -> None:
        self.size = len(data)
        self._data = data

    def read(self, at: int, count: int) -> bytes:
        return self._data[at : at + count]


class _IndexFile:
    """The bytes of a container in a file: the first ones are read once."""

    def __init__(self, source: pa.NativeFile) -> None:
        self.size = source.size()
        self._source = source
        self._first = bytes(source.read(min(_FIRST_BYTES, self.size)))

    def read(self, at: int, count: int) -> bytes:
        if at + count <= len(self._first):
            return self._first[at : at + count]
        self._source.seek(at)
        return bytes(self._source.read(min(count, self.size - at)))
