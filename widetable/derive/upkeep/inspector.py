"""`Table.inspect`: called, what state the table is in; its methods, what the table has as Arrow tables.

Each method gives a `pyarrow.Table` of one schema, whatever the table: times are of UTC unless they are a writer's wall
clock, sizes are bytes. Raises InvalidError for arguments, NotFoundError for a snapshot or tag that is not there, and
what reading the table's files raises.
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
    """Of one table, or of the branch that is open. Where a snapshot is asked for, it is the newest by default."""

    __module__ = "widetable"

    def __init__(self, table: OpenTable) -> None:
        self._table = table

    def __repr__(self) -> str:
        return f"Inspector({self._table.path!r})"

    def __call__(self) -> Inspection:
        """What state the table is in: snapshots, files per level, what waits, who reads and compacts, which files are
        damaged as far as a listing shows it, how far indexes, widened columns and joins have got, and warnings.
        """
        return inspect(self._table)

    def frame(
        self, name: str, *, snapshot_id: int | None = None, tag: str | None = None
    ) -> pa.Table:
        """What the method of that name gives: `frame("files", tag="monday")`."""
        name = one_of(name, NAMES, "name")
        if name in OF_A_SNAPSHOT:
            return _OF_A_SNAPSHOT[name](self._table, (snapshot_id, tag))
        if snapshot_id is not None or tag is not None:
            raise InvalidError(
                "snapshot_id and tag",
                found=f"one of them for {name!r}, which are those of the whole table",
                expected=f"none, or one of {', '.join(OF_A_SNAPSHOT)}",
                action="Leave it out.",
            )
        return _OF_THE_TABLE[name](self._table)

    def snapshots(self) -> pa.Table:
        """The snapshots that are kept, newest last: `snapshot_id, schema_id, commit_kind, commit_user,
        commit_identifier, time, total_records, delta_records, changelog_records, watermark_millis,
        base_manifest_list, delta_manifest_list, changelog_manifest_list, index_manifest, properties`.
        """
        return self.frame("snapshots")

    def schemas(self) -> pa.Table:
        """All schemas, newest last: `schema_id, time, columns` (a list of `id, name, type, comment`), `primary_key,
        partition_by, options, comment`.
        """
        return self.frame("schemas")

    def options(self) -> pa.Table:
        """Options, those that the newest schema sets first: `key, value, default, is_known`. value: null where the
        default holds, `is_known` false for those of other clients.
        """
        return self.frame("options")

    def files(self, *, snapshot_id: int | None = None, tag: str | None = None) -> pa.Table:
        """Live data files: `partition, bucket, total_buckets, level, file_name, path, format, size_bytes, rows,
        delete_records` (rows that delete), `deleted_rows` (that a deletion vector takes out), `schema_id, min_key,
        max_key, min_sequence_number, max_sequence_number, creation_time` (its writer's wall clock), `source,
        write_columns`.
        """
        return self.frame("files", snapshot_id=snapshot_id, tag=tag)

    def manifests(self, *, snapshot_id: int | None = None, tag: str | None = None) -> pa.Table:
        """Manifests: `list` (base, delta or changelog), `file_name, size_bytes, added_files, deleted_files, schema_id,
        min_bucket, max_bucket, min_level, max_level`.
        """
        return self.frame("manifests", snapshot_id=snapshot_id, tag=tag)

    def partitions(self, *, snapshot_id: int | None = None, tag: str | None = None) -> pa.Table:
        """Partitions that have files: `partition, total_buckets, buckets` (with files), `files, rows, size_bytes,
        deleted_rows, newest_file_time` (its writer's wall clock).
        """
        return self.frame("partitions", snapshot_id=snapshot_id, tag=tag)

    def buckets(self, *, snapshot_id: int | None = None, tag: str | None = None) -> pa.Table:
        """Buckets that have files: `partition, bucket, total_buckets, files, rows, size_bytes, deleted_rows, runs`
        (sorted ones, that a read merges), `level0_files, levels` (a list of `level, files, rows, size_bytes`),
        `due_files, due_bytes` (that a compaction takes next).
        """
        return self.frame("buckets", snapshot_id=snapshot_id, tag=tag)

    def tags(self) -> pa.Table:
        """Tags: `tag, snapshot_id, schema_id, time, total_records, create_time, expire_time, expires_at`.
        create_time and expire_time are wall clock of who made it, null for one that is kept for ever. expires_at is
        the instant at which expiry deletes it, null for one of another client, which notes no zone.
        """
        return self.frame("tags")

    def branches(self) -> pa.Table:
        """Branches but main: `branch, path, schema_id, snapshot_id, time`, of the newest schema and snapshot."""
        return self.frame("branches")

    def consumers(self) -> pa.Table:
        """Consumers: `consumer, next_snapshot_id, snapshots_behind, time` (of its last progress)."""
        return self.frame("consumers")

    def barriers(self) -> pa.Table:
        """Who a table under barriers waits for: `writer, kind, complete_barrier, last_barrier` (of its records),
        `table_barrier` (up to which the whole table is complete), `is_slowest, run` (the process that has the name).
        """
        return self.frame("barriers")

    def leases(self) -> pa.Table:
        """Who works with the table: `kind` (compaction, old-levels, join, read, pin), `owner, snapshot_id` (the first
        that is held), `expire_time, state` (in force, over, void), `path`.
        """
        return self.frame("leases")

    def caches(self) -> pa.Table:
        """Lookup caches of the table on this host: `data_file, schema_id, rows, size_bytes` (on the disk),
        `last_used_time, path`.
        """
        return self.frame("caches")

    def space(self) -> pa.Table:
        """What the table takes on the storage, by who holds it: `holder` (snapshot, retention, read, pin, barriers,
        consumer, tag, branch, changelog, expiry, nobody), `name, snapshot_id` (the first that is held), `files,
        size_bytes`. Each line counts what none above it needs: the sum is all that there is.
        """
        return self.frame("space")
