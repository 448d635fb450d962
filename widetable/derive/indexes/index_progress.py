"""How far an index is: it stands in its own commits, so rows and progress are there at once.

On disk: never change. A round is commit number n of the user `index/<base>`, with the digest

    <identity of the base>.<snapshot of the base that the index fits>.<snapshot of the index before>.<fingerprint>

The fingerprint is of the indexed columns with their field ids, and of that snapshot itself: where it differs, columns
were altered or the base has lost its snapshots, and the index fits nothing. So it does where anybody but the feeder and
compactions has committed to it since it was read, as far as their snapshots are kept.

Raises InvalidError for an index of another table that had the name of the base, what reading snapshots raises, and
StorageError.

    index    4 round 7: "<base>.12.3.<..>"    5 compaction    6 a client's append
    as of 5: it fits snapshot 12 of the base    as of 6: it claims to, and nobody knows; the next round makes it anew
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
    """number: of the last round, 0 before the first. read_id: the index's snapshot that says so, 0 for none. source_id:
    the base's snapshot that the index fits; None for one that was never fed, or fits nothing any more. claimed_id: the
    same, whoever has changed the index since.
    """

    number: int = 0
    read_id: int = 0
    source_id: int | None = None
    claimed_id: int | None = None


def user_of(base: OpenTable) -> str:
    """The commit user of the feeder."""
    return f"index/{name_of(base)}"


def index_columns(option: IndexOption, base: TableSchema) -> list[str]:
    """The columns of the index, all of them its key."""
    return [*option.columns, *(name for name in base.primary_keys if name not in option.columns)]


def index_progress(
    index: OpenTable, base: OpenTable, option: IndexOption, snapshot: Snapshot | None
) -> IndexProgress:
    """As of a snapshot of the index."""
    if snapshot is None:
        return IndexProgress()
    last = last_of(users_of(snapshot, index._committer.last_commits.load), user_of(base))
    if last is None:
        return IndexProgress(0, snapshot.id)
    identity, *fields = (last.digest or "").rsplit(".", _FIELDS - 1)
    if identity != base._committer.identity:
        raise InvalidError(
            f"index at {index.path}",
            found=f"an index of a table that was dropped, and had the name {name_of(base)!r}",
            expected="one of this table",
            action="Drop the index: it is made anew.",
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
    """Of a round that makes the index fit a snapshot. schema: of the base, read before any row."""
    source = base._committer.snapshots.load(source_id)
    printed = _fingerprint(schema, option, source)
    return f"{base._committer.identity}.{source_id}.{read_id}.{printed}"


def _is_alone(index: OpenTable, user: str, number: int, read_id: int, latest: Snapshot) -> bool:
    """Whether nobody is known to have changed the index since that round read it."""
    state = index._state()
    for id in range(read_id + 1, latest.id + 1):
        try:
            found = latest if id == latest.id else index._committer.snapshots.load(id)
        except NotFoundError:
            continue
        is_round = (found.commit_user, found.commit_identifier) == (user, number)
        if not is_round and touches_rows(found, state):
            return False
    return True


def _fingerprint(schema: TableSchema, option: IndexOption, source: Snapshot) -> str:
    ids = column_ids(schema, index_columns(option, schema))
    return fingerprint_of([ids, snapshot_facts(source)])
