"""What a table keeps of its past, and lets go: snapshots, tags, consumers, expiry, orphans. The base of `Table`.

Raises what the modules it calls raise; see there.
"""

from __future__ import annotations

import contextlib

from widetable.arguments import flag, whole_number
from widetable.commit.committer import Committer
from widetable.commit.consumer_store import ConsumerStore
from widetable.commit.table_identity import check_identity
from widetable.derived_value import derived_value
from widetable.errors import NotFoundError
from widetable.format.snapshot import Snapshot
from widetable.operations.expiry import ExpiryResult, expire
from widetable.operations.expiry_choice import retention_of
from widetable.operations.lost_snapshots import accept_lost_snapshots
from widetable.operations.orphans import DAY_MILLIS, OrphanResult, remove_orphans
from widetable.operations.snapshot_choice import load_snapshot
from widetable.operations.supported import check_writable
from widetable.operations.tags import TagStore
from widetable.paths import TablePaths
from widetable.schema import TableSchema
from widetable.storage.file_io import FileIO
from widetable.write.table_state import TableState


class TableHistory:
    """Picklable; holds nothing open."""

    def __init__(self, path: str, file_io: FileIO) -> None:
        self._path = path
        self._file_io = file_io
        self._paths = TablePaths(path)

    def __getstate__(self) -> tuple[str, FileIO]:
        return self._path, self._file_io

    def __setstate__(self, state: tuple[str, FileIO]) -> None:
        self._path, self._file_io = state
        self._paths = TablePaths(self._path)

    @property
    def path(self) -> str:
        """The absolute path of the table's directory."""
        return self._path

    @property
    def schema(self) -> TableSchema:
        """The newest schema, looked up on each call. Raises NotFoundError when the table is not there any more,
        InvalidError when it was dropped and made again.
        """
        check_identity(self._file_io, self._paths, self._committer.identity)
        return self._committer.schemas.latest()

    @derived_value
    def _committer(self) -> Committer:
        return Committer(self._file_io, self._paths)

    def _state(self, schema: TableSchema) -> TableState:
        return TableState(self._file_io, self._paths, schema, self._committer.schemas.load)

    @property
    def _tags(self) -> TagStore:
        return TagStore(self._file_io, self._paths)

    # Snapshots and tags

    def snapshots(self) -> list[Snapshot]:
        """All snapshots that are kept, newest last."""
        store = self._committer.snapshots
        found = []
        for id in store.ids():
            with contextlib.suppress(NotFoundError):  # expired since the directory was listed
                found.append(store.load(id))
        return found

    def create_tag(self, name: str, snapshot_id: int | None = None) -> None:
        """Keep a snapshot, the newest by default, under a name: it can be read for as long as the
        tag is there.
        """
        store = self._committer.snapshots
        snapshot = store.latest() if snapshot_id is None else load_snapshot(store, snapshot_id)
        self._tags.create(name, snapshot or load_snapshot(store, 1))

    def delete_tag(self, name: str) -> None:
        """Let a tag go. Files that only it kept are orphans from then on (`remove_orphan_files`)."""
        self._tags.delete(name)

    def tags(self) -> dict[str, Snapshot]:
        """Name to snapshot of all tags, sorted by name. One whose file is damaged is left out, with a warning."""
        return self._tags.all()

    def accept_lost_snapshots(self) -> int:
        """Go on from the newest snapshot that is there, for a table whose newest ones are lost; its id.

        What they held is gone, as far as nobody wrote it again. Reading and writing such a table raise DamagedError
        until then; where nothing is lost, nothing is done. Raises InvalidError while a tag keeps one of them (its file
        is the snapshot, and can be put back) or a consumer has read one, DamagedError when no snapshot is left.
        """
        return accept_lost_snapshots(self._file_io, self._paths)

    # Consumers

    def consumers(self) -> dict[str, int]:
        """Consumer to the first snapshot that it has not read; this one and later ones do not expire. One whose file is
        damaged is left out, with a warning.
        """
        return ConsumerStore(self._file_io, self._paths).all()

    def delete_consumer(self, consumer_id: str) -> bool:
        """Forget a consumer, so that it keeps no snapshot any more; whether there was one."""
        return ConsumerStore(self._file_io, self._paths).delete(consumer_id)

    # What goes

    def expire_snapshots(
        self,
        num_retained_min: int | None = None,
        num_retained_max: int | None = None,
        time_retained_millis: int | None = None,
        limit: int | None = None,
        dry_run: bool = False,
    ) -> ExpiryResult:
        """Remove old snapshots, and the files that only they have.

        A snapshot goes when more than num_retained_min stay, and it was not the newest one within
        time_retained_millis, or more than num_retained_max stay; at most `limit` of them at once. By default the
        options `snapshot.num-retained.min`, `.max`, `snapshot.time-retained`, `snapshot.expire.limit` decide. What
        tags, consumers and readers with a lease need stays. With dry_run nothing is removed, only named. May be called
        at any time, by several at once, and again after it was killed.
        """
        dry_run = flag(dry_run, "dry_run")
        schema = self.schema
        check_writable(schema)
        retention = retention_of(
            schema.typed_options,
            num_min=num_retained_min,
            num_max=num_retained_max,
            time_millis=time_retained_millis,
            limit=limit,
        )
        return expire(self._state(schema), self._committer, retention, dry_run=dry_run)

    def remove_orphan_files(
        self, older_than_millis: int = DAY_MILLIS, dry_run: bool = False
    ) -> OrphanResult:
        """Delete files that nothing names and that were last written at least so long ago.

        They come from writers and commits that failed, from deleted tags and from expiries that did not end. A
        commit that is under way for longer than older_than_millis would lose its files. With dry_run nothing is
        deleted, only named. May be called at any time, by several at once.
        """
        older_than_millis = whole_number(older_than_millis, "older_than_millis", least=0)
        dry_run = flag(dry_run, "dry_run")
        schema = self.schema
        check_writable(schema)
        state = self._state(schema)
        return remove_orphans(state, self._committer, older_than_millis, dry_run=dry_run)
