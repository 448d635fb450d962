"""`Table.inspect`: a call returns the state of the table; its methods return parts of the metadata as Arrow tables.

Each method returns a `pyarrow.Table` whose schema is the same for every table: times are UTC unless they are a writer's
wall clock, sizes are bytes. Raises InvalidError for arguments, NotFoundError for a missing snapshot or tag, and what
reading the table's files raises.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import pyarrow as pa

from widetable.arguments import one_of
from widetable.derive.upkeep.derived_state import inspect
from widetable.errors import InvalidError
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.inspection import (
    inspected_barriers,
    inspected_files,
    inspected_holders,
    inspected_past,
)
from widetable.operations.inspection.inspected_names import NAMES, OF_A_SNAPSHOT
from widetable.operations.inspection.inspection import Inspection

_OF_THE_TABLE: Final[Mapping[str, Callable[[OpenTable], pa.Table]]] = {
    "snapshots": inspected_past.snapshots,
    "schemas": inspected_past.schemas,
    "options": inspected_past.options,
    "tags": inspected_past.tags,
    "branches": inspected_past.branches,
    "consumers": inspected_past.consumers,
    "barriers": inspected_barriers.barriers,
    "leases": inspected_holders.leases,
    "caches": inspected_holders.caches,
    "space": inspected_holders.space,
}
_OF_A_SNAPSHOT: Final[Mapping[str, Callable[[OpenTable, inspected_files.Choice], pa.Table]]] = {
    "files": inspected_files.files,
    "manifests": inspected_files.manifests,
    "partitions": inspected_files.partitions,
    "buckets": inspected_files.buckets,
}


class Inspector:
    """The metadata of one table, or of the open branch. Methods that take a snapshot use the newest by default."""

    __module__ = "widetable"

    def __init__(self, table: OpenTable) -> None:
        self._table = table

    def __repr__(self) -> str:
        return f"Inspector({self._table.path!r})"

    def __call__(self) -> Inspection:
        """Return the state of the table: snapshots, files per level, pending work, readers and compactors, files that a
        listing shows as damaged, the progress of indexes, widened columns and joins, and warnings.
        """
        return inspect(self._table)

    def frame(
        self, name: str, *, snapshot_id: int | None = None, tag: str | None = None
    ) -> pa.Table:
        """Return the result of the method of that name: `frame("files", tag="monday")`."""
        name = one_of(name, NAMES, "name")
        if name in OF_A_SNAPSHOT:
            return _OF_A_SNAPSHOT[name](self._table, (snapshot_id, tag))
        if snapshot_id is not None or tag is not None:
            raise InvalidError(
                "snapshot_id and tag",
                found=f"one of them for {name!r}, which belongs to the whole table",
                expected=f"neither of them, or a name that belongs to a snapshot: {', '.join(OF_A_SNAPSHOT)}",
                action="Omit snapshot_id and tag.",
            )
        return _OF_THE_TABLE[name](self._table)

    def snapshots(self) -> pa.Table:
        """Return the existing snapshots, newest last: `snapshot_id, schema_id, commit_kind, commit_user,
        commit_identifier, time, total_records, delta_records, changelog_records, watermark_millis,
        base_manifest_list, delta_manifest_list, changelog_manifest_list, index_manifest, properties`.
        """
        return self.frame("snapshots")

    def schemas(self) -> pa.Table:
        """Return all schemas, newest last: `schema_id, time, columns` (a list of `id, name, type, comment`),
        `primary_key, partition_by, options, comment`.
        """
        return self.frame("schemas")

    def options(self) -> pa.Table:
        """Return the options, first those that the newest schema sets: `key, value, default, is_known`. `value` is null
        where the default applies; `is_known` is false for options of other clients.
        """
        return self.frame("options")

    def files(self, *, snapshot_id: int | None = None, tag: str | None = None) -> pa.Table:
        """Return the live data files: `partition, bucket, total_buckets, level, file_name, path, format, size_bytes,
        rows, delete_records` (rows that delete), `deleted_rows` (rows that a deletion vector removes), `schema_id,
        min_key, max_key, min_sequence_number, max_sequence_number, creation_time` (its writer's wall clock), `source,
        write_columns`.
        """
        return self.frame("files", snapshot_id=snapshot_id, tag=tag)

    def manifests(self, *, snapshot_id: int | None = None, tag: str | None = None) -> pa.Table:
        """Return the manifests: `list` (base, delta or changelog), `file_name, size_bytes, added_files, deleted_files,
        schema_id, min_bucket, max_bucket, min_level, max_level`.
        """
        return self.frame("manifests", snapshot_id=snapshot_id, tag=tag)

    def partitions(self, *, snapshot_id: int | None = None, tag: str | None = None) -> pa.Table:
        """Return the partitions that have files: `partition, total_buckets, buckets` (those with files), `files, rows,
        size_bytes, deleted_rows, newest_file_time` (its writer's wall clock).
        """
        return self.frame("partitions", snapshot_id=snapshot_id, tag=tag)

    def buckets(self, *, snapshot_id: int | None = None, tag: str | None = None) -> pa.Table:
        """Return the buckets that have files: `partition, bucket, total_buckets, files, rows, size_bytes,
        deleted_rows, runs` (sorted runs that a read merges), `level0_files, levels` (a list of `level, files, rows,
        size_bytes`), `due_files, due_bytes` (the input of the next compaction).
        """
        return self.frame("buckets", snapshot_id=snapshot_id, tag=tag)

    def tags(self) -> pa.Table:
        """Return the tags: `tag, snapshot_id, schema_id, time, total_records, create_time, expire_time, expires_at`.
        `create_time` and `expire_time` are the wall clock of the tag's creator, null for a tag that never expires.
        `expires_at` is the instant at which expiry deletes it, null for a tag of another client, which notes no zone.
        """
        return self.frame("tags")

    def branches(self) -> pa.Table:
        """Return the branches except main, with their newest schema and snapshot: `branch, path, schema_id,
        snapshot_id, time`.
        """
        return self.frame("branches")

    def consumers(self) -> pa.Table:
        """Return the consumers: `consumer, next_snapshot_id, snapshots_behind, time` (of the last progress)."""
        return self.frame("consumers")

    def barriers(self) -> pa.Table:
        """Return the writers that a table under barriers waits for: `writer, kind, complete_barrier, last_barrier` (of
        its records), `table_barrier` (up to which the whole table is complete), `is_slowest, run` (the process that has
        the name).
        """
        return self.frame("barriers")

    def leases(self) -> pa.Table:
        """Return the leases on the table: `kind` (compaction, old-levels, join, read, pin), `owner, snapshot_id` (the
        first that is held), `expire_time, state` (in force, over, void), `path`.
        """
        return self.frame("leases")

    def caches(self) -> pa.Table:
        """Return the lookup caches of the table on this host: `data_file, schema_id, rows, size_bytes` (on disk),
        `last_used_time, path`.
        """
        return self.frame("caches")

    def space(self) -> pa.Table:
        """Return the storage that the table uses, by its holders: `holder` (snapshot, retention, read, pin, barriers,
        consumer, tag, branch, changelog, expiry, nobody), `name, snapshot_id` (the first that is held), `files,
        size_bytes`. Each row counts the files that no row above it needs; the sum is the whole storage.
        """
        return self.frame("space")
