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
    inspected_overlap,
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
    "overlap": inspected_overlap.overlap,
}


class Inspector:
    """What state a table is in, and what it has, as Arrow tables.

    `Table.inspect` makes it, for the table or the branch that is open. Every frame has one schema, whatever the table:
    times are UTC unless they are the wall clock of a writer, and sizes are bytes. Frames of a snapshot take
    `snapshot_id` or `tag`; without them they read the newest snapshot, and have no rows if there is none. Besides the
    errors that it names, a method raises DamagedError when a file is not what it must be, and StorageError when the
    storage refuses.

    Examples
    --------
    The examples of the methods go on from here.

    >>> import widetable as wt
    >>> columns = {"id": "BIGINT", "city": "STRING"}
    >>> catalog = wt.Catalog("warehouse")
    >>> users = catalog.create_table("shop.users", columns, primary_key=["id"])
    >>> users.write([{"id": 1, "city": "Oslo"}, {"id": 2, "city": "Bergen"}]).snapshot_id
    1
    >>> state = users.inspect()
    >>> state.latest_snapshot_id, state.merge_engine
    (1, 'deduplicate')
    """

    __module__ = "widetable"

    def __init__(self, table: OpenTable) -> None:
        self._table = table

    def __repr__(self) -> str:
        return f"Inspector({self._table.path!r})"

    def __call__(self) -> Inspection:
        """Return the state of the table.

        It shows snapshots, files of each level, what waits for compaction, readers and compactors, which files are
        damaged as far as a listing shows it, how far indexes, widened columns and joins are, and warnings.
        """
        return inspect(self._table)

    def frame(
        self, name: str, *, snapshot_id: int | None = None, tag: str | None = None
    ) -> pa.Table:
        """Return the frame of a name, as the method of that name does.

        Parameters
        ----------
        name : str
            The name of a method of this class, such as `files`.
        snapshot_id : int, default None
            The snapshot, for `files`, `manifests`, `partitions`, `buckets` and `overlap`. None: the newest one.
        tag : str, default None
            A tag, in place of the snapshot. None: no tag.

        Returns
        -------
        pyarrow.Table
            The frame.

        Raises
        ------
        InvalidError
            There is no such frame, both arguments are given, or the frame is of the whole table.
        NotFoundError
            The table, the snapshot or the tag does not exist.

        Examples
        --------
        >>> users.inspect.frame("options").column_names
        ['key', 'value', 'default', 'is_known']
        """
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
        """List the snapshots that are kept.

        Returns
        -------
        pyarrow.Table
            One row for each, the newest last: `snapshot_id, schema_id, commit_kind, commit_user, commit_identifier,
            time, total_records, delta_records, changelog_records, watermark_millis, base_manifest_list,
            delta_manifest_list, changelog_manifest_list, index_manifest, properties`.

        Raises
        ------
        NotFoundError
            The table does not exist any more.

        Examples
        --------
        >>> users.inspect.snapshots()["commit_kind"].to_pylist()
        ['APPEND']
        """
        return self.frame("snapshots")

    def schemas(self) -> pa.Table:
        """List all schemas.

        Returns
        -------
        pyarrow.Table
            One row for each, the newest last: `schema_id, time, columns` (a list of `id, name, type, comment`),
            `primary_key, partition_by, options, comment`.

        Raises
        ------
        NotFoundError
            The table does not exist any more.
        """
        return self.frame("schemas")

    def options(self) -> pa.Table:
        """List the options, those first that the newest schema sets.

        Returns
        -------
        pyarrow.Table
            One row for each: `key, value, default, is_known`. `value` is null where the default holds; `is_known` is
            false for options of other clients.

        Raises
        ------
        NotFoundError
            The table does not exist any more.
        """
        return self.frame("options")

    def files(self, *, snapshot_id: int | None = None, tag: str | None = None) -> pa.Table:
        """List the live data files.

        Parameters
        ----------
        snapshot_id, tag
            As in `frame`.

        Returns
        -------
        pyarrow.Table
            One row for each: `partition, bucket, total_buckets, level, file_name, path, format, size_bytes, rows,
            delete_records` (rows that delete), `deleted_rows` (that a deletion vector removes), `schema_id, min_key,
            max_key, min_sequence_number, max_sequence_number, creation_time` (the wall clock of its writer), `source,
            write_columns`.

        Raises
        ------
        InvalidError
            Both arguments are given.
        NotFoundError
            The table, the snapshot or the tag does not exist.

        Examples
        --------
        >>> users.inspect.files(snapshot_id=1)["rows"].to_pylist()
        [2]
        """
        return self.frame("files", snapshot_id=snapshot_id, tag=tag)

    def manifests(self, *, snapshot_id: int | None = None, tag: str | None = None) -> pa.Table:
        """List the manifests.

        Parameters
        ----------
        snapshot_id, tag
            As in `frame`.

        Returns
        -------
        pyarrow.Table
            One row for each: `list` (base, delta or changelog), `file_name, size_bytes, added_files, deleted_files,
            schema_id, min_bucket, max_bucket, min_level, max_level`.

        Raises
        ------
        InvalidError
            Both arguments are given.
        NotFoundError
            The table, the snapshot or the tag does not exist.
        """
        return self.frame("manifests", snapshot_id=snapshot_id, tag=tag)

    def partitions(self, *, snapshot_id: int | None = None, tag: str | None = None) -> pa.Table:
        """List the partitions that have files.

        Parameters
        ----------
        snapshot_id, tag
            As in `frame`.

        Returns
        -------
        pyarrow.Table
            One row for each: `partition, total_buckets, buckets` (with files), `files, rows, size_bytes, deleted_rows,
            newest_file_time` (the wall clock of its writer).

        Raises
        ------
        InvalidError
            Both arguments are given.
        NotFoundError
            The table, the snapshot or the tag does not exist.
        """
        return self.frame("partitions", snapshot_id=snapshot_id, tag=tag)

    def buckets(self, *, snapshot_id: int | None = None, tag: str | None = None) -> pa.Table:
        """List the buckets that have files.

        Parameters
        ----------
        snapshot_id, tag
            As in `frame`.

        Returns
        -------
        pyarrow.Table
            One row for each: `partition, bucket, total_buckets, files, rows, size_bytes, deleted_rows, runs` (the
            sorted runs that a read merges), `level0_files, levels` (a list of `level, files, rows, size_bytes`),
            `due_files, due_bytes` (that the next compaction takes).

        Raises
        ------
        InvalidError
            Both arguments are given.
        NotFoundError
            The table, the snapshot or the tag does not exist.
        """
        return self.frame("buckets", snapshot_id=snapshot_id, tag=tag)

    def overlap(self, *, snapshot_id: int | None = None, tag: str | None = None) -> pa.Table:
        """List how much the files of an append table overlap, by partition and column. `sort_compact` lowers it.

        Parameters
        ----------
        snapshot_id, tag
            As in `frame`.

        Returns
        -------
        pyarrow.Table
            One row for each column whose bounds files record: `partition, column, files, bounded_files` (that record
            them), `mean_depth, max_depth` (how many files a query for one value opens; 1 at best). No rows for a table
            with a primary key.

        Raises
        ------
        InvalidError
            Both arguments are given.
        NotFoundError
            The table, the snapshot or the tag does not exist.
        """
        return self.frame("overlap", snapshot_id=snapshot_id, tag=tag)

    def tags(self) -> pa.Table:
        """List the tags.

        Returns
        -------
        pyarrow.Table
            One row for each: `tag, snapshot_id, schema_id, time, total_records, create_time, expire_time, expires_at`.
            `create_time` and `expire_time` are the wall clock of who made the tag; `expire_time` is null for a tag that
            is kept for ever. `expires_at` is the instant at which expiry deletes the tag; it is null for a tag of
            another client, which records no zone.

        Raises
        ------
        NotFoundError
            The table does not exist any more.
        """
        return self.frame("tags")

    def branches(self) -> pa.Table:
        """List the branches other than main.

        Returns
        -------
        pyarrow.Table
            One row for each: `branch, path, schema_id, snapshot_id, time`, of the newest schema and snapshot of the
            branch.

        Raises
        ------
        NotFoundError
            The table does not exist any more.
        """
        return self.frame("branches")

    def consumers(self) -> pa.Table:
        """List the consumers.

        Returns
        -------
        pyarrow.Table
            One row for each: `consumer, next_snapshot_id, snapshots_behind, time` (of its last progress).

        Raises
        ------
        NotFoundError
            The table does not exist any more.
        """
        return self.frame("consumers")

    def barriers(self) -> pa.Table:
        """List the writers that a table under barriers waits for.

        Returns
        -------
        pyarrow.Table
            One row for each: `writer, kind, complete_barrier, last_barrier` (of its records), `table_barrier` (up to
            which the whole table is complete), `is_slowest, run` (the process that has the name).

        Raises
        ------
        NotFoundError
            The table does not exist any more.
        """
        return self.frame("barriers")

    def leases(self) -> pa.Table:
        """List who works with the table.

        Returns
        -------
        pyarrow.Table
            One row for each lease: `kind` (compaction, old-levels, join, read, pin), `owner, snapshot_id` (the first
            one that is kept), `expire_time, state` (in force, over, void), `path`.

        Raises
        ------
        NotFoundError
            The table does not exist any more.
        """
        return self.frame("leases")

    def caches(self) -> pa.Table:
        """List the lookup caches of the table on this host.

        Returns
        -------
        pyarrow.Table
            One row for each: `data_file, schema_id, rows, size_bytes` (on the disk), `last_used_time, path`.

        Raises
        ------
        NotFoundError
            The table does not exist any more.
        """
        return self.frame("caches")

    def space(self) -> pa.Table:
        """List what the table takes on the storage, by who keeps it.

        Returns
        -------
        pyarrow.Table
            One row for each holder: `holder` (snapshot, retention, read, pin, barriers, consumer, tag, branch,
            changelog, expiry, nobody), `name, snapshot_id` (the first one that is kept), `files, size_bytes`. Each row
            counts what no row above it needs, so the sum is the whole size.

        Raises
        ------
        NotFoundError
            The table does not exist any more.

        Examples
        --------
        >>> users.inspect.space()["holder"].to_pylist()
        ['snapshot']
        """
        return self.frame("space")
