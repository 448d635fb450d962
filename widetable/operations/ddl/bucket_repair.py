"""Decides which tables may be given the option `bucket`, which early versions of widetable did not write.

These versions wrote as if it were 1; for every other client a table without it has dynamic buckets (-1), and keys in
any of them. So only a table that no other client has written may get it: each of its snapshots and tags is by
widetable, and all live files lie in bucket 0 of 1. Raises what reading snapshots and manifests raises.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeVar

from widetable.commit.holds.tag_store import TagStore
from widetable.commit.transaction.committer import Committer
from widetable.commit.transaction.next_snapshot import WRITER_VERSION
from widetable.errors import NotFoundError
from widetable.format.manifest_entry import ManifestEntry
from widetable.format.snapshot import Snapshot
from widetable.operations.handle.newest_snapshot import newest_files
from widetable.schema import options as opt
from widetable.schema.table_schema import TableSchema
from widetable.storage.file_io import FileIO
from widetable.storage.paths import TablePaths

_ONE: Final = "1"

_Name = TypeVar("_Name", int, str)


def is_of_one_bucket(snapshots: Iterable[Snapshot], live: Iterable[ManifestEntry]) -> bool:
    """Whether a table with these snapshots and live files was written as one of a single fixed bucket. Pure."""
    is_ours = all(snapshot.writer_version == WRITER_VERSION for snapshot in snapshots)
    return is_ours and all((entry.bucket, entry.total_buckets) == (0, 1) for entry in live)


def repaired_options(file_io: FileIO, paths: TablePaths, schema: TableSchema) -> Mapping[str, str]:
    """Return the options that may be added to this newest schema although they are immutable: `{"bucket": "1"}` or
    nothing.

    A table that has the option, as all new tables do, costs no read; for others each kept snapshot and tag is read,
    and the live files of the newest one. A table without snapshots may get it too, because no key is in any bucket.
    """
    if opt.BUCKET.key in schema.options:
        return {}
    committer, tags = Committer(file_io, paths), TagStore(file_io, paths)
    store = committer.snapshots
    snapshots = [*_existing(store.load, store.ids()), *_existing(tags.load, tags.names())]
    _, live = newest_files(committer)
    return {opt.BUCKET.key: _ONE} if is_of_one_bucket(snapshots, live) else {}


def _existing(load: Callable[[_Name], Snapshot], names: Iterable[_Name]) -> Iterator[Snapshot]:
    """Yield the snapshots of these names, without those that expired meanwhile."""
    for name in names:
        with contextlib.suppress(NotFoundError):
            yield load(name)
