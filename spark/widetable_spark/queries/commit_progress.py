"""What a streaming query's commits did: rows, files, retries and snapshot per micro-batch.

A Python sink cannot add numbers to Spark's own progress. So a listener joins Spark's progress (query id, batch id) with
the snapshot that has them: the committer notes rows, files and lost races in the snapshot's properties.

The snapshot of a batch is looked up by its commit user and identifier, which are the query's id and the batch id unless
option `commit-user` says otherwise. That reads the table once per batch, in Spark's listener thread, for which all
listeners of the session wait. A batch whose snapshot has expired by then is not recorded.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from widetable import Table
from widetable.connector import arguments, checked_storage_options

_log = logging.getLogger("widetable.spark")

_KEPT_COMMITS: Final = 1000


@dataclass(frozen=True)
class CommitProgress:
    """One committed micro-batch.

    `CommitProgressListener` makes it. A count is 0 where the snapshot does not give it.

    Parameters
    ----------
    query_name : str or None
        The name of the query. None: it has none.
    commit_user : str
        The user of the commit: the query's id, unless option `commit-user` says otherwise.
    batch_id : int
        Spark's number of the batch, which is the identifier of the commit.
    snapshot_id : int
        The snapshot with the batch's rows.
    rows : int
        Rows that the tasks read from the source.
    files : int
        New files at level 0.
    retries : int
        How often the commit lost a snapshot id to another one and was retried.
    batch_duration_millis : int
        Milliseconds of the whole trigger as Spark measured it, with planning and Spark's own log.

    Examples
    --------
    >>> import widetable_spark
    >>> progress = widetable_spark.CommitProgress("orders", "etl", 7, 12, 1000, 2, 0, 850)
    >>> progress.snapshot_id
    12
    """

    query_name: str | None
    commit_user: str
    batch_id: int
    snapshot_id: int
    rows: int
    files: int
    retries: int
    batch_duration_millis: int


class CommitProgressListener(StreamingQueryListener):
    """A listener of Spark that records the commits of streaming queries into a table.

    Add it with `spark.streams.addListener`. `commits` holds the last 1,000 commits at most, oldest first. Batches
    without rows commit nothing and are not recorded.

    Parameters
    ----------
    path : str or os.PathLike
        The path or URL of the table.
    commit_user : str, default None
        The query's option `commit-user`. None: the query does not set it.
    on_commit : function, default None
        A function that Spark's listener thread calls with each `CommitProgress`. None: nothing is called.
    storage_options : dict of str to str, default None
        Options of an object store, as in `widetable.Catalog`. None: the environment says them.

    Raises
    ------
    InvalidError
        An argument has a wrong type.

    Examples
    --------
    >>> import widetable_spark
    >>> listener = widetable_spark.CommitProgressListener("warehouse/shop.db/orders")
    >>> spark.streams.addListener(listener)
    >>> list(listener.commits)
    []
    >>> spark.streams.removeListener(listener)
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        commit_user: str | None = None,
        on_commit: Callable[[CommitProgress], None] | None = None,
        *,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self._path = arguments.path(path, "path")
        self._commit_user = (
            None if commit_user is None else arguments.text(commit_user, "commit_user")
        )
        self._on_commit = None if on_commit is None else arguments.called(on_commit, "on_commit")
        storage = checked_storage_options(storage_options)
        self._storage = None if storage is None else storage.to_dict()
        self.commits: deque[CommitProgress] = deque(maxlen=_KEPT_COMMITS)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Do nothing when a query starts.

        Parameters
        ----------
        event : QueryStartedEvent
            Spark's event.
        """

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Do nothing when a query ends.

        Parameters
        ----------
        event : QueryTerminatedEvent
            Spark's event.
        """

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Look up the snapshot of a batch, and record its commit.

        Parameters
        ----------
        event : QueryProgressEvent
            Spark's event, one per micro-batch. A batch whose snapshot has expired is not recorded.

        Raises
        ------
        NotFoundError
            There is no such table.
        """
        progress = event.progress
        user = self._commit_user or str(progress.id)
        table = Table.open(self._path, storage_options=self._storage)
        snapshot = table.find_commit(user, int(progress.batchId))
        if snapshot is None:
            return
        noted = snapshot.properties
        commit = CommitProgress(
            query_name=progress.name,
            commit_user=user,
            batch_id=int(progress.batchId),
            snapshot_id=snapshot.id,
            rows=int(noted.get("widetable.rows", "0")),
            files=int(noted.get("widetable.files", "0")),
            retries=int(noted.get("widetable.retries", "0")),
            batch_duration_millis=int(progress.batchDuration),
        )
        _log.info("committed %s", commit)
        self.commits.append(commit)
        if self._on_commit is not None:
            self._on_commit(commit)
