"""`session`: tables under barriers at one moment, as temporary views: plain SQL over several of them is consistent.

    with widetable_spark.session(spark, "/data/warehouse") as s:
        s.create_views(["shop.user_item_amount", "shop.user_item_price"])
        spark.sql("SELECT .. FROM user_item_amount JOIN user_item_price USING (user, item)")

The tables are pinned until the session is closed (`barriers/session.py`): a plan that is made before finds its files.

A view is read as `format("widetable")` of the snapshot that has just the session's rows. Spark plans it once, at its
first use, and the plan names files; a query that still runs when the session is closed may miss some, which it reports
by an error. Where no snapshot has just these rows (more rows of the barrier came after later ones) the view is read by
the barrier, which each planner looks up under the revision that is active then: after a revision of its table it has
other rows, or none.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from widetable import Catalog, InvalidError, Session
from widetable.connector import arguments, check_published
from widetable_spark.frames.declared_options import BARRIER, PATH, SNAPSHOT_ID
from widetable_spark.startup.spark_session import session_of

_LONGEST_NAME_BYTES: Final = 255


def session(
    spark: SparkSession,
    warehouse: str | os.PathLike[str],
    tables: Sequence[str] | None = None,
    *,
    consistency: str = "RepeatableRead",
    as_of: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    uri: str | Sequence[str] | None = None,
) -> SessionViews:
    """Open a session over tables under barriers, for SQL that is consistent across tables.

    Close it, or use it in a `with`: its leases belong to this process, and keep snapshots while it lives.

    Parameters
    ----------
    spark : SparkSession
        A session of the driver or of Spark Connect.
    warehouse : str or os.PathLike
        The path or URL of the warehouse.
    tables : list of str, default None
        The tables, as `db.name`. None: all tables under barriers.
    consistency : str, default "RepeatableRead"
        As in `Catalog.session`.
    as_of : int, default None
        The barrier to read, as in `Catalog.session`. None: the newest barrier that all tables have.
    storage_options : dict of str to str, default None
        Options of an object store, as in `widetable.Catalog`. None: the environment says them.
    uri : str or list of str, default None
        URLs of the service that chooses barriers, as in `widetable.Catalog`; the driver calls it. None: no service.

    Returns
    -------
    SessionViews
        The open session.

    Raises
    ------
    NotFoundError
        The tables have no barrier in common, or a table does not exist.
    InvalidError
        Tables are under different barriers or none, or an argument is invalid.
    UnsupportedError
        `ReadCommitted` is requested over tables with `widetable.barrier-stage`.

    Examples
    --------
    >>> options = {"widetable.barrier-interval": "1 s"}
    >>> users = wt.Catalog("warehouse").create_table("shop.users", {"k": "INT"}, primary_key=["k"], options=options)
    >>> wt.Catalog("warehouse").writer("shop.users", "crm").write([{"k": 1}], complete=True).rows
    1
    >>> with widetable_spark.session(spark, "warehouse") as session:
    ...     session.table("shop.users").collect()
    [Row(k=1)]
    """
    session_of(spark)
    catalog = Catalog(warehouse, storage_options=storage_options, uri=uri)
    opened = catalog.session(tables, consistency=consistency, as_of=as_of)
    check_published(opened, consistency, "in Spark")  # executors plan from snapshots
    return SessionViews(spark, catalog, opened, storage_options)


class SessionViews:
    """Tables at one barrier, as DataFrames and temporary views.

    `session` makes it; it is a context manager. Its views are dropped when it is closed.

    Examples
    --------
    The examples of the methods go on from here.

    >>> import widetable as wt
    >>> import widetable_spark
    >>> catalog = wt.Catalog("warehouse")
    >>> options = {"widetable.barrier-interval": "1 s"}
    >>> users = catalog.create_table("shop.users", {"id": "BIGINT"}, primary_key=["id"], options=options)
    >>> catalog.writer("shop.users", "crm").write([{"id": 1}], complete=True).rows
    1
    >>> session = widetable_spark.session(spark, "warehouse")
    """

    def __init__(
        self,
        spark: SparkSession,
        catalog: Catalog,
        opened: Session,
        storage_options: Mapping[str, str] | None,
    ) -> None:
        self._spark = spark
        self._catalog = catalog
        self._session = opened
        self._storage = dict(storage_options or {})
        self._views: list[str] = []
        self._is_closed = False

    def __enter__(self) -> SessionViews:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def barrier(self) -> int | None:
        """The barrier of all its tables; None for `ReadUncommitted`."""
        return self._session.barrier

    def table(self, name: str) -> DataFrame:
        """Read the rows of a table of the session.

        Parameters
        ----------
        name : str
            The table, as `db.name`.

        Returns
        -------
        DataFrame
            The rows at the session's barrier, in no order.

        Raises
        ------
        NotFoundError
            The session does not have the table.
        InvalidError
            The session is closed.

        Examples
        --------
        >>> session.table("shop.users").collect()
        [Row(id=1)]
        >>> session.close()
        """
        if self._is_closed:
            raise InvalidError(
                "session",
                found="a closed session, whose rows are no longer kept",
                expected="an open session",
                action="Open another session.",
            )
        pinned_table = self._session.table(arguments.text(name, "name"))
        reader = self._spark.read.format("widetable").options(**self._storage)
        reader = reader.option(PATH, self._catalog.table(name).path)
        if pinned_table.snapshot_id is not None:
            reader = reader.option(SNAPSHOT_ID, str(pinned_table.snapshot_id))
        elif self.barrier is not None:
            reader = reader.option(BARRIER, str(self.barrier))
        return reader.load()

    def create_views(self, tables: Sequence[str] | Mapping[str, str]) -> list[str]:
        """Create temporary views of tables of the session.

        All tables are looked up before the first view is created, so an error leaves none. A view of the same name is
        replaced.

        Parameters
        ----------
        tables : list of str, or dict of str to str
            The tables, as `db.name`, whose views are named without the database; or a mapping of view to table.

        Returns
        -------
        list of str
            The names of the views, in the order given.

        Raises
        ------
        NotFoundError
            The session does not have a table.
        InvalidError
            Two views have the same name, a name is invalid, or the session is closed.

        Examples
        --------
        >>> session.create_views(["shop.users"])
        ['users']
        >>> spark.sql("SELECT id FROM users").collect()
        [Row(id=1)]
        >>> session.close()
        """
        if not isinstance(tables, Mapping):
            listed = arguments.names(tables, "tables")
            tables = {name.rpartition(".")[2]: name for name in listed}
            if len(tables) < len(listed):
                raise InvalidError(
                    "tables",
                    found=f"two tables with the same name: {', '.join(listed)}",
                    expected="a different view name for each",
                    action="Pass a mapping of view to table.",
                )
        made = {_view_name(view): self.table(name) for view, name in tables.items()}
        for view, rows in made.items():
            rows.createOrReplaceTempView(f"`{view}`")
            self._views.append(view)
        return list(made)

    def close(self) -> None:
        """Drop the views, and release the snapshots that they read.

        A second call does nothing.

        Raises
        ------
        StorageError
            The storage refuses to release a lease.
        """
        self._is_closed = True
        views, self._views = self._views, []
        try:
            for view in views:
                self._spark.catalog.dropTempView(view)
        finally:
            self._session.close()


def _view_name(view: object) -> str:
    name = arguments.label(view, "view", _LONGEST_NAME_BYTES)
    if "`" in name:
        raise arguments.refused(view, "view", "a name without backticks")
    return name
