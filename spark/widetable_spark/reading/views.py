"""`session`: tables under barriers at one moment, as temporary views: plain SQL over several of them is consistent.

    with widetable_spark.session(spark, "/data/warehouse") as s:
        s.create_views(["shop.user_item_amount", "shop.user_item_price"])
        spark.sql("SELECT .. FROM user_item_amount JOIN user_item_price USING (user, item)")

The tables are pinned until it is closed (`barriers/session.py`): what is planned before then finds its files.

A view is read as `format("widetable")` of the snapshot that has just the session's rows. Spark
plans it once, at its first use, and the plan names files; a query that still runs when the session
is closed may miss some, which it says by an error. Where no snapshot has just these rows (of the
barrier more came in behind later ones) it is read by the barrier, which whoever plans looks up
under the revision that is active then: behind a revision of its table it has other rows, or none.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from widetable import Catalog, InvalidError, Session
from widetable.connector import check_published, label, names, refused, text
from widetable_spark.frames.source_options import BARRIER, PATH, SNAPSHOT_ID
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
    """Open a session over tables of the warehouse, by default all that are under barriers. consistency, as_of: as of
    `Catalog.session`; storage_options, uri: as in `widetable.Catalog`, the driver asks the service. Raises
    NotFoundError where they have no barrier in common.

    Close it, or use it in a `with`: its leases are this process's, and keep snapshots while it
    lives. Raises UnsupportedError for `ReadCommitted` over tables with
    `widetable.barrier-stage`.
    """
    session_of(spark)
    catalog = Catalog(warehouse, storage_options=storage_options, uri=uri)
    opened = catalog.session(tables, consistency=consistency, as_of=as_of)
    check_published(opened, consistency, "in Spark")  # executors plan from snapshots
    return SessionViews(spark, catalog, opened, storage_options)


class SessionViews:
    """Made by `session`; a context manager. Views are dropped with it."""

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
        """The rows of a table `db.name` of the session. Raises NotFoundError for a table that it
        does not have, InvalidError once it is closed.
        """
        if self._is_closed:
            raise InvalidError(
                "session",
                found="a session that is closed, whose rows nobody keeps",
                expected="an open one",
                action="Open another one.",
            )
        found = self._session.table(text(name, "name"))
        reader = self._spark.read.format("widetable").options(**self._storage)
        reader = reader.option(PATH, self._catalog.table(name).path)
        if found.snapshot_id is not None:
            reader = reader.option(SNAPSHOT_ID, str(found.snapshot_id))
        elif self.barrier is not None:
            reader = reader.option(BARRIER, str(self.barrier))
        return reader.load()

    def create_views(self, tables: Sequence[str] | Mapping[str, str]) -> list[str]:
        """Temporary views of tables, named as these are without their database, or by a mapping of view to table.
        Returns their names. All are looked up before the first is made, so an error leaves none;
        one of the same name is replaced.
        """
        if not isinstance(tables, Mapping):
            listed = names(tables, "tables")
            tables = {name.rpartition(".")[2]: name for name in listed}
            if len(tables) < len(listed):
                raise InvalidError(
                    "tables",
                    found=f"two with the same name: {', '.join(listed)}",
                    expected="a view of its own for each",
                    action="Give a mapping of view to table.",
                )
        made = {_view_name(view): self.table(name) for view, name in tables.items()}
        for view, rows in made.items():
            rows.createOrReplaceTempView(f"`{view}`")
            self._views.append(view)
        return list(made)

    def close(self) -> None:
        """Drop the views, and let go of what they read. May be called twice."""
        self._is_closed = True
        views, self._views = self._views, []
        try:
            for view in views:
                self._spark.catalog.dropTempView(view)
        finally:
            self._session.close()


def _view_name(view: object) -> str:
    name = label(view, "view", _LONGEST_NAME_BYTES)
    if "`" in name:
        raise refused(view, "view", "a name without backticks")
    return name
