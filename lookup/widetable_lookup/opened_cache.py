"""An open cache: its rows are mapped, and its key index is open.

In: the directory of a cache, the schema of the table, the metadata of the data file. Out: rows by key. Opening checks
the manifest, the sizes of all files and the checksums of the small ones; pages and blocks are checked when they are
read.
An answer is right, or there is none: the key columns of a row itself prove that it has a key, not the index; the rows
between which a key would lie, or blocks that RocksDB checked, prove that it is absent.

Raises CacheFault for damage, OSError for missing files, InvalidError for invalid keys.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from rocksdict import Cache

from widetable import WidetableError
from widetable.format.data_file_meta import DataFileMeta
from widetable.kernels.array_types import Positions
from widetable.schema.table_schema import TableSchema
from widetable_lookup.cache_fault import CacheFault
from widetable_lookup.cache_manifest import CacheManifest, read_manifest
from widetable_lookup.key_columns import KeyColumns, is_number_key
from widetable_lookup.key_fences import FENCES, fences_from_bytes
from widetable_lookup.key_index import KeyIndex
from widetable_lookup.key_search import FENCE_ROWS
from widetable_lookup.lookup_way import Way, choose
from widetable_lookup.memcomparable import encode_keys
from widetable_lookup.row_files import stored_schema
from widetable_lookup.row_map import LAYOUT, PAGES, RowMap, buffer_count, layout_from_bytes

# The weight of one lookup in the remembered share of hits.
_HIT_SHARE_WEIGHT: Final = 0.3


class OpenedCache:
    """An open cache. Threads may share it; call `close` when none uses it any more. place: its directory when it was
    opened.
    """

    def __init__(
        self, place: str, schema: TableSchema, file: DataFileMeta, block_cache: Cache
    ) -> None:
        self.place = place
        self.inode = os.stat(place).st_ino
        manifest = read_manifest(place)
        manifest.check_files(place)
        self.schema = _schema_of(manifest, place, schema, file)
        types = self.schema.types
        layout = layout_from_bytes(
            manifest.content(place, LAYOUT), sum(buffer_count(kind) for kind in types)
        )
        self.rows = RowMap(place, self.schema, manifest.content(place, PAGES), layout)
        if self.rows.rows != file.row_count:
            raise CacheFault(f"{place}: {self.rows.rows} rows, the file has {file.row_count}")
        self._key = schema.trimmed_primary_key
        key_types = [self.schema.field(name).type for name in self._key]
        self._hit_share = 0.5
        self._index: KeyIndex | None = None
        fences = None
        has_index = not is_number_key(key_types)
        if has_index:
            content = manifest.content(place, FENCES)
            fences = fences_from_bytes(content, self.rows.rows, FENCE_ROWS)
        self.keys = KeyColumns(self.rows, self._key, key_types, fences)
        if has_index:  # last, so that no failure leaves it open
            self._index = KeyIndex(place, block_cache)

    def find(self, keys: Sequence[pa.Array]) -> tuple[Positions, Positions]:
        """Return (hits int64[h], ascending numbers of keys; positions int64[h], their rows). keys: sorted, each
        once.
        """
        count = len(keys[0])
        if not count:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        index = self._index
        way = choose(count, self.rows.rows, self._hit_share, has_index=index is not None)
        if index is None or way is Way.SEARCH:
            hits, positions = self.keys.search(keys)
        else:
            hits, positions = self._from_index(index, keys)
        self._hit_share += _HIT_SHARE_WEIGHT * (len(hits) / count - self._hit_share)
        return hits, positions

    def close(self) -> None:
        """Close the index; the map is released with its last array."""
        index, self._index = self._index, None
        if index is not None:
            index.close()

    def _from_index(self, index: KeyIndex, keys: Sequence[pa.Array]) -> tuple[Positions, Positions]:
        encoded = encode_keys(keys, self._key)
        rows = index.positions(encoded.to_list())
        hits = np.flatnonzero(rows >= 0)
        positions = rows[hits]
        if not self.keys.confirm(encoded, hits, positions):
            raise CacheFault(f"{self.place}: the key index names rows of other keys")
        return hits, positions


def _schema_of(
    manifest: CacheManifest, place: str, schema: TableSchema, file: DataFileMeta
) -> pa.Schema:
    """Return the schema of the rows, if this is the expected cache."""
    source = manifest.source
    if (source.rows, source.data_file_bytes) != (file.row_count, file.file_size):
        raise CacheFault(f"{place}: a copy of {source.data_file}, which is another file")
    try:
        stored = stored_schema(schema, source.columns)
    except WidetableError as cause:
        raise CacheFault(f"{place}: {cause}") from cause
    if (tuple(stored.names), tuple(map(str, stored.types))) != (source.columns, source.types):
        raise CacheFault(f"{place}: columns that are not those of schema {schema.id}")
    return stored
