"""The schema files of a table: read, remember, publish.

Source: Paimon `SchemaManager`; format.md section 2. Schema ids are consecutive from 0, a schema file never
changes, so what was read once is kept; another client may let the first ones go. Raises NotFoundError for a directory
that is no table and for an unknown id, DamagedError for bytes that are no schema. A store belongs to one life of a
table: make a new one when the table was dropped and made again.
"""

from __future__ import annotations

from widetable.commit.notes.skipped_files import if_there
from widetable.commit.snapshots.read_back import parsed_back
from widetable.errors import DamagedError, NotFoundError, StorageError
from widetable.schema import options as opt
from widetable.schema.table_schema import TableSchema, schema_from_json
from widetable.storage.file_io import FileIO
from widetable.storage.paths import DATABASE_SUFFIX, TablePaths, schema_id


class SchemaStore:
    """Thread-safe: two threads at worst read the same file twice."""

    def __init__(self, file_io: FileIO, paths: TablePaths) -> None:
        self._file_io = file_io
        self._paths = paths
        self._loaded: dict[int, TableSchema] = {}
        self._rescaled: tuple[int, bool] | None = None

    def latest(self, at_least: int | None = None) -> TableSchema:
        """The schema with the highest id. at_least: one that is known to be there, as a snapshot names it. Where none
        is known the directory is listed; otherwise the next id is looked for only.
        """
        newest = max([*self._loaded, *([] if at_least is None else [at_least])], default=None)
        if newest is None:
            ids = self.ids()
            if not ids:
                raise self._no_table()
            newest = ids[-1]
        while self._file_io.exists(self._paths.schema(newest + 1)):
            newest += 1
        return self.load(newest)

    def known(self) -> TableSchema:
        """The newest that was read here, without a look; one must have been."""
        return self._loaded[max(self._loaded)]

    def first_id(self) -> int:
        """The lowest id."""
        ids = self.ids()
        if not ids:
            raise self._no_table()
        return ids[0]

    def load(self, id: int) -> TableSchema:
        """The schema of that id. Raises NotFoundError when there is none."""
        found = self._loaded.get(id)
        if found is None:
            path = self._paths.schema(id)
            found = schema_from_json(self._file_io.read(path), path)
            if found.id != id:
                raise DamagedError(
                    path,
                    found=f"the schema id {found.id}",
                    expected=f"the id {id} of its name",
                    action="Restore the file from a copy of the table.",
                )
            self._loaded[id] = found
        return found

    def ids(self) -> list[int]:
        """All ids, ascending; empty when the directory is no table."""
        found = (schema_id(entry.name) for entry in self._file_io.list(self._paths.schema_dir))
        return sorted(id for id in found if id is not None)

    def is_rescaled(self) -> bool:
        """Whether the number of buckets was ever changed: then partitions may have different ones. Of schemas that
        another client let go nothing is known: they count as having another number. Looked up once per newest schema
        that was read: `latest` looks for newer ones.
        """
        newest = self.known() if self._loaded else self.latest()
        if self._rescaled is None or self._rescaled[0] != newest.id:
            self._rescaled = newest.id, self._was_rescaled(newest)
        return self._rescaled[1]

    def _was_rescaled(self, newest: TableSchema) -> bool:
        bucket = newest.options.get(opt.BUCKET.key)
        try:
            return any(self._bucket_of(id) != bucket for id in range(newest.id))
        except NotFoundError:
            return True

    def _bucket_of(self, id: int) -> str | None:
        return self.load(id).options.get(opt.BUCKET.key)

    def publish(self, schema: TableSchema) -> bool:
        """Make `schema` the newest one: False when somebody else has published that id.

        InvalidError for one that nobody could read again. An error of the storage is looked into: when the file is
        there with these bytes, it is published.
        """
        path = self._paths.schema(schema.id)
        data = parsed_back(schema, schema_from_json, path)
        try:
            return self._file_io.publish(path, data)
        except StorageError:
            if if_there(self._file_io.read, path) != data:
                raise
            return True

    def _no_table(self) -> NotFoundError:
        """Who names a warehouse or a database means one of its tables."""
        root = self._paths.root
        found, action = "no schema file", "Check the path, or make the table first."
        names = [entry.name for entry in self._file_io.list(root) if entry.is_dir]
        if names and any(name.endswith(DATABASE_SUFFIX) for name in (root, *names)):
            found, action = (
                "a database or warehouse",
                "Name a table in it; widetable ls lists them.",
            )
        return NotFoundError(
            root, found=found, expected="the directory of a Paimon table", action=action
        )
