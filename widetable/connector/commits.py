"""Commits the numbered batches of a query into one table: each once, however often the engine replays it.

    batch_commits    a batch is one commit; its number is the identifier, the query or a name the user
    root_commits     a batch belongs to the barrier of the clock, under a name that is registered while batches come
    JobWriter        the same with a registration of the caller's, and with tables as sources

A batch that is in the table already commits nothing. A batch with another digest under the same number is refused, and
so are batches of an earlier query. Raises InvalidError and ConflictError for these before anything is published, and
what a commit raises.

    batch 7: messages ─► commit(messages, 7) ─► a snapshot      killed before: replayed, the messages are orphans
    batch 7 again        commit(messages, 7) ─► nothing         its new files are orphans, which the engine discards
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from widetable.commit.transaction.commit_result import CommitResult
from widetable.operations.barriers.job_writer import JobBatch, JobWriter
from widetable.operations.handle.compaction_threads import wait_for_changelogs
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.queries.double_count import warn_of_new_query
from widetable.operations.writes.table_commit import commit_append, commit_overwrite
from widetable.schema.options import LOOKUP_WAIT
from widetable.storage.paths import table_name
from widetable.topology.job_claim import WriterClaim
from widetable.write.commit_message import CommitMessage


class BatchCommits(Protocol):
    """The commits of one query into one table. `batch_commits`, `root_commits` and `JobWriter` make them.

    Only the process that commits makes it, and one thread uses it. It keeps nothing open.
    """

    @property
    def table(self) -> OpenTable:
        """Return the table that the batches go into."""

    def commit(self, messages: list[CommitMessage], batch: JobBatch, /) -> CommitResult:
        """Commit a batch, unless the table has it.

        Parameters
        ----------
        messages : list of CommitMessage
            What the tasks of the batch have written; none for a batch without rows.
        batch : JobBatch
            The batch.

        Returns
        -------
        CommitResult
            What was committed; `committed` is False for a replay.

        Raises
        ------
        InvalidError
            Another batch has the number, or the messages do not fit the table. No snapshot has the files.
        ConflictError
            Another query has taken over, or other commits were faster. Keep the files: the batch may come again.
        StorageError
            The storage failed. The commit may have happened: keep the files, and commit the batch again.
        """


@dataclass(frozen=True)
class _PlainCommits:
    """The commits into a table without barriers. is_new: whether to warn when the query begins, as its rows may count
    twice.
    """

    table: OpenTable
    user: str
    columns: Sequence[str]
    is_overwrite: bool
    is_new: bool

    def commit(self, messages: list[CommitMessage], batch: JobBatch, /) -> CommitResult:
        by = self.user, batch.number
        if self.is_overwrite:
            return commit_overwrite(
                self.table,
                messages,
                *by,
                whole_table=True,
                watermark=batch.watermark,
                digest=batch.digest,
            )
        if self.is_new and batch.number == 0:
            warn_of_new_query(self.table, self.user, self.columns)
        return commit_append(
            self.table, messages, *by, watermark=batch.watermark, digest=batch.digest
        )


def batch_commits(
    table: OpenTable,
    run: str,
    columns: Sequence[str],
    *,
    user: str | None = None,
    overwrite: bool = False,
) -> BatchCommits:
    """Return the commits of a query into a table that is under no barriers.

    Parameters
    ----------
    table : OpenTable
        The table.
    run : str
        The id of the query, which stays when it is started again; its batches count under it.
    columns : list of str
        The columns that it writes.
    user : str, default None
        A name under which the batches count in place of the run. None: the run.
    overwrite : bool, default False
        Whether each batch replaces all rows.

    Returns
    -------
    BatchCommits
        The commits.
    """
    return _PlainCommits(table, user or run, columns, overwrite, is_new=user is None)


@dataclass(frozen=True)
class _RootCommits:
    """The commits of a root with one table. The other fields are those of `root_commits`."""

    table: OpenTable
    name: str
    run: str
    columns: Sequence[str]
    user: str | None

    def commit(self, messages: list[CommitMessage], batch: JobBatch, /) -> CommitResult:
        table, columns = self.table, tuple(self.columns)
        place = table_name(table.path)
        claim = WriterClaim(table, place[1] if place else table.path)
        claim.renew(self.name, columns, self.run)
        job = JobWriter(table, self.name, self.run, columns, claim.register, self.user)
        result = job.commit(messages, batch)
        if table.schema.typed_options.get(LOOKUP_WAIT):
            wait_for_changelogs(table.path)
        return result


def root_commits(
    table: OpenTable, name: str, run: str, columns: Sequence[str], *, user: str | None = None
) -> BatchCommits:
    """Return the commits of a query that is a root with one table under barriers.

    Each commit reads the state of the table again, so a query that began before a revision may continue. It renews the
    registration, and ends when the changelog is made where the table waits for it: the engine
    may end the process after it. Nothing is renewed between commits, so a query without a batch for a minute is not
    seen as alive; its table keeps its columns for it all the same.

    Parameters
    ----------
    table : OpenTable
        The table.
    name : str
        The name of the root.
    run : str
        The id of the query, which stays when it is started again.
    columns : list of str
        The columns that it writes besides the key.
    user : str, default None
        The commit user. None: the run.

    Returns
    -------
    BatchCommits
        The commits.
    """
    return _RootCommits(table, name, run, columns, user)
