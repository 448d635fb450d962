"""The progress of an index. The index's own commits record it, so rows and progress are published together.

On disk: never change. A round is commit number n of the user `index/<base>`, with the digest

    <identity of the base>.<snapshot of the base that the index fits>.<snapshot of the index before>.<fingerprint>

The fingerprint covers the indexed columns with their field ids, and that snapshot itself. If it differs, columns were
altered or the base has lost its snapshots, and the index fits no snapshot. The index also fits no snapshot if a commit
other than the feeder's or a compaction has changed it since the round read it, as far as those snapshots still exist.

Raises InvalidError for an index of another table that had the name of the base, what reading snapshots raises, and
StorageError.

    index    4 round 7: "<base>.12.3.<..>"    5 compaction    6 a client's append
    as of 5: it fits snapshot 12 of the base    as of 6: it only claims to; the next round rebuilds it
"""

from __future__ import annotations

from typing import Final, NamedTuple

from widetable.commit.snapshots.committed import last_of, users_of
from widetable.commit.transaction.touched_keys import touches_rows
from widetable.derive.changes.column_ids import column_ids
from widetable.derive.changes.fingerprint import fingerprint_of, snapshot_facts
from widetable.errors import InvalidError, NotFoundError
from widetable.format.snapshot import Snapshot
from widetable.operations.handle.neighbour import name_of
from widetable.operations.handle.open_table import OpenTable
from widetable.schema.derived_options import IndexOption
from widetable.schema.table_schema import TableSchema

_FIELDS: Final = 4


class IndexProgress(NamedTuple):
    """The progress of an index as of one of its snapshots.

    number: the number of the last round, 0 before the first. read_id: the index's snapshot that records it, 0 for
    none. source_id: the base's snapshot that the index fits, None if it was never fed or fits no snapshot any more.
    claimed_id: the snapshot that the last round recorded, even if another commit has changed the index since.
    """

    number: int = 0
    read_id: int = 0
    source_id: int | None = None
    claimed_id: int | None = None


def user_of(base: OpenTable) -> str:
    """Return the commit user of the feeder."""
    return f"index/{name_of(base)}"


def index_columns(option: IndexOption, base: TableSchema) -> list[str]:
    """Return the columns of the index; all of them are its key."""
    return [*option.columns, *(name for name in base.primary_keys if name not in option.columns)]


def index_progress(
    index: OpenTable, base: OpenTable, option: IndexOption, snapshot: Snapshot | None
) -> IndexProgress:
    """Return the progress of the index as of one of its snapshots."""
    if snapshot is None:
        return IndexProgress()
    last = last_of(users_of(snapshot, index._committer.last_commits.load), user_of(base))
    if last is None:
        return IndexProgress(0, snapshot.id)
    identity, *fields = (last.digest or "").rsplit(".", _FIELDS - 1)
    if identity != base._committer.identity:
        raise InvalidError(
            f"index at {index.path}",
            found=f"an index of a dropped table that had the name {name_of(base)!r}",
            expected="an index of the current table",
            action="Drop the index: the next maintain creates it again.",
        )
    nothing = IndexProgress(last.identifier, snapshot.id)
    if len(fields) != _FIELDS - 1 or not all(map(str.isdecimal, fields[:2])):
        return nothing
    try:
        source = base._committer.snapshots.load(int(fields[0]))
    except NotFoundError:
        return nothing
    if fields[2] != _fingerprint(base.schema, option, source):
        return nothing
    is_alone = _is_alone(index, user_of(base), last.identifier, int(fields[1]), snapshot)
    return nothing._replace(claimed_id=source.id, source_id=source.id if is_alone else None)


def digest_of(
    base: OpenTable, schema: TableSchema, option: IndexOption, read_id: int, source_id: int
) -> str:
    """Return the digest of a round after which the index fits `source_id`. schema: the base's, read before any row."""
    source = base._committer.snapshots.load(source_id)
    printed = _fingerprint(schema, option, source)
    return f"{base._committer.identity}.{source_id}.{read_id}.{printed}"


def _is_alone(index: OpenTable, user: str, number: int, read_id: int, latest: Snapshot) -> bool:
    """Return whether no existing snapshot after `read_id`, other than the round's own, changed rows of the index."""
    state = index._state()
    for id in range(read_id + 1, latest.id + 1):
        try:
            snapshot = latest if id == latest.id else index._committer.snapshots.load(id)
        except NotFoundError:
            continue
        is_round = (snapshot.commit_user, snapshot.commit_identifier) == (user, number)
        if not is_round and touches_rows(snapshot, state):
            return False
    return True


def _fingerprint(schema: TableSchema, option: IndexOption, source: Snapshot) -> str:
    ids = column_ids(schema, index_columns(option, schema))
    return fingerprint_of([ids, snapshot_facts(source)])
