"""Fast-forwards a table: it continues as one of its branches.

    main    1 2 3 4            1 2 3                 1 2 3 5' 6'
    branch    (2) 3 4' 5' 6'     drops what only main has,   adds what only the branch has

Source: Paimon `FileSystemBranchManager.fastForward`. Both are equal up to the last common snapshot; from there on
main gets the branch's snapshots, schemas and tags, and keeps none of its own. Paimon drops these silently; here
they are dropped only on request (`replace`), and main gets a new identity: processes that have it open, or stream from
it, get an error. After every step the table can be read, or has visibly lost its snapshots, and the steps can
be repeated after a crash:

    new identity, hint back ─► newest snapshots first, tags, schemas ─► schemas, oldest snapshots first, tags ─► hint

If the process dies    while it drops          main is at an older snapshot of its own, or none is left
                       while it adds snapshots main is at one of the branch's; ids have no gap
                       before tags or hints    all but these is done

A second call finds the work of the first in what both have in common, and continues: a publish accepts
an existing file with the same bytes.

Files that only the dropped snapshots had become orphans; none is deleted or copied here. Raises NotFoundError for a
missing branch, InvalidError for one without snapshots and for the branch itself, ConflictError when main has items that
the branch lacks, or another process commits meanwhile, UnsupportedError, DamagedError, StorageError.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from widetable.acceptance.acceptance import Use, accept
from widetable.arguments import flag
from widetable.commit.holds.retired_snapshots import RetiredSnapshots
from widetable.commit.holds.tag_store import TagStore
from widetable.commit.notes.consumer_store import ConsumerStore
from widetable.commit.snapshots.branch_mark import renew_mark
from widetable.commit.snapshots.last_commits import LastCommits
from widetable.commit.snapshots.lost_snapshots import mark_again, mark_snapshots
from widetable.commit.snapshots.read_back import parsed_back
from widetable.commit.snapshots.schema_store import SchemaStore
from widetable.commit.snapshots.snapshot_store import SnapshotStore
from widetable.errors import ConflictError, InvalidError
from widetable.format.snapshot import Snapshot, snapshot_from_json
from widetable.operations.handle.compaction_threads import wait_for_compactions
from widetable.operations.handle.newest_snapshot import held
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.history.branches import check_there, first_snapshot
from widetable.storage.file_io import FileIO
from widetable.storage.paths import TablePaths, check_branch

_NAMED: Final = 10


@dataclass(frozen=True)
class FastForwardResult:
    """What a fast-forward changed. Snapshots and schemas are ids, tags and consumers names, all of the table.

    Attributes
    ----------
    branch : str
        The branch that the table took over.
    common_id : int or None
        The last snapshot that table and branch shared. None: there was none.
    snapshots, schemas : tuple of int
        What the table took over from the branch.
    tags : tuple of str
        Tags that it took over.
    dropped_snapshots, dropped_schemas : tuple of int
        What the table had after the common snapshot, and lost.
    dropped_tags : tuple of str
        Tags that it lost.
    dropped_consumers : tuple of str
        Consumers that had read dropped snapshots; they start from the beginning.
    """

    __module__ = "widetable"

    branch: str
    common_id: int | None
    snapshots: tuple[int, ...] = ()
    schemas: tuple[int, ...] = ()
    tags: tuple[str, ...] = ()
    dropped_snapshots: tuple[int, ...] = ()
    dropped_schemas: tuple[int, ...] = ()
    dropped_tags: tuple[str, ...] = ()
    dropped_consumers: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as values that JSON has.

        Returns
        -------
        dict of str to any
            The fields, by name; nested results are dicts.
        """
        return asdict(self)

    @property
    def _dropped(self) -> list[str]:
        kinds = (
            ("snapshot", self.dropped_snapshots),
            ("schema", self.dropped_schemas),
            ("tag", self.dropped_tags),
            ("consumer", self.dropped_consumers),
        )
        return [f"{kind} {each}" for kind, items in kinds for each in items]


def fast_forward(
    table: OpenTable, name: str, *, replace: bool = False, dry_run: bool = False
) -> FastForwardResult:
    """Let the table continue as one of its branches.

    The table gets the snapshots, schemas and tags of the branch. The branch stays. Stop all writers of the table
    meanwhile; readers that were at a dropped snapshot get errors.

    Parameters
    ----------
    name : str
        The name of the branch.
    replace : bool, default False
        Go on also when the table has snapshots, schemas or tags of its own since the branch was made. They
        are dropped, with the consumers that have read such snapshots.
    dry_run : bool, default False
        Only say what would be done.

    Returns
    -------
    FastForwardResult
        What came to the table, and what it dropped.

    Raises
    ------
    NotFoundError
        There is no such branch.
    InvalidError
        The branch has no snapshot, is the table itself, is of another first schema, or brings other schemas
        and no new snapshot.
    UnsupportedError
        One of the two is under barriers, or the table has `index.*`, `widen.*` or `join.*` options, or an
        option that this version does not honour.
    ConflictError
        The table has something of its own and `replace` is not given: the error names it. Also when somebody
        commits meanwhile.
    """
    replace, dry_run = flag(replace, "replace"), flag(dry_run, "dry_run")
    source = _branch_of(table, name)
    other = OpenTable(source.root, table._file_io)
    accept(other.schema, Use.REPLACE, path=other.path)
    for root in (source.root, table._paths.root):
        wait_for_compactions(root)
    way = _FastForward(table._file_io, source, table._paths)
    if dry_run:
        return way.plan()
    with (
        held(other._state(), way.earliest_id()),
        table._file_io.turn(table._paths.commit_queue),
    ):
        for one in (table, other):  # either may have been put under barriers meanwhile
            accept(one.schema, Use.REPLACE, path=one.path)
        plan = _checked_plan(way, table, name, replace=replace)
        way.perform(plan)
    table._reset()
    return plan


def _branch_of(table: OpenTable, name: str) -> TablePaths:
    """Return the paths of a branch that the table may continue as."""
    source = table._paths.of_branch(check_branch(name))
    if source == table._paths:
        raise InvalidError(
            f"branch {name!r}",
            found="the branch that is open itself",
            expected="another branch",
            action="Open the table, or the branch that is to be forwarded.",
        )
    state = table._state()
    accept(state.schema, Use.MAINTAIN, Use.REPLACE, Use.BRANCH, path=table.path)
    check_there(table._file_io, source)
    return source


def _checked_plan(
    way: _FastForward, table: OpenTable, name: str, *, replace: bool
) -> FastForwardResult:
    plan = way.plan()
    if plan._dropped and not replace:
        raise _diverged(table, plan)
    if plan.dropped_schemas and not (plan.snapshots or plan.dropped_snapshots):
        raise _unseen(name)
    return plan


def _unseen(name: str) -> InvalidError:
    """Return the error for a branch without commits: an open table knows itself by its newest snapshot (0040)."""
    return InvalidError(
        f"branch {name!r}",
        found="other schemas than the table's, but the same newest snapshot",
        expected="a snapshot of its own",
        action="Write to the branch first: then processes that have the table open notice that it was replaced.",
    )


class _FastForward:
    """The fast-forward of `target` to `source`."""

    def __init__(self, file_io: FileIO, source: TablePaths, target: TablePaths) -> None:
        self._file_io = file_io
        self._source = source
        self._target = target
        self._theirs = SnapshotStore(file_io, source)
        self._ours = SnapshotStore(file_io, target)

    def earliest_id(self) -> int:
        """Return the earliest snapshot of the branch."""
        earliest_id = self._theirs.earliest_id()
        if earliest_id is None:
            raise InvalidError(
                self._source.root,
                found="a branch without snapshots",
                expected="a branch with a snapshot",
                action="Write to the branch first, or create it from a tag.",
            )
        return earliest_id

    def plan(self) -> FastForwardResult:
        """Plan the fast-forward.

            main 1 2 3, branch of snapshot 2: (2) 3' 4' 5' 6'    common 2, drops 3, gets 3' 4' 5' 6'

        For dry_run no lease is taken; else the plan is made during the turn of commits, with a lease on the branch.
        """
        first_id, (ours, theirs) = self.earliest_id(), (self._ours.ids(), self._theirs.ids())
        if ours:  # else there are none, or a fast-forward was interrupted
            self._ours.latest_id()  # raises when snapshots are lost
        common_id = self._common_id(ours, theirs)
        after = 0 if common_id is None else common_id
        new_schemas, old_schemas = self._schemas()
        tags_after = first_id - 1 if common_id is None else common_id
        new_tags, old_tags = self._tags(tags_after, old_schemas)
        consumers = ConsumerStore(self._file_io, self._target).all().items()
        dropped = tuple(id for id in ours if id > after)
        return FastForwardResult(
            self._source.branch,
            common_id,
            tuple(id for id in theirs if id > after),
            new_schemas,
            new_tags,
            dropped,
            old_schemas,
            old_tags,
            tuple(name for name, next_id in consumers if dropped and next_id > after + 1),
        )

    def _common_id(self, ours: Iterable[int], theirs: Iterable[int]) -> int | None:
        for id in sorted({*ours} & {*theirs}, reverse=True):
            if _same(self._ours.load(id), self._theirs.load(id)):
                return id
        return None

    def _schemas(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the ids of schemas to add and to drop."""
        ours, theirs = (_schema_files(self._file_io, p) for p in (self._target, self._source))
        if ours and theirs and ours[min(ours)] != theirs.get(min(ours)):
            raise InvalidError(
                self._source.root,
                found="another first schema than the table's",
                expected="a branch of this table",
                action="Drop the branch, and create it again.",
            )
        new = (id for id, data in theirs.items() if ours.get(id) != data)
        old = (id for id, data in ours.items() if theirs.get(id) != data)
        return tuple(new), tuple(old)

    def _tags(
        self, after: int, old_schemas: Sequence[int]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the names of tags to add and to drop."""
        ours, theirs = (
            TagStore(self._file_io, p).all(strict=True) for p in (self._target, self._source)
        )
        new = tuple(
            name for name, tag in theirs.items() if name not in ours or not _same(ours[name], tag)
        )
        old = tuple(
            name
            for name, tag in ours.items()
            if name in new
            or (name not in theirs and (tag.id > after or tag.schema_id in old_schemas))
        )
        return new, old

    def perform(self, plan: FastForwardResult) -> None:
        """Carry out the plan."""
        self._drop(plan)
        for id in plan.schemas:
            self._copy(self._source.schema(id), self._target.schema(id))
        for id in plan.snapshots:
            self._copy_snapshot(id, is_first=plan.common_id is None and id == plan.snapshots[0])
        for name in plan.tags:
            self._copy(self._source.tag(name), self._target.tag(name))
        if plan.snapshots:
            mark_snapshots(self._file_io, self._target)
            self._hint(self._target.latest_hint, plan.snapshots[-1])
            if plan.common_id is None:
                self._hint(self._target.earliest_hint, plan.snapshots[0])

    def _drop(self, plan: FastForwardResult) -> None:
        """Drop snapshots, the newest first, so that the rest is always a table of older snapshots."""
        target = self._target
        # First: a process that finds an unexpected newest snapshot checks the identity, and gets an error.
        if plan._dropped:
            renew_mark(self._file_io, target)
            mark_again(self._file_io, target)  # so that no one begins a new history in between
        if plan.dropped_snapshots:
            if plan.common_id is None:
                self._file_io.delete(target.latest_hint)
                self._file_io.delete(target.earliest_hint)
            else:
                self._hint(target.latest_hint, plan.common_id)
            self._forget_notes(plan.dropped_snapshots)
        for id in reversed(plan.dropped_snapshots):
            self._file_io.delete(target.snapshot(id))
        for name in plan.dropped_tags:
            self._file_io.delete(target.tag(name))
        for id in reversed(plan.dropped_schemas):
            self._file_io.delete(target.schema(id))
        for name in plan.dropped_consumers:
            ConsumerStore(self._file_io, target).delete(name)

    def _forget_notes(self, dropped: Sequence[int]) -> None:
        """Delete the notes of expiry for dropped snapshots, because new snapshots get their ids."""
        retired = RetiredSnapshots(self._file_io, self._target)
        for id in retired.noted():
            if id >= dropped[0]:
                retired.forget(id)
        LastCommits(self._file_io, self._target).forget_from(dropped[0])

    def _copy_snapshot(self, id: int, *, is_first: bool) -> None:
        """Copy a snapshot; the first one loses a changelog that is gone, as when other clients make branches."""
        source, target = self._source.snapshot(id), self._target.snapshot(id)
        data = self._file_io.read(source)
        snapshot = snapshot_from_json(data, source)
        whole = first_snapshot(self._file_io, self._target, snapshot) if is_first else snapshot
        same = whole == snapshot
        self._publish(data if same else parsed_back(whole, snapshot_from_json, target), target)

    def _copy(self, source: str, target: str) -> None:
        self._publish(self._file_io.read(source), target)

    def _publish(self, data: bytes, target: str) -> None:
        if not self._file_io.publish(target, data) and self._file_io.read(target) != data:
            raise ConflictError(
                target,
                found="a file that another process made meanwhile",
                expected="no commits to the table during the fast-forward",
                action="Stop all writers of the table, and call it again with replace=True.",
            )

    def _hint(self, path: str, id: int) -> None:
        self._file_io.replace(path, str(id).encode())


def _schema_files(file_io: FileIO, paths: TablePaths) -> dict[int, bytes]:
    return {id: file_io.read(paths.schema(id)) for id in SchemaStore(file_io, paths).ids()}


def _same(one: Snapshot, other: Snapshot) -> bool:
    """Whether two snapshots are the same, by the names of their lists, which are unique.

    A branch's first snapshot may lack its changelog.
    """
    return (one.id, one.base_manifest_list, one.delta_manifest_list) == (
        other.id,
        other.base_manifest_list,
        other.delta_manifest_list,
    )


def _diverged(table: OpenTable, plan: FastForwardResult) -> ConflictError:
    dropped = plan._dropped
    more = f" and {len(dropped) - _NAMED} more" if len(dropped) > _NAMED else ""
    return ConflictError(
        table.path,
        found=f"items that the branch {plan.branch!r} does not have: {', '.join(dropped[:_NAMED])}{more}",
        expected="no changes since the branch was created",
        action="Give replace=True to drop it (dry_run=True shows all), or write it into the branch first.",
    )
