"""A table: write, compact, scan, changes, and its history. The public face; the work is done by the packages
below.

Raises what the packages below raise: InvalidError for wrong data or arguments, NotFoundError for
what is not there, UnsupportedError for tables that need what this version does not honour,
ConflictError, DamagedError, StorageError.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from widetable import options as opt
from widetable.arguments import flag, instance, items, text, whole_number
from widetable.commit.commit_identity import Identity
from widetable.commit.committer import CommitResult
from widetable.errors import ConflictError, InvalidError
from widetable.format.snapshot import COMMIT_KIND_APPEND, COMMIT_KIND_OVERWRITE, Snapshot
from widetable.operations.compaction import compact_after_append, compact_after_replay, compact_all
from widetable.operations.compaction_threads import wait_for_compactions
from widetable.operations.find_commit import find_commit
from widetable.operations.lookup import lookup_rows
from widetable.operations.lookup_caches import caches_of
from widetable.operations.snapshot_choice import choose_snapshot
from widetable.operations.supported import check_readable, check_writable
from widetable.operations.table_changes import TableChanges
from widetable.operations.unattended import warn_unattended
from widetable.read.filters import parse
from widetable.read.scan import TableScan
from widetable.schema import TableSchema
from widetable.storage.file_io import FileIO, checked_file_io
from widetable.storage.locate import locate
from widetable.write.commit_message import CommitMessage
from widetable.write.discard import discard, discard_files
from widetable.write.row_source import RowSource, row_source
from widetable.write.sequence import SequenceAllocator
from widetable.write.table_writer import TableWriter
from widetable.write.write_batch import ROW_KIND_COLUMN, BatchNormalizer, write_columns

# What one commit may be written by.
MOST_TASKS: Final = 2**31 - 1


class Table(TableChanges):
    """Made by `Catalog` or `Table.open`. Picklable; holds nothing open; one object may be used by
    several threads.
    """

    __module__ = "widetable"

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, file_io: FileIO | None = None) -> Table:
        """The table at a path or file: URL. Raises NotFoundError when the directory is no table.

        file_io: another storage than the one that the path names.
        """
        located, root = locate(path)
        file_io = checked_file_io(file_io)
        table = cls(root, located if file_io is None else file_io)
        if file_io is None and not table.schema.typed_options.get(opt.FSYNC):
            table = cls(root, locate(path, fsync=False)[0])
        table._committer.schemas.latest()
        return table

    def __repr__(self) -> str:
        return f"Table({self._path!r})"

    @property
    def arrow_schema(self) -> pa.Schema:
        """The newest schema's columns, as scans give them and writes take them."""
        return self.schema.arrow_schema()

    # Writing

    def write(
        self,
        data: Any,
        commit_user: str | None = None,
        commit_identifier: int | None = None,
        row_kind: str = ROW_KIND_COLUMN,
        *,
        digest: str | None = None,
        replay: bool = False,
    ) -> CommitResult:
        """Upsert rows in one commit, and compact the touched buckets where that is due (unless
        `write-only`).

        data: Arrow data (a table, batches, a reader, which is streamed; polars, DuckDB and whoever else has the Arrow
        C stream), a frame of pandas (an index without a name is not written), a dict of columns, a list of dicts; or
        an iterable of Arrow data or frames. Its columns are what it updates, the primary key among them: of dicts, a
        name that none has is not written, one that some have is null in the others. Arrow data is taken without loss
        only; the floats of Python, numpy and pandas are rounded to FLOAT, and their NaN is null in other columns.
        row_kind: the name of an optional column of +I, -U, +U, -D. Without rows nothing is committed. The result says
        what was committed; `committed` is False when nothing was.

        commit_user, commit_identifier: give both for exactly-once; identifiers of a user grow. One
        that comes again commits nothing, but gets the lookup changelog that its writer may not have
        come to. digest: a text of what the commit is made of, such as a hash. The last identifier
        of a user comes again unless its digest is another one; a lower one only with its own digest
        or with replay=True, by which the caller says that it is in. InvalidError otherwise: two
        jobs have one commit user, or one has lost its place.
        """
        by = Identity.of(commit_user, commit_identifier, digest, replay)
        commit = partial(self.commit_append, digest=digest, replay=replay)
        return self._write(
            COMMIT_KIND_APPEND,
            data,
            by,
            row_kind,
            lambda messages: commit(messages, commit_user, commit_identifier),
        )

    def overwrite(
        self,
        data: Any,
        commit_user: str | None = None,
        commit_identifier: int | None = None,
        row_kind: str = ROW_KIND_COLUMN,
        *,
        whole_table: bool = False,
        digest: str | None = None,
        replay: bool = False,
    ) -> CommitResult:
        """Replace rows by those of `data`, in one commit: in the partitions that it has, or in the
        whole table.

        The whole table is replaced with whole_table, when it has no partitions, or with option
        `dynamic-partition-overwrite` = false. Otherwise as `write`. Readers of changes do not see what went; with
        producer lookup the new rows reach them as +I, also those of keys that they have: let them start anew.
        """
        by = Identity.of(commit_user, commit_identifier, digest, replay)
        commit = partial(self.commit_overwrite, digest=digest, replay=replay)
        whole_table = flag(whole_table, "whole_table")
        return self._write(
            COMMIT_KIND_OVERWRITE,
            data,
            by,
            row_kind,
            lambda messages: commit(messages, commit_user, commit_identifier, whole_table),
        )

    def compact(self, full: bool = False) -> CommitResult:
        """Merge sorted runs: those that the universal rules pick, or with `full` all, into the
        bottom level.

        The rows of the table stay the same. Raises ConflictError when other compactors were faster
        again and again; DamagedError when a bucket has a damaged file, after all others are done.
        """
        schema = self.schema
        check_writable(schema)
        done = compact_all(self._state(schema), self._committer, full=flag(full, "full"))
        if done.damage:
            raise done.damage[0]
        return done.result

    def _write(
        self,
        kind: str,
        data: Any,
        by: Identity,
        row_kind: str,
        commit: Callable[[list[CommitMessage]], CommitResult],
    ) -> CommitResult:
        """Write the files of one commit, and commit them. Files that are certainly not in are
        deleted.
        """
        row_kind = text(row_kind, "row_kind")
        found = self._committer.replay_of(by)
        if found is not None:
            self._finish_replayed(self.schema)
            return CommitResult(committed=False, snapshot_id=found.snapshot_id, kind=kind)
        messages = self._written(row_source(data, self.schema), row_kind)
        try:
            result = commit(messages)
        except (ConflictError, InvalidError):
            self.discard(messages)
            raise
        if not result.committed:
            # A commit of the same identifier was in first.
            self.discard(messages)
        return result

    def _written(self, source: RowSource, row_kind: str) -> list[CommitMessage]:
        if source.columns is None:
            return []
        with self.new_writer(source.columns, row_kind) as writer:
            writer.write(source.batches)
            return writer.finish()

    # Writing in several tasks

    def check_write_columns(self, arrow_schema: pa.Schema, row_kind: str = ROW_KIND_COLUMN) -> None:
        """Raises what `write` would raise for data of this schema, before there is any."""
        schema = self.schema
        check_writable(schema)
        instance(arrow_schema, pa.Schema, "arrow_schema")
        chosen = write_columns(schema, arrow_schema.names, text(row_kind, "row_kind"))
        empty = pa.RecordBatch.from_arrays(
            [pa.nulls(0, field.type) for field in arrow_schema], schema=arrow_schema
        )
        BatchNormalizer(schema, chosen, SequenceAllocator(0)).row_batch(empty)

    def sequence_base(self) -> int:
        """Where the sequence numbers of a commit that starts now begin; the same for all its tasks."""
        return self._committer.sequence_base()

    def new_writer(
        self,
        columns: Sequence[str],
        row_kind: str = ROW_KIND_COLUMN,
        task: int = 0,
        tasks: int | None = 1,
        sequence_base: int | None = None,
    ) -> TableWriter:
        """A writer of level-0 files for task `task` of `tasks`; its messages go to `commit_append`
        or `commit_overwrite`.

        columns: of the data that it will get. tasks: None when nobody knows how many there are.
        sequence_base: of `sequence_base()`, taken once for all tasks; by default taken now.
        """
        schema = self.schema
        check_writable(schema)
        columns, row_kind = items(columns, str, "columns"), text(row_kind, "row_kind")
        if tasks is not None:
            tasks = whole_number(tasks, "tasks", least=1, most=MOST_TASKS)
        task = whole_number(task, "task", least=0, most=(tasks or MOST_TASKS) - 1)
        base = self.sequence_base() if sequence_base is None else sequence_base
        base = whole_number(base, "sequence_base", least=0)
        return TableWriter(
            self._state(schema), columns, SequenceAllocator(base, task, tasks), row_kind
        )

    def commit_append(
        self,
        messages: Iterable[CommitMessage],
        commit_user: str | None = None,
        commit_identifier: int | None = None,
        properties: Mapping[str, str] | None = None,
        watermark: int | None = None,
        *,
        digest: str | None = None,
        replay: bool = False,
    ) -> CommitResult:
        """Commit the files of writers in one snapshot, then compact as `write` does.

        properties: texts to note in the snapshot. watermark: epoch milliseconds before which the
        writer expects no more rows; snapshots keep the highest. digest, replay: as in `write`. The
        files of messages that were in already stay; nobody names them.
        """
        messages = items(messages, CommitMessage, "messages")
        schema = self.schema  # before: nothing that follows the commit may fail it
        result = self._committer.append(
            messages,
            commit_user,
            commit_identifier,
            digest=digest,
            replay=replay,
            watermark=watermark,
            properties=properties,
        )
        if not messages:
            return result
        if not result.committed:
            self._finish_replayed(schema)
            return result
        state = self._state(schema)
        if schema.typed_options.get(opt.WRITE_ONLY):
            warn_unattended(state, self._committer, result.files)
        else:
            compact_after_append(state, self._committer, messages)
        return result

    def _finish_replayed(self, schema: TableSchema) -> None:
        """What a writer that was killed after its commit did not come to."""
        if not schema.typed_options.get(opt.WRITE_ONLY):
            compact_after_replay(self._state(schema), self._committer)

    def wait_for_compactions(self) -> None:
        """Returns when this process has done what it compacts behind its commits: large picks among older levels, and
        with `lookup-wait=false` changelogs. For who ends the process by force, or wants to read what they leave.
        Raises nothing; what fails there is in the log, and due again with the next commit.
        """
        wait_for_compactions(self._paths.root)

    def commit_overwrite(
        self,
        messages: Iterable[CommitMessage],
        commit_user: str | None = None,
        commit_identifier: int | None = None,
        whole_table: bool = False,
        watermark: int | None = None,
        *,
        digest: str | None = None,
        replay: bool = False,
    ) -> CommitResult:
        """Commit the files of writers in place of what is live in their partitions, or in the whole
        table (see `overwrite`). watermark, digest, replay: as in `commit_append`.
        """
        whole_table = flag(whole_table, "whole_table")
        Identity.of(commit_user, commit_identifier, digest, replay)  # before any file goes
        messages = items(messages, CommitMessage, "messages")
        schema = self.schema
        check_writable(schema)
        messages = self._without_changelog(messages)
        dynamic = bool(schema.partition_keys) and schema.typed_options.get(
            opt.DYNAMIC_PARTITION_OVERWRITE
        )
        scope = None if whole_table or not dynamic else {message.partition for message in messages}
        return self._committer.overwrite(
            scope,
            messages,
            commit_user,
            commit_identifier,
            digest=digest,
            replay=replay,
            watermark=watermark,
        )

    def _without_changelog(self, messages: Iterable[CommitMessage]) -> list[CommitMessage]:
        """Readers of changes pass overwrites by, as in Paimon: their changelog files go."""
        kept = []
        for message in messages:
            discard_files(self._state(self.schema), message.bucket_id, message.changelog_files)
            kept.append(replace(message, changelog_files=()))
        return kept

    def discard(self, messages: Iterable[CommitMessage]) -> None:
        """Delete the files of messages that were never given to a commit, or that it turned away. One that cannot be
        deleted is named in the log, and left to `remove_orphan_files`.
        """
        # Not self.schema: also when another table is there by now.
        state = self._state(self._committer.schemas.latest())
        discard(state, items(messages, CommitMessage, "messages"))

    def find_commit(self, commit_user: str, commit_identifier: int) -> Snapshot | None:
        """The snapshot that an append or overwrite of this user and identifier made; None when it
        is not in, or has expired.
        """
        return find_commit(self._committer, commit_user, commit_identifier)

    # Reading

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: str | pc.Expression | None = None,
        snapshot_id: int | None = None,
        timestamp: int | datetime | None = None,
        tag: str | None = None,
    ) -> TableScan:
        """The rows of one snapshot: `.to_arrow()`, `.to_batches()`, `.splits()`.

        columns: in the order wanted, None for all. filter: a SQL condition, or a pyarrow
        expression, over any columns. One of snapshot_id, timestamp (epoch milliseconds or datetime:
        the newest snapshot that is not younger) and tag chooses the snapshot, with the columns that
        the table had then; by default it is the newest one, with the newest columns.
        """
        snapshot = choose_snapshot(
            self._committer.snapshots, self._tags, snapshot_id, timestamp, tag
        )
        newest = self.schema
        schema = newest
        if snapshot is not None and any(
            choice is not None for choice in (snapshot_id, timestamp, tag)
        ):
            schema = self._committer.schemas.load(snapshot.schema_id)
        check_readable(schema)
        return TableScan(
            self._state(schema),
            self._committer.live_files,
            snapshot,
            columns,
            None if filter is None else parse(filter, schema),
            rescaled=self._is_rescaled(newest),
        )

    def lookup(
        self, keys: Any, columns: Sequence[str] | None = None, snapshot_id: int | None = None
    ) -> pa.Table:
        """The rows of keys: one row per key, in their order, all columns nullable.

        keys: rows of the primary key columns, partition columns included, in any form that `write`
        takes; for a key of one column also its values, as an Arrow array, a Series or Index of
        pandas, a list. Types are taken as writes take them; keys may come twice. columns: in the order
        wanted, None for all. A key that is not in the table, is deleted or has a null gives null in
        every column. snapshot_id: with the columns that the table had then; by default the newest
        snapshot, with the newest columns.
        """
        snapshot = choose_snapshot(
            self._committer.snapshots, self._tags, snapshot_id, timestamp=None, tag=None
        )
        newest = self.schema
        schema = newest
        if snapshot is not None and snapshot_id is not None:
            schema = self._committer.schemas.load(snapshot.schema_id)
        check_readable(schema)
        state = self._state(schema)
        return lookup_rows(
            state,
            self._committer.live_files,
            snapshot,
            keys,
            columns,
            caches_of(state),
            rescaled=self._is_rescaled(newest),
        )

    def _is_rescaled(self, newest: TableSchema) -> bool:
        """Whether the number of buckets was ever changed, which other clients allow."""
        load = self._committer.schemas.load
        return any(
            load(id).options.get(opt.BUCKET.key) != newest.options.get(opt.BUCKET.key)
            for id in range(newest.id)
        )
