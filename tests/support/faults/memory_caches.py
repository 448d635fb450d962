"""Lookup caches in memory, which fail on demand: what the engine does with caches, whatever they are made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from widetable.format.data_file_meta import DataFileMeta
from widetable.format.row_budget import pieces
from widetable.kernels.key_match import match_keys
from widetable.lsm.file_rows import CachedFile, CacheWriter, Found
from widetable.schema.table_schema import TableSchema
from widetable.write.table_state import TableState


class MemoryCaches:
    """built, opened: names of data files, in order. failing: what raises: open, find, batches, close, writer, write,
    finish.

    has_room: whether there are writers at all.
    """

    def __init__(self, failing: str | None = None, *, has_room: bool = True) -> None:
        self.failing = failing
        self.has_room = has_room
        self.built: list[str] = []
        self.opened: list[str] = []
        self.aborted = 0
        self.closed = 0
        self.files: dict[str, pa.RecordBatch] = {}

    def check(self, step: str) -> None:
        if self.failing == step:
            raise OSError(28, f"no space left to {step}")

    def open(
        self, table: TableState, path: str, file: DataFileMeta, columns: Sequence[str]
    ) -> CachedFile | None:
        self.check("open")
        rows = self.files.get(path)
        if rows is None:
            return None
        self.opened.append(file.file_name)
        kept = {*table.schema.trimmed_primary_key, *columns}
        return _Rows(
            self,
            table.schema,
            rows.select([n for n in rows.schema.names if n[0] == "_" or n in kept]),
        )

    def forget(self, table: TableState, paths: Iterable[str]) -> None:
        for path in paths:
            self.files.pop(path, None)

    def writer(self, table: TableState, path: str) -> CacheWriter | None:
        self.check("writer")
        return _Writer(self, path) if self.has_room else None


class _Rows:
    def __init__(self, caches: MemoryCaches, schema: TableSchema, rows: pa.RecordBatch) -> None:
        self._caches = caches
        self._rows = rows
        self._key = schema.trimmed_primary_key

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(name for name in self._rows.schema.names if name[0] != "_")

    @property
    def answers_in_any_order(self) -> bool:
        return True

    def find(self, keys: pa.RecordBatch) -> Found:
        self._caches.check("find")
        held = [self._rows.column(name) for name in self._key[: keys.num_columns]]
        hits, positions = match_keys(keys.columns, held)
        return Found(hits, self._rows.take(pa.array(positions)))

    def batches(self, batch_bytes: int) -> Iterator[pa.RecordBatch]:
        """Fails, when it is to, after the first of several batches."""
        for number, piece in enumerate(pieces(self._rows, batch_bytes)):
            if number:
                self._caches.check("batches")
            yield piece

    def close(self) -> None:
        self._caches.check("close")
        self._caches.closed += 1


class _Writer:
    def __init__(self, caches: MemoryCaches, path: str) -> None:
        self._caches = caches
        self._path = path
        self._rows: list[pa.RecordBatch] = []

    def write(self, row_batch: pa.RecordBatch) -> None:
        self._caches.check("write")
        self._rows.append(row_batch)

    def close(self, file: DataFileMeta) -> None:
        self._caches.check("finish")
        self._caches.built.append(file.file_name)
        self._caches.files[self._path] = pa.concat_batches(self._rows)

    def abort(self) -> None:
        self._caches.aborted += 1
