"""Makes a table that follows another one: an index, a history, samples.

    bucket, fsync   those of the table that is followed, 8 buckets for dynamic ones; the other options are the caller's

Several processes may make it at once: an exclusive create of its schema 0 lets one of them publish, and all then read
what that one has published. In: the followed table, and what the other is to have. Out: the table. Raises what `find`
raises for a table that is something else, and what creating a table raises.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import pyarrow as pa

from widetable.acceptance.acceptance import Use, accept
from widetable.commit.snapshots.schema_store import SchemaStore
from widetable.operations.handle.open_table import OpenTable
from widetable.schema import options as opt
from widetable.schema.new_schema import new_schema
from widetable.schema.table_schema import TableSchema
from widetable.storage.paths import TablePaths

_BUCKETS_OF_DYNAMIC: Final = 8


def buckets_of_derived(base: TableSchema) -> int:
    """Return the number of buckets for a table derived from this one: the same number, or 8 for dynamic buckets."""
    return base.num_buckets if base.num_buckets > 0 else _BUCKETS_OF_DYNAMIC


def made_table(
    base: OpenTable,
    path: str,
    fields: pa.Schema,
    key: Sequence[str],
    options: Mapping[str, str],
    find: Callable[[], OpenTable | None],
) -> OpenTable:
    """Return the table at a path; make it if there is none. find: returns it once it is there, None before.

    options: among them the bucket key.
    """
    schema = base.schema
    common = {
        opt.BUCKET.key: str(buckets_of_derived(schema)),
        opt.FSYNC.key: str(schema.typed_options.get(opt.FSYNC)).lower(),
    }
    made = new_schema(fields, primary_key=key, options={**common, **options})
    accept(made, Use.CREATE)
    while (table := find()) is None:
        SchemaStore(base._file_io, TablePaths(path)).publish(made)
    return table
