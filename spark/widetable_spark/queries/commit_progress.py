"""What a streaming query's commits did: rows, files, retries and snapshot per micro-batch.

A Python sink cannot add numbers to Spark's own progress, so a listener joins Spark's progress
(query id, batch id) with the
snapshot that carries them: the committer notes rows, files and lost races in the snapshot's properties.

The snapshot of a batch is looked up by its commit user and identifier, which are the query's id
and the batch id unless option `commit-user` says otherwise. That is a look at the table per
batch, in Spark's listener thread, for which all listeners of the session wait. A batch whose
snapshot has expired by then is not seen.
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
from widetable.connector import called, checked_storage_options, text
from widetable.connector import path as checked_path

_log = logging.getLogger("widetable.spark")

_KEPT_COMMITS: Final = 1000


@dataclass(frozen=True)
class CommitProgress:
    """One committed micro-batch. rows: as read from the source by the tasks; files: new level-0
    files; retries: lost races for a snapshot id. Each is 0 where the snapshot does not say it.

    query_name: None for a query without one. batch_duration_millis: of the whole trigger as
    Spark has measured it, planning and its own log included.
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
    """Add it with `spark.streams.addListener(CommitProgressListener(path))`; `commits` holds what
    was seen last, oldest first: 1,000 at most, so that a query may run for years.

    path: the table; commit_user: only if the query sets the option of that name; on_commit: called
    from Spark's listener thread; storage_options: of an object store, as in `widetable.Catalog`.
    Batches without rows commit nothing and are not seen.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        commit_user: str | None = None,
        on_commit: Callable[[CommitProgress], None] | None = None,
        *,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self._path = checked_path(path, "path")
        self._commit_user = None if commit_user is None else text(commit_user, "commit_user")
        self._on_commit = None if on_commit is None else called(on_commit, "on_commit")
        given = checked_storage_options(storage_options)
        self._storage = None if given is None else given.to_dict()
        self.commits: deque[CommitProgress] = deque(maxlen=_KEPT_COMMITS)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Nothing to do."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Nothing to do."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress = event.progress
        user = self._commit_user or str(progress.id)
        table = Table.open(self._path, storage_options=self._storage)
        found = table.find_commit(user, int(progress.batchId))
        if found is None:
            return
        noted = found.properties
        commit = CommitProgress(
            query_name=progress.name,
            commit_user=user,
            batch_id=int(progress.batchId),
            snapshot_id=found.id,
            rows=int(noted.get("widetable.rows", "0")),
            files=int(noted.get("widetable.files", "0")),
            retries=int(noted.get("widetable.retries", "0")),
            batch_duration_millis=int(progress.batchDuration),
        )
        _log.info("committed %s", commit)
        self.commits.append(commit)
        if self._on_commit is not None:
            self._on_commit(commit)
