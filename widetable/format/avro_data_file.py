"""An Avro data file as a stored file (stored_file.py): one group, read block by block.

Source: Paimon `AvroFileFormat`, `AvroSchemaConverter`: TINYINT, SMALLINT and INT are ints, TIME is time-millis,
timestamps have three or six digits, a MAP whose keys are no texts is an array of records of key and value. Rows are
decoded by the file's own schema; `column_cast` converts them to the column's type.
Avro has no checksums except those of the codecs snappy and zstandard, and does not record the number of rows: rows are
counted when they are read. Raises the errors of `stored_file`.

Memory: plain bytes of blocks up to an eighth of the budget, but at least one whole block, and
Arrow batches of about the budget. A writer's block has some 64,000 bytes, so
several blocks make one batch; a larger block is cut into several batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from widetable.errors import DamagedError
from widetable.format.avro_arrays import Place, avro_fields, read_rows
from widetable.format.avro_container import SYNC_BYTES, AvroCursor, AvroHeader, read_header
from widetable.format.footer_seal import Seal
from widetable.format.key_range import KeyRange
from widetable.format.row_budget import RowBudget, rows_within
from widetable.format.stored_file import FileToOpen
from widetable.kernels.arrow_buffers import frozen
from widetable.schema.types import DataField

_HEADER_BYTES: Final = 1 << 16
# A schema of 40,000 columns takes less.
_MAX_HEADER_BYTES: Final = 1 << 22
# Two numbers of 64 bits.
_BLOCK_HEAD_BYTES: Final = 20
# Bytes that a field takes in Arrow and while it is decoded, besides its text.
_FIELD_BYTES: Final = 32
# Rows may take so many times more memory than their plain bytes: a null takes one byte in a file.
_EXPANSION: Final = 8


class AvroDataFile:
    """A StoredFile in the Avro format; it reads the header when it is created.

    It has one group, and cannot start in the middle: the position of a row is known only after
    decoding all rows before it. `batches` may be called again, and starts from the beginning.
    """

    seal: Final = Seal.NONE

    def __init__(self, file: FileToOpen) -> None:
        self._file = file
        self._header = _header(file)
        self._fields, self._nodes = avro_fields(self._header.schema, file.path)
        self.schema: Final = pa.schema([(field.name, field.arrow) for field in self._fields])
        file.check_names(self.schema.names)
        self.group_rows: Final = (file.meta.row_count,)

    def expect(self, groups: Iterable[int], names: Sequence[str]) -> None:
        """Do nothing: the file is read whole."""

    def batches(
        self, group: int, names: Sequence[str], budget: RowBudget, *, use_threads: bool
    ) -> Iterator[pa.RecordBatch]:
        for records, data in self._blocks(max(budget.budget_bytes // _EXPANSION, 1)):
            place = Place(frozen(np.frombuffer(data, np.uint8)), self._nodes, self._file.path)
            # The estimated width of rows: all their bytes, as if they were texts, and a fixed part per
            # column.
            width = len(data) / records + _FIELD_BYTES * len(names)
            at = done = 0
            while done < records:
                count = min(records - done, budget.rows, rows_within(budget.budget_bytes, width))
                batch, at = read_rows(place, at, count, self._fields, names)
                done += count
                yield batch
            # The head of a block has the number of records: the head or the records are damaged.
            if at != len(data):
                place.fail(f"{len(data) - at} bytes behind {records} records")

    def key_ranges(self, keys: Sequence[DataField]) -> list[KeyRange]:
        return [self._file.key_range(keys)]

    def close(self) -> None:
        """Do nothing: the source is its owner's."""

    def _blocks(self, enough_bytes: int) -> Iterator[tuple[int, bytes]]:
        """Yield (records, their bytes) of one block or of several small ones.

        Blocks are joined so that each piece but the last has enough_bytes; empty blocks are skipped.
        """
        header, file = self._header, self._file
        records, blocks, size = 0, list[bytes](), 0
        at = header.end
        while at < file.meta.file_size:
            count, block, at = self._block(at)
            if not count and not block:
                continue
            records, size = records + count, size + len(block)
            blocks.append(block)
            if size >= enough_bytes:
                yield records, b"".join(blocks)
                records, blocks, size = 0, [], 0
        if records:
            yield records, b"".join(blocks)

    def _block(self, at: int) -> tuple[int, bytes, int]:
        """Return (records, their bytes, the position of the next block)."""
        header, source = self._header, self._file.source
        source.seek(at)
        cursor = AvroCursor(source.read(_BLOCK_HEAD_BYTES), self._file.path)
        count, size = cursor.long(), cursor.long()
        start = at + cursor.at
        left = self._file.meta.file_size - start - SYNC_BYTES
        if not 0 <= size <= left:
            cursor.fail(f"a block of {size} bytes where {left} are left, at offset {at}")
        source.seek(start)
        block = header.decompress(source.read(size), self._file.path)
        # A row has a sequence number and a kind, so it takes at least a byte.
        if not 0 <= count <= len(block) or (block and not count):
            cursor.fail(f"a block of {len(block)} bytes that claims {count} records")
        if source.read(SYNC_BYTES) != header.sync:
            cursor.fail(f"another sync mark than the header's behind the block at offset {at}")
        return count, block, start + size + SYNC_BYTES


def _header(file: FileToOpen) -> AvroHeader:
    """Read the header, without reading the whole file where it is damaged.

    The length of a header is unknown: reading begins with 64 KiB, and each attempt reads eight times
    more. Only bytes that end too early cause another attempt; a wrong byte is reported at once.
    Nothing behind the first 4 MiB is read.
    """
    size = _HEADER_BYTES
    while True:
        file.source.seek(0)
        cursor = AvroCursor(file.source.read(size), file.path)
        try:
            return read_header(cursor)
        except DamagedError:
            is_whole = size >= min(file.meta.file_size, _MAX_HEADER_BYTES)
            if is_whole or not cursor.is_over:
                raise
        size *= 8
