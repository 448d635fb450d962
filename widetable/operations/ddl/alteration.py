"""Publishes the next schema of a table; data files are not touched.

If two callers alter at once, both changes are made. Each starts with the schema that it reads, and publishes
the next id exclusively; if that id is taken, it starts over with the winner's schema, so a change
that no longer fits is refused:

    A  reads 4, adds x      publishes 5
    B  reads 4, drops y                    5 is taken: reads 5, drops y     publishes 6

Nothing is locked, and a process that has the table open sees the new schema with its next call. Raises InvalidError and
UnsupportedError for a change that the table cannot take, what reading schemas raises, and StorageError.
"""

from __future__ import annotations

from widetable.acceptance.acceptance import Use, accept
from widetable.commit.snapshots.schema_store import SchemaStore
from widetable.operations.ddl.bucket_repair import repaired_options
from widetable.operations.ddl.schema_change import SchemaChange, changed_schema
from widetable.schema import options as opt
from widetable.schema.table_schema import TableSchema
from widetable.storage.file_io import FileIO
from widetable.storage.paths import TablePaths


def alter(file_io: FileIO, paths: TablePaths, change: SchemaChange) -> TableSchema:
    """Publish the changed schema, all changes in one step, and return it: the newest schema at that moment."""
    store = SchemaStore(file_io, paths)
    while True:
        old = store.latest()
        new = changed_schema(old, change, repaired_options(file_io, paths, old))
        if store.publish(new):
            return new


def rescaled(store: SchemaStore, buckets: int, path: str) -> TableSchema:
    """Publish the schema with another number of buckets, if it differs. The caller must move the files.

    The option is immutable for `alter`; here it is allowed by name. Partitions keep the number that they were made
    with, which their manifest entries have (`total_buckets`), until their rows are moved. A table that was put under
    barriers meanwhile is refused. path: for messages.
    """
    while True:
        old, options = store.latest(), {opt.BUCKET.key: str(buckets)}
        accept(old, Use.REPLACE, path=path)
        if old.num_buckets == buckets:
            return old
        new = changed_schema(old, SchemaChange(set_options=options), options)
        if store.publish(new):
            return new
