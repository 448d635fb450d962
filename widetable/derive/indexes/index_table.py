"""Index tables: which rows of a table have a value in columns that are not its key.

    base   k | city            index (option `index.city = db.by_city`)   city, k | nothing else
           1 | Oslo                   key: the indexed columns, then the base's key
           2 | Bergen                 bucket key: the indexed columns, so one value lies in one bucket

A table of engine `deduplicate` whose option `widetable.index-of` names the base; nobody else writes it. Rows with a
null in an indexed column are not in it. It is fed by what differs between two snapshots of the base (row_changes), and
each round says which one the index fits since (index_progress; property `widetable.index.source`). A first round, and
one that cannot know what the index holds, overwrites all of it.

Raises what reading the base and writing the index raises.

    base's row 1 moves to Rome      index: -D (Oslo, 1), +I (Rome, 1)      one commit, which says: fits s
    ── killed here ──               the consumer of the index still stands at s0, and keeps (s0, s] in vain
    next look at the base           finds that the index fits s, moves the consumer, and is done

The snapshot that the index fits stays in the base for as long as the consumer stands there, so
that a lookup finds both.
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
from widetable.schema.new_schema import new_schema
from widetable.schema.table_schema import ROW_KIND_COLUMN, TableSchema
from widetable.storage.paths import TablePaths
from widetable.write.commit_message import CommitMessage

_BUCKETS_OF_DYNAMIC: Final = 8
SOURCE: Final = "widetable.index.source"
_log = logging.getLogger("widetable")


class IndexRound(NamedTuple):
    """source_id: the base's snapshot that the index fits now. rows: that were written."""

    source_id: int
    rows: int


def find_index(base: OpenTable, option: IndexOption) -> OpenTable | None:
    """The index; None where nobody has made it. Raises InvalidError for a table that is not this index.

    It is this one by its option, and by its columns as the base has them now: with a column
    whose type was changed since, it is refused as well.
    """
    schema = base.schema
    index = OpenTable(path_of(base, option.table), base._file_io)
    if not SchemaStore(base._file_io, TablePaths(index.path)).ids():
        return None
    wanted = schema.arrow_schema(index_columns(option, schema))
    of = index.schema.typed_options.get(join_options.INDEX_OF)
    found = index.schema.arrow_schema()
    if (of, found.names, found.types) == (name_of(base), wanted.names, wanted.types):
        return index
    what = "a table that is no index" if of is None else f"an index of {of}"
    raise InvalidError(
        f"option {option.key!r} of {name_of(base)!r}",
        found=f"{option.table}, {what}, with the columns {_printed(found)}",
        expected=f"an index of {name_of(base)} with the columns {_printed(wanted)}",
        action="Name a table that is not there, or drop this one if it is an index that nobody needs as it is: it is "
        "made anew.",
    )


def _printed(columns: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in columns)


def buckets_of_derived(base: TableSchema) -> int:
    """How many buckets a table gets that is made of this one: as many; some, where those are dynamic."""
    return base.num_buckets if base.num_buckets > 0 else _BUCKETS_OF_DYNAMIC


def made_index(base: OpenTable, option: IndexOption) -> OpenTable:
    """The index, which is made if it is not there.
    Of several that make it one publishes schema 0, by an exclusive create; all look again at
    what is there then.
    """
    schema = base.schema
    columns = index_columns(option, schema)
    options = {
        opt.BUCKET.key: str(buckets_of_derived(schema)),
        opt.BUCKET_KEY.key: ",".join(option.columns),
        join_options.INDEX_OF.key: name_of(base),
        opt.FSYNC.key: str(schema.typed_options.get(opt.FSYNC)).lower(),
    }
    if retention.LOOKUP_PIN_RETENTION.key in schema.options:
        options[retention.LOOKUP_PIN_RETENTION.key] = schema.options[
            retention.LOOKUP_PIN_RETENTION.key
        ]
    made = new_schema(schema.arrow_schema(columns), primary_key=columns, options=options)
    path = path_of(base, option.table)
    while (index := find_index(base, option)) is None:
        SchemaStore(base._file_io, TablePaths(path)).publish(made)
    return index


def feed_index(base: OpenTable, option: IndexOption) -> IndexRound | None:
    """Bring the index to the newest snapshot of the base. None: it is there, or somebody else is at it.

    The lease spares work. Two feeders at once are safe: the round has one number, and of two
    commits of it one is in.
    """
    if base._committer.snapshots.latest_id() is None:
        return None
    index = made_index(base, option)
    lease = f"{base._paths.service_dir}/widetable-index-lease-{option.table}"
    with held_lease(base._state(), path=lease) as is_ours:
        if not is_ours:
            return None
        progress = index_progress(index, base, option, index._committer.snapshots.latest())
        # After it: so it is never older.
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
    """Let a consumer hold the snapshot that the index fits and all later ones, for lookups and the next round."""
    name = f"index-{option.table}"
    if source_id is not None and base._consumers.next_snapshot(name) != source_id:
        base._consumers.record(name, source_id)


def _fed(
    base: OpenTable, index: OpenTable, option: IndexOption, progress: IndexProgress, latest_id: int
) -> int | None:
    """How many rows were written; None: somebody else was first.

    By difference where the index is known to fit a snapshot that is kept, else by overwriting
    it with all rows: also where rows of that snapshot cannot be read, which a repair may have left behind. A
    NotFoundError although that snapshot is there is of something else, and raised.
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
                    WarningCode.DERIVED_COMPARED_WHOLE,
                    "the index %s is made anew of all rows: %s",
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
    if not done.committed:  # another feeder was first with the same
        discard(index, messages)
    return done.rows


def _index_rows(
    base: OpenTable, columns: list[str], after_id: int | None, until_id: int
) -> Iterator[pa.RecordBatch]:
    """-D for what is not in the index any more, +I for what is new there.
    A row whose indexed columns became null only goes. All columns are the key, so there is no
    update. after_id: None for all rows of the base, as +I.
    """
    for before, after in changed_rows(base, after_id, until_id, columns):
        same = equal_rows(before, after)
        for rows, kind in ((before, "-D"), (after, "+I")):
            chosen = rows.filter(pa.array(~same)).drop_null()
            kinds = pa.repeat(pa.scalar(kind), chosen.num_rows)
            yield from chosen.append_column(ROW_KIND_COLUMN, kinds).to_batches()
