"""Creates, lists and drops branches: other histories of a table, which share its data files.

    create       claim ─► snapshot ─► tag ─► schemas ─► does the tag still exist? ─► the branch exists
    drop         the mark: no longer a branch ─► schemas ─► all else; files that only it named are orphans

Source: Paimon `FileSystemBranchManager`; format.md section 1. A branch of a tag begins with the tag's snapshot, the
schemas up to it, and the tag; one without a tag has all schemas and no snapshot. A branch is invisible until it is
whole (`branch_mark`); the tag is checked last, so that a process that deletes files sees the tag or the branch
(`named_files`).

    A  makes B of tag a: B's snapshot, tag, schemas       a still exists: B stays
    C                                              deletes a ── or here ──  lists which files are named

If a was deleted before A checked, A removes B and raises. If it was deleted afterwards, B existed
before, and C, which reads all branches, whole or not, finds the files that B names.

After a kill, a branch that was being made or dropped has its mark or lacks its schemas: it cannot be opened
(`is_whole`), its name is taken until it is dropped, and a process that deletes files reads it like any other.

Raises InvalidError for names that break a rule or are taken, NotFoundError, which lists the existing branches,
UnsupportedError for tables whose options name others, DamagedError, StorageError.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from widetable.acceptance.acceptance import Use, accept
from widetable.arguments import flag, text
from widetable.commit.snapshots.branch_mark import begin_to_drop, branch_life, claim, finish
from widetable.commit.snapshots.lost_snapshots import mark_snapshots
from widetable.commit.snapshots.read_back import parsed_back
from widetable.commit.snapshots.schema_store import SchemaStore
from widetable.errors import InvalidError, NotFoundError, StorageError
from widetable.format.snapshot import Snapshot, snapshot_from_json
from widetable.messages.error_code import ErrorCode
from widetable.operations.handle.compaction_threads import wait_for_compactions
from widetable.operations.handle.open_table import OpenTable
from widetable.storage.file_io import FileIO
from widetable.storage.paths import MAIN_BRANCH, TablePaths, branch_name, check_branch


def create_branch(table: OpenTable, name: str, *, tag: str | None = None) -> None:
    """Make a branch: another history of the table.

    A branch has snapshots, schemas, tags and consumers of its own, and shares the data files. No data file is
    copied, so it takes a few small files whatever the size of the table. From then on neither sees the commits
    of the other. `Table.open(path, branch=name)` and `Catalog.table("db.t$branch_name")` open it.

    Parameters
    ----------
    name : str
        The name of the branch; not `main`, not digits alone, without `$`.
    tag : str, default None
        A tag of this table (of this branch, if it is one). The branch begins with its snapshot, and the
        schemas up to it. `create_tag` first keeps the newest rows for it. None: the branch has all schemas and
        no rows, as in Paimon.

    Raises
    ------
    InvalidError
        No branch can have that name, or there is a branch of that name, or remains of one.
    NotFoundError
        There is no such tag, or it was deleted and created again meanwhile.
    UnsupportedError
        The table has `index.*`, `widen.*` or `join.*` options: it follows main alone.
    """
    name = check_branch(name)
    accept(table.schema, Use.BRANCH, path=table.path)
    snapshot = None if tag is None else table._tags.load(text(tag, "tag"))
    paths = table._paths.of_branch(name)
    file_io = table._file_io
    if file_io.list(paths.root) or not claim(file_io, paths):
        raise InvalidError(
            f"branch {name!r}",
            found=f"a branch of that name, or remains of one, at {paths.root}",
            expected="no branch of that name",
            action="Use another name, or drop the branch first.",
        )
    # The claim is exclusive: of several callers that make the same branch, one gets here.
    try:
        newest = (
            table.schema.id if snapshot is None or tag is None else _copied_tag(table, paths, tag)
        )
        for id in table._committer.schemas.ids():
            if id <= newest:
                file_io.publish(paths.schema(id), file_io.read(table._paths.schema(id)))
        if snapshot is not None and table._tags.load(tag or "") != snapshot:
            raise _moved(tag)
        finish(file_io, paths)
    except BaseException:
        _removed(file_io, paths)
        raise
    # Before the first commit of its own, so that a branch that loses this snapshot is not taken for a
    # new one. Where the storage refuses it, that commit writes it.
    if snapshot is not None:
        with suppress(StorageError):
            mark_snapshots(file_io, paths)


def branches(table: OpenTable) -> list[str]:
    """List the branches of the table, without main.

    Returns
    -------
    list of str
        The names, sorted; the same from each of the branches.

    Raises
    ------
    NotFoundError
        The table was dropped.
    InvalidError
        The table was dropped and made again.
    """
    with table._same_table():
        return branch_names(table._file_io, table._paths)


def drop_branch(table: OpenTable, name: str, *, dry_run: bool = False) -> None:
    """Delete a branch: its snapshots, schemas, tags and consumers.

    Files that only the branch named are orphans from then on (`remove_orphan_files`). The call is not atomic:
    readers and writers of the branch get errors. It waits for compactions that this process does after its commits.

    Parameters
    ----------
    name : str
        The name of the branch.
    dry_run : bool, default False
        Only look whether the branch is there.

    Raises
    ------
    NotFoundError
        There is no such branch.
    InvalidError
        No branch can have that name.
    """
    paths = table._paths.of_branch(check_branch(name))
    table._check_alive()
    if flag(dry_run, "dry_run"):
        if not table._file_io.list(paths.root):
            raise branch_not_found(table._file_io, table._paths, name)
        return
    wait_for_compactions(paths.root)
    if not _removed(table._file_io, paths):
        raise branch_not_found(table._file_io, table._paths, name)


def _removed(file_io: FileIO, paths: TablePaths) -> bool:
    """Delete all of a branch. Return False where there was nothing.

    After a kill, the remains are not a branch: first because of the mark, and once that is deleted because there are
    no schemas. The oldest schema is deleted first, in case a full disk refused the mark.
    """
    if file_io.list(paths.root):
        begin_to_drop(file_io, paths)
        for id in SchemaStore(file_io, paths).ids():
            file_io.delete(paths.schema(id))
    return file_io.delete_dir(paths.root)


def branch_root(root: str, branch: str | None = None) -> str:
    """Return the path of a branch of the table at a path.

    Parameters
    ----------
    root : str
        The path of the table.
    branch : str, default None
        The branch. None: the path itself.

    Returns
    -------
    str
        The path.

    Raises
    ------
    InvalidError
        No branch can have that name.
    """
    if branch is None:
        return root
    name = text(branch, "branch")
    name = name if name == MAIN_BRANCH else check_branch(name)
    return TablePaths(root).of_branch(name).root


def branch_names(file_io: FileIO, paths: TablePaths) -> list[str]:
    """Return the names of the whole branches, sorted."""
    entries = file_io.list(paths.branch_dir)
    names = [branch_name(entry.name) for entry in entries if entry.is_dir]
    return sorted(name for name in names if name and is_whole(file_io, paths.of_branch(name)))


def check_there(file_io: FileIO, paths: TablePaths) -> None:
    """Raise NotFoundError for paths of a branch that does not exist or is not whole."""
    if paths.branch != MAIN_BRANCH and not SchemaStore(file_io, paths).ids():
        raise branch_not_found(file_io, paths, paths.branch)


def branch_not_found(file_io: FileIO, paths: TablePaths, name: str) -> NotFoundError:
    """Return the error for a missing branch, which lists the existing ones."""
    names = ", ".join(branch_names(file_io, paths))
    return NotFoundError(
        f"branch {name!r} of {paths.shared_root}",
        found="no such branch",
        expected=f"one of {names}" if names else "a table with branches; it has only main",
        action="Correct the name, or create the branch first.",
        code=ErrorCode.BRANCH_NOT_FOUND,
    )


def is_whole(file_io: FileIO, paths: TablePaths) -> bool:
    """Whether a branch is complete and is not being dropped.

    A branch of another client has no mark: it is whole if it has a schema.
    """
    try:
        branch_life(file_io, paths)
    except NotFoundError:
        return False
    return bool(SchemaStore(file_io, paths).ids())


def _copied_tag(table: OpenTable, paths: TablePaths, tag: str) -> int:
    """Publish the snapshot and the tag, and return the newest schema that the snapshot needs.

    The snapshot's own schema is not enough, because live files may have a newer one. The tag is copied byte by byte,
    with its times.
    """
    snapshot = table._tags.load(tag)
    first = parsed_back(
        first_snapshot(table._file_io, paths, snapshot),
        snapshot_from_json,
        paths.snapshot(snapshot.id),
    )
    table._file_io.publish(paths.snapshot(snapshot.id), first)
    table._file_io.publish(paths.tag(tag), table._file_io.read(table._paths.tag(tag)))
    live = table._committer.live_files.live_entries(snapshot)
    return max(snapshot.schema_id, *(entry.file.schema_id for entry in live), 0)


def _moved(tag: str | None) -> NotFoundError:
    return NotFoundError(
        f"tag {tag!r}",
        found="a tag that was deleted and created again meanwhile",
        expected="a tag that stays while a branch is created from it",
        action="Create the branch again.",
        code=ErrorCode.TAG_NOT_FOUND,
    )


def first_snapshot(file_io: FileIO, paths: TablePaths, snapshot: Snapshot) -> Snapshot:
    """Return the snapshot of a tag, without its changelog if that has expired with the snapshot's own file.

    Otherwise readers of the branch's changes would miss files that its first snapshot names.
    """
    changelog = snapshot.changelog_manifest_list
    if changelog is None or file_io.exists(paths.manifest(changelog)):
        return snapshot
    return replace(
        snapshot,
        changelog_manifest_list=None,
        changelog_manifest_list_size=None,
        changelog_record_count=None,
    )
