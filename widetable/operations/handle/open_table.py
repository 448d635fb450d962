"""An open table as operations take it: its path, and what is derived from that on first use. It is the base class of
`Table`, which adds the operations.

Raises NotFoundError for a table that no longer exists, and InvalidError for one that was dropped and created again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from widetable.commit.holds.tag_store import TagStore
from widetable.commit.notes.consumer_store import ConsumerStore
from widetable.commit.snapshots.table_identity import check_identity
from widetable.commit.transaction.committer import Committer
from widetable.errors import NotFoundError
from widetable.runtime.derived_value import derived_value
from widetable.schema.table_schema import TableSchema
from widetable.storage.file_io import FileIO
from widetable.storage.paths import TablePaths
from widetable.write.table_state import TableState


class OpenTable:
    """A table by its path and storage. Names with an underscore are for operations.

    It is picklable, holds nothing open, and threads may share it. Making one does no I/O: the first operation finds
    out whether the table exists. A pickle has path and storage alone, so another process reads everything itself.
    """

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
        """The absolute path of the table's directory, or of the branch's directory, which opens the branch."""
        return self._path

    @property
    def branch(self) -> str:
        """The branch that is open: `main`, or the name of another one."""
        return self._paths.branch

    @property
    def schema(self) -> TableSchema:
        """The newest schema, looked up on each call.

        Raises NotFoundError when the table no longer exists, InvalidError when it was dropped and created again.
        """
        self._check_alive()
        return self._committer.schemas.latest()

    def _check_alive(self) -> None:
        """Raise InvalidError when the table was dropped and created again, NotFoundError when it no longer exists."""
        check_identity(self._file_io, self._paths, self._committer.identity)

    @contextlib.contextmanager
    def _same_table(self) -> Iterator[None]:
        """Check that all that the block reads belongs to this table.

        After the block, an error is raised when the table was replaced or dropped, whether the block succeeded or
        raised NotFoundError: a new table uses the same snapshot ids and names of tags and consumers again.
        """
        identity = self._committer.identity
        try:
            yield
        except NotFoundError:
            check_identity(self._file_io, self._paths, identity)
            raise
        check_identity(self._file_io, self._paths, identity)

    @derived_value
    def _committer(self) -> Committer:
        """The committer of this table. It caches lists and manifests, and the newest snapshot.

        It is made on first use, which reads the schema and so settles which table this is.
        """
        return Committer(self._file_io, self._paths)

    def _reset(self) -> None:
        """Forget what was derived from files that this process has replaced; the next operation reads them again."""
        self.__dict__.pop("_committer", None)

    @property
    def _tags(self) -> TagStore:
        return TagStore(self._file_io, self._paths)

    @property
    def _consumers(self) -> ConsumerStore:
        return ConsumerStore(self._file_io, self._paths)

    def _state(self, schema: TableSchema | None = None) -> TableState:
        """Return what reading and writing files needs, as one value.

        schema: a schema of this table; None: the newest, which is looked up.
        """
        load, identity = self._committer.schemas.load, self._committer.identity
        return TableState(self._file_io, self._paths, schema or self.schema, load, identity)
