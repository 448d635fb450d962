"""The files of a cache that is being built: rows as Arrow IPC, and the key index where keys need one.

In: row batches of one data file, in file order, keys ascending, each once. Out: rows.arrow, rows.layout, rows.pages
(row_map.py), keys.fences (key_fences.py) and keys/ (key_index.py) in a directory. Raises CacheFault for rows that
cannot be cached, OSError and pyarrow.ArrowException from the disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from widetable.format.row_batch import SYSTEM_FIELDS, row_batch_schema
from widetable.kernels.arrow_buffers import fixed_values
from widetable.schema.table_schema import TableSchema
from widetable_lookup.cache_fault import CacheFault
from widetable_lookup.key_columns import fences_between, is_number_key
from widetable_lookup.key_fences import FENCES
from widetable_lookup.key_index import MAX_ROWS, KeyIndexWriter
from widetable_lookup.memcomparable import encode_keys
from widetable_lookup.row_map import ROWS, index_rows

# Bytes of an entry besides its key: position, sequence number and lengths, share of filter and block index.
_INDEX_BYTES_PER_KEY: Final = 16
_SYSTEM_NAMES: Final = frozenset(field.name for field in SYSTEM_FIELDS)


def stored_schema(schema: TableSchema, names: Sequence[str]) -> pa.Schema:
    """Return the Arrow schema of a cache's rows. names: the columns that the file has, system columns or not."""
    return row_batch_schema(schema, [name for name in names if name not in _SYSTEM_NAMES])


class RowFiles:
    """Writes the files of a cache. Close or abort it."""

    def __init__(self, directory: str, schema: TableSchema, names: Sequence[str]) -> None:
        self.schema = stored_schema(schema, names)
        self.rows = 0
        self._directory = directory
        self._key = schema.trimmed_primary_key
        key_types = [self.schema.field(name).type for name in self._key]
        self._last_number: int | None = None
        self._index: KeyIndexWriter | None = None
        self._sink = pa.OSFile(f"{directory}/{ROWS}", "wb")
        try:
            self._ipc = pa.ipc.new_file(self._sink, self.schema)
            if not is_number_key(key_types):
                self._index = KeyIndexWriter(directory)
        except BaseException:
            self.abort()
            raise

    def write(self, row_batch: pa.RecordBatch) -> None:
        """Write the next rows, at least one. All batches have the same columns, in any order."""
        if set(row_batch.schema.names) != set(self.schema.names):
            raise CacheFault("its batches have different columns")
        batch = row_batch.select(self.schema.names)
        if batch.schema.types != self.schema.types:
            batch = batch.cast(self.schema)
        self.rows += batch.num_rows
        if self.rows > MAX_ROWS:
            raise CacheFault(f"more than {MAX_ROWS} rows")
        self._ipc.write_batch(batch)
        keys = [batch.column(name) for name in self._key]
        if self._index is None:
            self._check_numbers(keys[0])
        else:
            self._index.add(encode_keys(keys, self._key).to_list())

    def needed_bytes(self, row_batch: pa.RecordBatch) -> int:
        """Estimate the space that these rows will take on the disk."""
        if self._index is None:
            return int(row_batch.nbytes)
        keys = row_batch.select(self._key)
        return int(row_batch.nbytes + keys.nbytes + _INDEX_BYTES_PER_KEY * keys.num_rows)

    def size_bytes(self) -> int:
        """Estimate the space that the files take on the disk."""
        index_bytes = 0 if self._index is None else self._index.size_bytes
        return int(self._sink.tell()) + index_bytes

    def close(self) -> None:
        """Complete all files; at least one row was written.

        Rows come first, because the fences are made from them. `seal` writes the manifest, so the cache is not complete
        yet.
        """
        self._ipc.close()
        self._sink.close()
        rows = index_rows(self._directory, self.schema)
        if self._index is not None:
            with open(f"{self._directory}/{FENCES}", "xb") as file:
                file.write(fences_between(rows, self._key).to_bytes())
            self._index.close()

    def abort(self) -> None:
        """Close the files, which stay as they are."""
        self._sink.close()
        self._index = None

    def _check_numbers(self, column: pa.Array) -> None:
        """Check that keys ascend. RocksDB refuses keys that do not; these keys have no index."""
        numbers = fixed_values(column, f"i{column.type.bit_width // 8}")
        first, last = int(numbers[0]), int(numbers[-1])
        is_first = self._last_number is None or first > self._last_number
        if column.null_count or not is_first or (numbers[1:] <= numbers[:-1]).any():
            raise CacheFault("its keys do not ascend, or one of them is null")
        self._last_number = last
