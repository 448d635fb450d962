"""The schema files of a table: reads, caches and publishes them.

Source: Paimon `SchemaManager`; format.md section 2. Schema ids are consecutive from 0. A schema file never changes, so
it is cached; another client may delete the first ones. Raises NotFoundError for a directory that is no table and for an
unknown id, DamagedError for bytes that are no schema. A store belongs to one life of a table: create a new one when the
table was dropped and made again.
"""

from __future__ import annotations

from widetable.commit.notes.skipped_files import or_none
from widetable.commit.snapshots.read_back import parsed_back
from widetable.errors import DamagedError, NotFoundError, StorageError
from widetable.messages.error_code import ErrorCode
from widetable.schema import options as opt
from widetable.schema.table_schema import TableSchema, schema_from_json
from widetable.storage.file_io import FileIO
from widetable.storage.paths import DATABASE_SUFFIX, TablePaths, schema_id


class SchemaStore:
    """The schemas of one table. Thread-safe: at worst two threads read the same file."""

    def __init__(self, file_io: FileIO, paths: TablePaths) -> None:
        self._file_io = file_io
        self._paths = paths
        self._loaded: dict[int, TableSchema] = {}
        self._rescaled: tuple[int, bool] | None = None

    def latest(self, at_least: int | None = None) -> TableSchema:
        """Return the schema with the highest id. at_least: an existing id, such as that of a snapshot.

        Lists the directory if no id is known; otherwise it only checks for the next id.
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
        """Return the newest schema that was read here, without a storage request; one must have been read."""
        return self._loaded[max(self._loaded)]

    def first_id(self) -> int:
        """Return the lowest id."""
        ids = self.ids()
        if not ids:
            raise self._no_table()
        return ids[0]

    def load(self, id: int) -> TableSchema:
        """Return the schema of that id. Raises NotFoundError if there is none."""
        schema = self._loaded.get(id)
        if schema is None:
            path = self._paths.schema(id)
            schema = schema_from_json(self._file_io.read(path), path)
            if schema.id != id:
                raise DamagedError(
                    path,
                    found=f"the schema id {schema.id}",
                    expected=f"the id {id} of its name",
                    action="Restore the file from a copy of the table.",
                )
            self._loaded[id] = schema
        return schema

    def ids(self) -> list[int]:
        """Return all ids, ascending; empty if the directory is no table."""
        ids = (schema_id(entry.name) for entry in self._file_io.list(self._paths.schema_dir))
        return sorted(id for id in ids if id is not None)

    def is_rescaled(self) -> bool:
        """Return whether the number of buckets was ever changed: then partitions may have different numbers.

        Schemas that another client deleted count as having another number. The result is cached for the newest schema
        that was read; `latest` looks for newer ones.
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
        """Publish `schema` as the newest one; return False if another process has published that id.

        Raises InvalidError for a schema that could not be read again. After a storage error the file is read: if it has
        these bytes, the schema is published.
        """
        path = self._paths.schema(schema.id)
        data = parsed_back(schema, schema_from_json, path)
        try:
            return self._file_io.publish(path, data)
        except StorageError:
            if or_none(self._file_io.read, path) != data:
                raise
            return True

    def _no_table(self) -> NotFoundError:
        """Return the error for a directory that is no table; for a warehouse or database it suggests a table in it."""
        root = self._paths.root
        content, action = "no schema file", "Check the path, or create the table first."
        names = [entry.name for entry in self._file_io.list(root) if entry.is_dir]
        if names and any(name.endswith(DATABASE_SUFFIX) for name in (root, *names)):
            content, action = (
                "a database or warehouse",
                "Name a table in it; widetable ls lists them.",
            )
        return NotFoundError(
            root,
            found=content,
            expected="the directory of a Paimon table",
            action=action,
            code=ErrorCode.TABLE_NOT_FOUND,
        )
