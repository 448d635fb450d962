"""A table as operations take it: where it is, and what is made of that when it is first asked for. The base of `Table`,
which adds the operations.

Raises NotFoundError for a table that is not there any more, InvalidError for one that was dropped and made again.
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
    """Picklable; holds nothing open; threads may share it. What has an underscore is for operations.

    To make one does no I/O: whether the table is there shows with the first operation. Pickled it
    is path and storage alone, so in another process it looks at everything anew.
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
        """The absolute path of the table's directory; of a branch, of the branch's, which opens it as well."""
        return self._path

    @property
    def branch(self) -> str:
        """The branch that is open: `main`, or the name of another one."""
        return self._paths.branch

    @property
    def schema(self) -> TableSchema:
        """The newest schema, looked up on each call. Raises NotFoundError when the table is not there any more,
        InvalidError when it was dropped and made again.
        """
        self._check_alive()
        return self._committer.schemas.latest()

    def _check_alive(self) -> None:
        """Raises InvalidError when another table is there by now, NotFoundError when none is."""
        check_identity(self._file_io, self._paths, self._committer.identity)

    @contextlib.contextmanager
    def _of_one_life(self) -> Iterator[None]:
        """What the block finds is of this table. Another one, or none, is an error behind it, whether the block found
        what it looked for or not: numbers of snapshots, names of tags and consumers are given again in another table.
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
        """Made when it is first asked for, which reads the schema: which table this is is settled
        then. It keeps lists and manifests that were read, and remembers what was newest.
        """
        return Committer(self._file_io, self._paths)

    def _open_anew(self) -> None:
        """Forget what was derived from files that are others now.
        For an operation of ours that put them there; the next one takes the table that it finds.
        """
        self.__dict__.pop("_committer", None)

    @property
    def _tags(self) -> TagStore:
        return TagStore(self._file_io, self._paths)

    @property
    def _consumers(self) -> ConsumerStore:
        return ConsumerStore(self._file_io, self._paths)

    def _state(self, schema: TableSchema | None = None) -> TableState:
        """With a schema of this table; None: the newest.
        What reading and writing files needs, as one value. The newest schema is looked up.
        """
        load, identity = self._committer.schemas.load, self._committer.identity
        return TableState(self._file_io, self._paths, schema or self.schema, load, identity)
