"""Gives a table its next schema; data files are not touched.

Two callers at once: both changes are made. Each goes by the schema that it found, and publishes
the next id exclusively; who finds it taken starts over with the winner's schema, so a change
that does not fit to that any more is refused:

    A  reads 4, adds x      publishes 5
    B  reads 4, drops y                    5 is taken: reads 5, drops y     publishes 6

Nothing is locked, and who has the table open sees the new schema at its next look. Raises
InvalidError, UnsupportedError for a change that the table cannot take, what reading schemas
raises, StorageError.
"""

from __future__ import annotations

from typing import Final

from widetable.commit.barriers.barrier_table import check_rows_stay
from widetable.commit.snapshots.schema_store import SchemaStore
from widetable.operations.ddl.bucket_mending import mended_options
from widetable.operations.ddl.schema_change import SchemaChange, changed_schema
from widetable.operations.handle.supported import check_changelog_producer
from widetable.schema import options as opt
from widetable.schema.table_schema import TableSchema
from widetable.storage.file_io import FileIO
from widetable.storage.paths import TablePaths

# Options that decide together whether a table can have its changelog. Others may be altered where it cannot.
_OF_CHANGELOGS: Final = frozenset(
    (opt.CHANGELOG_PRODUCER.key, opt.SEQUENCE_FIELD.key, opt.ROW_DEDUPLICATE_IGNORE_FIELDS.key)
)


def alter(file_io: FileIO, paths: TablePaths, change: SchemaChange) -> TableSchema:
    """Publish the changed schema; all changes are one step.

    What is returned is what was published, the newest schema at that moment. Whether the table
    can have its changelog is asked only where this change decides it: a table that another
    client made, and that could not have one, may still be altered in what has nothing to do with
    it.
    """
    store = SchemaStore(file_io, paths)
    while True:
        old = store.latest()
        new = changed_schema(old, change, mended_options(file_io, paths, old))
        if change.drop_columns or _OF_CHANGELOGS.intersection(change.set_options):
            check_changelog_producer(new)
        if store.publish(new):
            return new


def rescaled(store: SchemaStore, buckets: int, path: str) -> TableSchema:
    """Publish the schema with another number of buckets, if it is another one. Whoever does so sees to the files.

    The option is immutable for `alter`; here it is allowed by name. Partitions keep the number
    that they were made with, which their manifest entries say (`total_buckets`), until their
    rows are moved. Not of a table that was put under barriers meanwhile. path: for messages.
    """
    while True:
        old, options = store.latest(), {opt.BUCKET.key: str(buckets)}
        check_rows_stay(old, path)
        if old.num_buckets == buckets:
            return old
        new = changed_schema(old, SchemaChange(set_options=options), options)
        if store.publish(new):
            return new
