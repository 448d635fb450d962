"""Index tables find the keys of the rows that have given values in columns that are not the key.

    base   k | city            index (option `index.city = db.by_city`)   city, k | nothing else
           1 | Oslo                   key: the indexed columns, then the base's key
           2 | Bergen                 bucket key: the indexed columns, so one value lies in one bucket

An index is a table of engine `deduplicate` whose option `widetable.index-of` names the base; only its feeder writes it.
Rows with a null in an indexed column are not in it. The feeder writes the difference between two snapshots of the base
(row_changes), and each round records which snapshot the index then fits (index_progress; property
`widetable.index.source`). The first round, and a round that cannot know the content of the index, overwrites all of it.

Raises what reading the base and writing the index raises.

    base's row 1 moves to Rome      index: -D (Oslo, 1), +I (Rome, 1)      one commit, which records: fits s
    ── killed here ──               the consumer of the index is still at s0, and keeps (s0, s] unnecessarily
    next round                      reads that the index fits s, moves the consumer, and is done

The consumer keeps the snapshot that the index fits in the base, so that a lookup can read both.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, NamedTuple

import pyarrow as pa

from widetable.commit.snapshots.schema_store import SchemaStore
from widetable.commit.transaction.commit_identity import Identity
from widetable.commit.transaction.commit_result import CommitResult
from widetable.derive.changes.derived_table import made_table
from widetable.derive.changes.row_changes import changed_rows
from widetable.derive.changes.row_difference import equal_rows
from widetable.derive.indexes.index_progress import (
    IndexProgress,
    digest_of,
    index_columns,
    index_progress,
    user_of,
)
from widetable.errors import ConflictError, DamagedError, InvalidError, NotFoundError
from widetable.messages.warning_code import WarningCode, warn
from widetable.operations.handle.held_lease import held_lease
from widetable.operations.handle.neighbour import name_of, path_of
from widetable.operations.handle.newest_snapshot import held
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.writes.table_commit import append_messages, discard, overwrite_by
from widetable.operations.writes.table_write import any_writer
from widetable.schema import join_options
from widetable.schema import options as opt
from widetable.schema import retention_options as retention
from widetable.schema.derived_options import IndexOption
from widetable.schema.table_schema import ROW_KIND_COLUMN
from widetable.storage.paths import TablePaths
from widetable.write.commit_message import CommitMessage

SOURCE: Final = "widetable.index.source"
_log = logging.getLogger("widetable")


class IndexRound(NamedTuple):
    """The result of a round. source_id: the base's snapshot that the index fits now. rows: the number written."""

    source_id: int
    rows: int


def find_index(base: OpenTable, option: IndexOption) -> OpenTable | None:
    """Return the index, or None if it does not exist. Raises InvalidError for a table that is not this index.

    The option of the table and its columns must fit the base as it is now. So an index is refused, too, after the type
    of a column has changed in the base.
    """
    schema = base.schema
    index = OpenTable(path_of(base, option.table), base._file_io)
    if not SchemaStore(base._file_io, TablePaths(index.path)).ids():
        return None
    expected = schema.arrow_schema(index_columns(option, schema))
    of = index.schema.typed_options.get(join_options.INDEX_OF)
    actual = index.schema.arrow_schema()
    if (of, actual.names, actual.types) == (name_of(base), expected.names, expected.types):
        return index
    what = "a table that is no index" if of is None else f"an index of {of}"
    raise InvalidError(
        f"option {option.key!r} of {name_of(base)!r}",
        found=f"{option.table}, {what}, with the columns {_printed(actual)}",
        expected=f"an index of {name_of(base)} with the columns {_printed(expected)}",
        action="Name a table that does not exist. Or, if this one is an index that nobody else uses, drop it: the next "
        "maintain creates it again.",
    )


def _printed(columns: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in columns)


def made_index(base: OpenTable, option: IndexOption) -> OpenTable:
    """Return the index; create it if it does not exist."""
    schema = base.schema
    columns = index_columns(option, schema)
    options = {
        opt.BUCKET_KEY.key: ",".join(option.columns),
        join_options.INDEX_OF.key: name_of(base),
    }
    if retention.LOOKUP_PIN_RETENTION.key in schema.options:
        options[retention.LOOKUP_PIN_RETENTION.key] = schema.options[
            retention.LOOKUP_PIN_RETENTION.key
        ]
    path, fields = path_of(base, option.table), schema.arrow_schema(columns)
    return made_table(base, path, fields, columns, options, partial(find_index, base, option))


def feed_index(base: OpenTable, option: IndexOption) -> IndexRound | None:
    """Bring the index to the newest snapshot of the base. Return None if it is there, or another feeder is at work.

    The lease only saves work. Two feeders at once are safe: a round has one number, so only one of two commits of it is
    published.
    """
    if base._committer.snapshots.latest_id() is None:
        return None
    index = made_index(base, option)
    lease = f"{base._paths.service_dir}/widetable-index-lease-{option.table}"
    with held_lease(base._state(), path=lease) as is_ours:
        if not is_ours:
            return None
        progress = index_progress(index, base, option, index._committer.snapshots.latest())
        # Read after the progress, so that it is never older.
        latest_id = base._committer.snapshots.latest_id()
        if latest_id is None or progress.source_id == latest_id:
            # A feeder may have been killed after its commit.
            _keep_snapshots(base, option, progress.source_id)
            return None
        with held(base._state(), latest_id):
            rows = _fed(base, index, option, progress, latest_id)
            if rows is None:
                return None
            _keep_snapshots(base, option, latest_id)
    return IndexRound(latest_id, rows)


def _keep_snapshots(base: OpenTable, option: IndexOption, source_id: int | None) -> None:
    """Let a consumer keep the snapshot that the index fits and all later ones, for lookups and the next round."""
    name = f"index-{option.table}"
    if source_id is not None and base._consumers.next_snapshot(name) != source_id:
        base._consumers.record(name, source_id)


def _fed(
    base: OpenTable, index: OpenTable, option: IndexOption, progress: IndexProgress, latest_id: int
) -> int | None:
    """Write one round; return the number of rows, or None if another feeder was first.

    If the index fits a snapshot that still exists, the round writes the difference. Otherwise, or if rows of that
    snapshot cannot be read (a repair may leave that behind), it overwrites the index with all rows. A NotFoundError
    although that snapshot exists has another cause, and is raised.
    """
    last_id = progress.source_id
    digest = digest_of(base, base.schema, option, progress.read_id, latest_id)
    by = Identity(user_of(base), progress.number + 1, digest)
    columns, properties = index_columns(option, base.schema), {SOURCE: str(latest_id)}

    def committed(after_id: int | None, commit: Callable[..., CommitResult]) -> int:
        with any_writer(index, [*columns, ROW_KIND_COLUMN]) as writer:
            writer.write(_index_rows(base, columns, after_id, latest_id))
            messages = writer.finish()
        how = partial(commit, index, messages, by, properties=properties)
        return _committed_files(index, messages, how)

    try:
        if last_id is not None:
            try:
                return committed(last_id, append_messages)
            except NotFoundError:
                if base._file_io.exists(base._paths.snapshot(last_id)):
                    raise
            except DamagedError as damage:
                warn(
                    _log,
                    WarningCode.DERIVED_COMPARED_FULLY,
                    "the index %s is rebuilt from all rows: %s",
                    index.path,
                    damage,
                )
        return committed(None, partial(overwrite_by, whole_table=True))
    except (ConflictError, InvalidError):
        newest = index_progress(index, base, option, index._committer.snapshots.latest())
        if newest.number == progress.number:
            raise
        return None


def _committed_files(
    index: OpenTable, messages: list[CommitMessage], commit: Callable[[], CommitResult]
) -> int:
    try:
        done = commit()
    except (ConflictError, InvalidError):
        discard(index, messages)
        raise
    if not done.committed:  # another feeder has published this round
        discard(index, messages)
    return done.rows


def _index_rows(
    base: OpenTable, columns: list[str], after_id: int | None, until_id: int
) -> Iterator[pa.RecordBatch]:
    """Yield -D for rows that leave the index and +I for rows that enter it.

    All columns are the key, so there is no update. A row whose indexed columns become null only leaves. after_id: None
    yields all rows of the base as +I.
    """
    for before, after in changed_rows(base, after_id, until_id, columns):
        same = equal_rows(before, after)
        for rows, kind in ((before, "-D"), (after, "+I")):
            chosen = rows.filter(pa.array(~same)).drop_null()
            kinds = pa.repeat(pa.scalar(kind), chosen.num_rows)
            yield from chosen.append_column(ROW_KIND_COLUMN, kinds).to_batches()
