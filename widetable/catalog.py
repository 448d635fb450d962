"""A catalog: the tables of a warehouse directory. Every operation is a function of `widetable.warehouse`; this page is
their list, as `Table` is.

    <warehouse>/<db>.db/<table>      (format.md section 1)

A table exists when its schema-0 does. That file is published create-if-absent, so of two creators one wins. Raises
InvalidError for names and schemas that break a rule, UnsupportedError for options that are not honoured, NotFoundError
for a table that does not exist.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from widetable.arguments import one_of
from widetable.operations.barriers.barrier_listing import ShownBarriers
from widetable.operations.barriers.session import CONSISTENCIES, REPEATABLE_READ
from widetable.storage.given_storage import given_storage
from widetable.topology.meta_service import linked
from widetable.warehouse.jobs import revise, topology, writer
from widetable.warehouse.new_table import create_table
from widetable.warehouse.schema_alteration import alter_table
from widetable.warehouse.sessions import session
from widetable.warehouse.table_copy import copy_table
from widetable.warehouse.tables import drop_table, list_databases, list_tables, table


class Catalog:
    """The tables below one directory, the warehouse.

    A catalog holds no file open, and is picklable. Its constructor reads nothing: a warehouse that does not exist has
    no tables. Besides the errors that it names, a method raises InvalidError for an argument of a wrong type,
    DamagedError for a file with wrong content, and StorageError when the storage refuses.

    Parameters
    ----------
    warehouse : str or os.PathLike
        A path or URL; it need not exist yet.
    file_io : file system, default None
        A file system of s3fs, gcsfs or adlfs, or one of pyarrow.fs, which only reads. The path lies on it, with or
        without its scheme. None: the file system that the path or URL names.
    storage_options : dict of str to str, default None
        Options of an object store, by Paimon's names, such as `s3.endpoint` (docs/object-stores.md). The environment
        provides the others. Tables of the catalog have the options, and so has a pickle; no repr, error or file
        contains them. None: the environment provides all.
    consistency : str, default "RepeatableRead"
        The default of sessions: `RepeatableRead`, `ReadCommitted` or `ReadUncommitted`.
    uri : str or list of str, default None
        The URL, or URLs, of instances of `widetable meta serve` for this warehouse (extra `meta`). They choose the
        barriers of sessions, and nothing else. None: this process chooses.

    Raises
    ------
    InvalidError
        A path, option, consistency or URL is not valid.
    UnsupportedError
        The URL has an unsupported scheme.

    Examples
    --------
    The examples of the methods go on from here.

    >>> import pyarrow as pa
    >>> import widetable as wt
    >>> catalog = wt.Catalog("warehouse")
    >>> columns = {"id": "BIGINT", "city": "STRING"}
    >>> users = catalog.create_table("shop.users", columns, primary_key=["id"])
    >>> users.write([{"id": 1, "city": "Oslo"}]).snapshot_id
    1
    >>> catalog.table("shop.users").scan().to_arrow().to_pylist()
    [{'id': 1, 'city': 'Oslo'}]
    """

    __module__ = "widetable"

    def __init__(
        self,
        warehouse: str | os.PathLike[str],
        *,
        file_io: Any = None,
        storage_options: Mapping[str, str] | None = None,
        consistency: str = REPEATABLE_READ,
        uri: str | Sequence[str] | None = None,
    ) -> None:
        self._given = given_storage(file_io, storage_options)
        self._consistency = one_of(consistency, CONSISTENCIES, "consistency")
        self._file_io, self._root = self._given.at(warehouse)
        self._service = None if uri is None else linked(uri, "uri")
        self._shown = ShownBarriers()

    def __repr__(self) -> str:
        return f"Catalog({self._root!r})"

    @property
    def warehouse(self) -> str:
        """The absolute path of the warehouse."""
        return self._root

    # Tables
    create_table = create_table
    table = table
    list_databases = list_databases
    list_tables = list_tables
    drop_table = drop_table
    copy_table = copy_table
    alter_table = alter_table

    # Barriers
    session = session
    writer = writer
    topology = topology
    revise = revise
