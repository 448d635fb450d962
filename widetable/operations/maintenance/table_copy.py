"""Copy one snapshot of a table to another path. The copy is an independent table with the rows of the snapshot.

    <db>.db/.widetable-copies/<table>/lease     held while a copy runs
                                     /<uuid>/   files ─► schemas ─► one snapshot ─► read back ─► <db>.db/<table>

    killed                     at the name            aside                     the next copy to it
    before the name is given   nothing                <uuid>/, a lease          removes <uuid>/, starts from scratch
    after it                   the table, complete    nothing, or a directory   InvalidError: the name is taken

The copy is made aside, where nobody takes it for a table, and gets its name in one step at the end. So it exists
completely or not at all, and if several make a table of that name, one wins. A copy to the same name first removes what
a killed copy has left.

An object store cannot rename directories, so there the copy is made in its place, in the same order. Files are no table
before there are schemas; between the first schema and the snapshot, for a few requests, the table exists and is empty.
If somebody else makes the table first, or writes to it meanwhile, the copy fails. The mark `begun`, beside the lease,
says that files without a schema belong to a copy. Nothing is deleted there: files of two copies of one table have the
same names, and a process that was paused for longer than a lease would delete files of the other copy.

Data files keep bytes, names, levels, sequence numbers and statistics; the commit writes new manifests and indexes.
Files are copied one after the other, 8 MiB at a time, after a check of their
footers; each is read once from the source and once back from the copy, to compare checksums. Not
copied: other snapshots with their changelogs, tags, branches, consumers, commit identifiers,
statistics of the whole table (`ANALYZE`). Raises InvalidError if something has the name, ConflictError while another
copy to it runs, UnsupportedError for parts that would mean something else in the copy, NotFoundError, DamagedError for
files of the source, StorageError.
"""

from __future__ import annotations

import contextlib
import json
import logging
import uuid
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import pyarrow as pa

from widetable.acceptance.acceptance import Use, accept
from widetable.commit.notes.copy_place import copies_beside, copy_place, unfinished_copy_mark
from widetable.commit.snapshots.hash_indexes import read_index
from widetable.commit.snapshots.live_files import LiveFiles
from widetable.commit.snapshots.manifest_cache import ManifestCache
from widetable.commit.snapshots.schema_store import SchemaStore
from widetable.commit.transaction.committer import Committer
from widetable.errors import (
    ConflictError,
    InvalidError,
    NotFoundError,
    StorageError,
    UnsupportedError,
    WidetableError,
)
from widetable.format.hash_index import write_hash_index
from widetable.format.index_manifest import DELETION_VECTORS, HASH, IndexEntry
from widetable.format.manifest_entry import ManifestEntry
from widetable.messages.warning_code import WarningCode, warn
from widetable.operations.handle.chosen_state import chosen_state
from widetable.operations.handle.held_lease import held_lease
from widetable.operations.handle.newest_snapshot import held, held_newest
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.health.restored_files import restoring, vector_of
from widetable.operations.history.named_files import file_names
from widetable.read.expired import files_of
from widetable.runtime.moment import Moment
from widetable.schema import options as opt
from widetable.schema.table_schema import UUID_KEY
from widetable.storage.file_io import FileIO
from widetable.storage.locate import locate_beside
from widetable.storage.paths import TablePaths
from widetable.write.commit_message import CommitMessage
from widetable.write.table_state import TableState

_CHUNK_BYTES: Final = 8 << 20
_ANOTHER_CLIENT: Final = "Use another client."
_log = logging.getLogger("widetable")


@dataclass(frozen=True)
class CopyResult:
    """Reports a copy. path: of the new table. snapshot_id: the copied snapshot of the source, None if it has none.
    rows, files, bytes: of data files.
    """

    path: str
    snapshot_id: int | None
    rows: int
    files: int
    bytes: int

    def to_dict(self) -> dict[str, Any]:
        """Return the result as values of JSON."""
        return asdict(self)


def copy_table(
    source: OpenTable,
    root: str,
    *,
    snapshot_id: int | None = None,
    timestamp: Moment | None = None,
    tag: str | None = None,
    file_io: FileIO | None = None,
) -> CopyResult:
    """Make the table `root`; see `Catalog.copy_table`. file_io: the storage of the copy; None: the one of its path."""
    with contextlib.ExitStack() as stack:
        # The lease comes first, so that it keeps the snapshot that is chosen as the newest.
        stack.enter_context(held_newest(source._state(), source._committer))
        snapshot, state, *_ = chosen_state(source, snapshot_id, timestamp, tag)
        accept(state.schema, Use.READ, Use.BRANCH, Use.REPLACE, path=source.path)
        fsync = state.options.get(opt.FSYNC)
        file_io = file_io or locate_beside(state.file_io, root, fsync=fsync)[0]
        live_files = source._committer.live_files
        entries, indexes = live_files.live_entries(snapshot), live_files.index(snapshot)
        _check_copyable(source.path, entries, indexes)
        if snapshot is not None:
            with contextlib.suppress(NotFoundError):  # a tag keeps the files of an expired snapshot
                stack.enter_context(held(state, snapshot.id))
            stack.enter_context(files_of(state, snapshot.id))
        place = _aside if file_io.moves_dirs() else _in_place
        target = stack.enter_context(place(replace(state, file_io=file_io), root))
        for entry in entries:
            _copy_files(state, target, entry)
        _copy_schemas(source, target, entries, root)
        _check_there(target, entries)
        if snapshot is not None:
            hashes = _hash_messages(state, indexes)
            messages = [*restoring(state.file_io, entries), *hashes]
            committer = Committer(file_io, target.paths)
            whose = replace(snapshot, index_manifest=None)
            committer.restore(messages, (), whose, is_first=True)
            _check_read_back(state, target, entries)
        # This one step makes it a table. It fails if somebody else has made a table of that name.
        if target.paths.root != root and not file_io.move_dir(target.paths.root, root):
            raise _taken(root)
    files = [entry.file for entry in entries]
    return CopyResult(
        root,
        None if snapshot is None else snapshot.id,
        sum(file.row_count for file in files),
        len(files),
        sum(file.file_size for file in files),
    )


@contextlib.contextmanager
def _aside(state: TableState, root: str) -> Iterator[TableState]:
    """Make the copy aside, where nobody takes it for a table, and yield its state. At the end, files that are left
    there are deleted; a copy that got its name leaves none.
    """
    file_io = state.file_io
    if file_io.exists(root):
        raise _taken(root)
    with _leased(state, root) as place:
        for left in file_io.list(place):  # directories of killed copies
            if left.is_dir:
                file_io.delete_dir(f"{place}/{left.name}")
        target = replace(state, paths=TablePaths(f"{place}/{uuid.uuid4()}"))
        try:
            yield target
        finally:
            with _only_logged():
                file_io.delete_dir(target.paths.root)


@contextlib.contextmanager
def _in_place(state: TableState, root: str) -> Iterator[TableState]:
    """Make the copy at its final path, and yield its state.

    After an error the mark `begun` stays, so that the next copy takes the files there for its own, and not for a
    table's. It is deleted only after the snapshot exists.
    """
    file_io, target = state.file_io, replace(state, paths=TablePaths(root))
    with _leased(state, root):
        begun, is_table = unfinished_copy_mark(root), bool(SchemaStore(file_io, target.paths).ids())
        if is_table or (file_io.list(root) and not file_io.exists(begun)):
            raise _taken(root)
        file_io.replace(begun, b"")
        yield target
        with _only_logged():
            file_io.delete(begun)


@contextlib.contextmanager
def _leased(state: TableState, root: str) -> Iterator[str]:
    """Hold the lease of copies to this name, of which one runs at a time, and yield their directory."""
    place = copy_place(root)
    try:
        with held_lease(state, path=f"{place}/lease") as is_ours:
            if not is_ours:
                raise ConflictError(
                    root,
                    found="another copy to this name that is running",
                    expected="one copy at a time",
                    action="Copy again after its end; the lease of a killed copy expires in a minute.",
                )
            yield place
    finally:
        with _only_logged():
            for directory in (place, copies_beside(root)):
                state.file_io.delete_empty_dir(directory)


@contextlib.contextmanager
def _only_logged() -> Iterator[None]:
    """Log errors only: files that are left aside are harmless, and the next copy to the name removes them."""
    try:
        yield
    except WidetableError as error:
        warn(_log, WarningCode.FILE_NOT_REMOVED, "a copy leaves files aside: %s", error)


def _check_copyable(
    path: str, entries: Sequence[ManifestEntry], indexes: Sequence[IndexEntry]
) -> None:
    """Raise UnsupportedError for files outside of the table, files without a bucket, and unknown kinds of indexes."""
    for entry in entries:
        if entry.bucket < 0 or entry.file.external_path is not None:
            if entry.bucket < 0:
                where, action = "with rows that wait for their bucket", "Compact the table first."
            else:
                where, action = "outside of the table", _ANOTHER_CLIENT
            expected = "files in buckets of the table"
            raise _unsupported(path, f"data files {where}", expected, action)
    for index in indexes:
        if index.kind not in (HASH, DELETION_VECTORS):
            expected = f"indexes of the kinds {HASH}, {DELETION_VECTORS}"
            raise _unsupported(path, f"an index of the kind {index.kind!r}", expected)


def _copy_schemas(
    source: OpenTable, target: TableState, entries: Sequence[ManifestEntry], root: str
) -> None:
    """Copy the schemas byte for byte, up to the newest that is needed, except for the identity in the first one.

    The copy gets its own identity, so that a reader never takes it for the source. Ids stay, because data files name
    them.
    """
    schemas = source._committer.schemas
    newest = max([target.schema.id, *(entry.file.schema_id for entry in entries)])
    ids = [id for id in schemas.ids() if id <= newest]
    for id in ids:
        schemas.load(id)  # raises for one that cannot be read
        data = source._file_io.read(source._paths.schema(id))
        if id == ids[0]:
            body = {**json.loads(data), UUID_KEY: str(uuid.uuid4())}
            data = json.dumps(body, indent=2, ensure_ascii=False).encode()
        if not target.file_io.publish(target.paths.schema(id), data):
            raise _taken(root)


def _copy_files(state: TableState, target: TableState, entry: ManifestEntry) -> None:
    """Copy a data file with its extra files. Its footer is checked first, so that a damaged file is not copied."""
    bucket, file = entry.bucket_id, entry.file._replace(deleted=None)
    state.opened(bucket, file).close()
    for name in file_names(entry):
        source_path, path = state.data_file(bucket, name), target.data_file(bucket, name)
        written = _written(state.file_io, source_path, target.file_io, path)
        if _checksum(target.file_io, path) != written:
            raise _refused(path, "other bytes than those written", "the bytes that were written")


def _written(source: FileIO, source_path: str, target: FileIO, path: str) -> int:
    """Copy a file durably, and return the checksum of the bytes that were read."""
    checksum = 0
    with source.open_input(source_path) as read:
        try:
            with target.open_output(path) as write:
                while chunk := read.read(_CHUNK_BYTES):
                    checksum = zlib.crc32(chunk, checksum)
                    write.write(chunk)
        except (OSError, pa.ArrowException) as cause:
            raise _refused(path, str(cause), "a storage that stores the bytes") from cause
    target.sync(path)
    return checksum


def _checksum(file_io: FileIO, path: str) -> int:
    checksum = 0
    with file_io.open_input(path) as read:
        while chunk := read.read(_CHUNK_BYTES):
            checksum = zlib.crc32(chunk, checksum)
    return checksum


def _check_there(target: TableState, entries: Sequence[ManifestEntry]) -> None:
    """Raise ConflictError if files are gone: a table of this name that was dropped meanwhile took them with it."""
    named = defaultdict[str, set[str]](set)
    for entry in entries:
        named[target.bucket_dir(entry.bucket_id)].update(file_names(entry))
    for directory, names in named.items():
        gone = names - {status.name for status in target.file_io.list(directory)}
        if gone:
            raise ConflictError(
                f"{directory}/{min(gone)}",
                found="no such file: a table of this name was dropped meanwhile",
                expected="the files that were written",
                action="Drop the table that has the name, and copy again.",
            )


def _hash_messages(state: TableState, indexes: Sequence[IndexEntry]) -> list[CommitMessage]:
    """Return messages with the hash indexes, which say which keys are in which dynamic bucket."""
    return [
        CommitMessage(
            *index.bucket,
            state.schema.num_buckets,
            new_hashes=write_hash_index(read_index(state.file_io, state.paths, index)),
        )
        for index in indexes
        if index.kind == HASH
    ]


def _check_read_back(
    state: TableState, target: TableState, entries: Sequence[ManifestEntry]
) -> None:
    """Raise StorageError if the copy's snapshot names other files or other deleted rows than the source."""
    types = [state.schema.field(name).type for name in state.schema.partition_keys]
    latest = Committer(target.file_io, target.paths).snapshots.latest()
    live_files = LiveFiles(target.file_io, target.paths, types, ManifestCache(0))
    if _facts(target.file_io, live_files.live_entries(latest)) != _facts(state.file_io, entries):
        raise _refused(target.paths.root, "other files in the copy", "those of the source")


def _facts(file_io: FileIO, entries: Sequence[ManifestEntry]) -> dict[object, object]:
    """Return the facts of entries to compare, with the bytes of their deletion vectors instead of their places, because
    the copy has new index files.
    """
    return {
        entry.identity: (
            entry._replace(file=entry.file._replace(deleted=None)),
            vector_of(file_io, entry.file),
        )
        for entry in entries
    }


def _taken(root: str) -> InvalidError:
    return InvalidError(
        root,
        found="a table or another directory",
        expected="a name that is free",
        action="Use another name, or drop the table first.",
    )


def _unsupported(
    path: str, actual: str, expected: str, action: str = _ANOTHER_CLIENT
) -> UnsupportedError:
    return UnsupportedError(path, found=actual, expected=expected, action=action)


def _refused(path: str, actual: str, expected: str) -> StorageError:
    action = "Make room or repair the storage, then copy again; no table was made."
    return StorageError(path, found=actual, expected=expected, action=action)
