"""A table: the list of its operations, each of which is a function of its own module.

Raises what the operations raise: InvalidError for wrong data or arguments, NotFoundError for what does not exist,
UnsupportedError for tables that need what this version does not support, ConflictError, DamagedError, StorageError.

A function becomes a method when the class names it: `write = write`. So a call runs the operation directly, the
docstring of the function is that of the method, and the module of an operation can be read and tested alone.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from widetable.derive.indexes.index_lookup import lookup_index
from widetable.derive.loading.loading import to_batches, to_torch
from widetable.derive.samples.sample_follower import follow_samples
from widetable.derive.served.logged_session import lookup_session
from widetable.derive.served.served_audit import audit_served
from widetable.derive.upkeep.derived_alteration import alter_options
from widetable.derive.upkeep.derived_audit import audit
from widetable.derive.upkeep.derived_state import doctor
from widetable.derive.upkeep.incremental import change_batches, changes, scan_changes
from widetable.derive.upkeep.inspector import Inspector
from widetable.derive.upkeep.upkeep import maintain, maintainer
from widetable.derive.versions.point_in_time import point_in_time
from widetable.derive.versions.timed_windows import windows
from widetable.operations.compaction.compaction import compact
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.health.repair import repair
from widetable.operations.health.rollback import rollback
from widetable.operations.history.branches import (
    branch_root,
    branches,
    check_there,
    create_branch,
    drop_branch,
)
from widetable.operations.history.expiry import expire_snapshots
from widetable.operations.history.fast_forward import fast_forward
from widetable.operations.history.history import (
    consumers,
    create_tag,
    delete_consumer,
    delete_tag,
    snapshots,
    tags,
)
from widetable.operations.history.lost_snapshots import accept_lost_snapshots
from widetable.operations.history.orphans import remove_orphan_files
from widetable.operations.maintenance.partition_expiry import expire_partitions
from widetable.operations.maintenance.partition_restore import restore_partitions
from widetable.operations.maintenance.rescale import rescale
from widetable.operations.maintenance.sort_compact import sort_compact
from widetable.operations.queries.changes import change_source
from widetable.operations.queries.explain import explain
from widetable.operations.queries.follow import follow
from widetable.operations.queries.table_html import table_html
from widetable.operations.queries.table_read import lookup, lookup_prefix, scan
from widetable.operations.writes.delete import delete, delete_keys, drop_partitions
from widetable.operations.writes.find_commit import find_commit
from widetable.operations.writes.table_commit import (
    commit_append,
    commit_overwrite,
    discard,
    wait_for_compactions,
)
from widetable.operations.writes.table_write import (
    check_write_columns,
    new_writer,
    overwrite,
    sequence_base,
    write,
)
from widetable.operations.writes.update import update
from widetable.schema import options as opt
from widetable.storage.given_storage import GivenStorage, given_storage


class Table(OpenTable):
    """A table on disk: its rows, its changes, its past and its upkeep.

    A `Catalog` or `Table.open` makes it. It is picklable, keeps nothing open, and threads may share it. Operations do
    not call each other through this class: overriding one changes only that one.

    Each operation reads the current state of the table. So it sees what others have committed, altered or compacted
    meanwhile. A table that was dropped and made again is another one: operations raise InvalidError; open it again.

    Besides the errors that it names, an operation raises NotFoundError when the table was dropped,
    DamagedError when a file is not what it must be, StorageError when the storage refuses,
    UnsupportedError when the table needs what this version does not support, and InvalidError for an
    argument of a wrong type or a table that was made again.

    Examples
    --------
    The examples of the methods go on from here.

    >>> import pyarrow as pa
    >>> import widetable as wt
    >>> catalog = wt.Catalog("warehouse")
    >>> columns = {"id": "BIGINT", "city": "STRING"}
    >>> users = catalog.create_table("shop.users", columns, primary_key=["id"])
    >>> users.write([{"id": 1, "city": "Oslo"}, {"id": 2, "city": "Bergen"}]).snapshot_id
    1
    """

    __module__ = "widetable"

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        branch: str | None = None,
        file_io: Any = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> Table:
        """Open the table at a path or URL.

        The schema is read once, here. An option with a wrong value is refused by the operation that needs it.

        Parameters
        ----------
        path : str or os.PathLike
            The directory of the table; the directory of a branch opens the branch.
        branch : str, default None
            A branch other than main, whose schemas, snapshots, tags and consumers the table then has. None: the branch
            whose directory the path is.
        file_io : file system, default None
            The file system of the path, as in `Catalog`. None: the one that the path or URL names.
        storage_options : dict of str to str, default None
            Options of an object store, as in `Catalog`. None: the environment provides them.

        Returns
        -------
        Table
            The table, at its newest schema.

        Raises
        ------
        NotFoundError
            The directory is not a table, or the table has no such branch.
        InvalidError
            The name is not valid for a branch, or an argument has a wrong type.

        Examples
        --------
        >>> wt.Table.open("warehouse/shop.db/users").scan().to_arrow().num_rows
        2
        """
        return cls._open(given_storage(file_io, storage_options), path, branch)

    @classmethod
    def _open(
        cls, given: GivenStorage, path: str | os.PathLike[str], branch: str | None = None
    ) -> Table:
        # The schema says whether files are forced to the disk (option `widetable.fsync`). Reading it needs a storage,
        # so a table without fsync is made twice. A storage that a user gave is used as it is.
        storage, place = given.at(path)
        root = branch_root(place, branch)
        table = cls(root, storage)
        check_there(table._file_io, table._paths)
        schema = table._committer.schemas.known()
        if not given.is_given and not schema.typed_options.get(opt.FSYNC):
            table = cls(root, given.at(place, fsync=False)[0])
        return table

    def __repr__(self) -> str:
        return f"Table({self._path!r})"

    # Notebooks show this in place of the repr.
    _repr_html_ = table_html

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns of the newest schema, as scans return and writes take them. Read on each access, as `schema`."""
        return self.schema.arrow_schema()

    @property
    def inspect(self) -> Inspector:
        """`table.inspect()` returns the state of the table; `table.inspect.files()` and others what it has, as Arrow.

        Reading the attribute does no I/O; each call reads the current state of the table.
        """
        return Inspector(self)

    # Repeated so that the API reference lists them here.
    path = OpenTable.path
    branch = OpenTable.branch
    schema = OpenTable.schema

    # Rows in
    write = write
    overwrite = overwrite
    delete = delete
    delete_keys = delete_keys
    update = update
    drop_partitions = drop_partitions
    restore_partitions = restore_partitions

    # Rows in, from many tasks
    check_write_columns = check_write_columns
    sequence_base = sequence_base
    new_writer = new_writer
    commit_append = commit_append
    commit_overwrite = commit_overwrite
    discard = discard
    find_commit = find_commit

    # Rows out
    scan = scan
    lookup = lookup
    lookup_prefix = lookup_prefix
    lookup_index = lookup_index
    lookup_session = lookup_session
    point_in_time = point_in_time
    to_batches = to_batches
    to_torch = to_torch
    windows = windows

    # Changes out
    changes = changes
    scan_changes = scan_changes
    change_batches = change_batches
    follow = follow
    follow_samples = follow_samples
    change_source = change_source

    # The past
    snapshots = snapshots
    create_tag = create_tag
    delete_tag = delete_tag
    tags = tags
    rollback = rollback
    consumers = consumers
    delete_consumer = delete_consumer

    # Branches
    create_branch = create_branch
    branches = branches
    drop_branch = drop_branch
    fast_forward = fast_forward

    # Upkeep
    compact = compact
    sort_compact = sort_compact
    wait_for_compactions = wait_for_compactions
    maintain = maintain
    maintainer = maintainer
    expire_snapshots = expire_snapshots
    expire_partitions = expire_partitions
    remove_orphan_files = remove_orphan_files
    alter_options = alter_options
    rescale = rescale

    # Checks and repair
    explain = explain
    audit = audit
    audit_served = audit_served
    doctor = doctor
    repair = repair
    accept_lost_snapshots = accept_lost_snapshots
