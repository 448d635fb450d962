"""The storage, paths and schema of a table, for writers, readers and compactions.

It is a value, and holds no open file. `engine` raises UnsupportedError for a merge engine that is not honoured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from widetable.errors import InvalidError
from widetable.format.bucket_id import BucketId
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.data_file_reader import DataFile, open_data_file
from widetable.format.partition_value import partition_texts
from widetable.merge.engine import MergeEngine, engine_of
from widetable.schema import options as opt
from widetable.schema.options import TableOptions
from widetable.schema.table_schema import TableSchema
from widetable.storage.file_io import FileIO
from widetable.storage.kept_inputs import Inputs
from widetable.storage.paths import TablePaths


@dataclass(frozen=True)
class TableState:
    """A table. schema: the schema for writing. schema_of: returns any schema of the table by its id, for older files.
    identity: tells the table from others that had its path (`table_identity`); None: not read.
    """

    file_io: FileIO
    paths: TablePaths
    schema: TableSchema
    schema_of: Callable[[int], TableSchema]
    identity: str | None = None

    @property
    def options(self) -> TableOptions:
        return self.schema.typed_options

    @property
    def has_wide_files(self) -> bool:
        """Whether files of all levels have all columns: old readers cannot merge files with fewer columns."""
        return bool(self.options.get(opt.LEVEL0_COLUMNS) == "all")

    @property
    def engine(self) -> MergeEngine:
        return engine_of(self.schema)

    def named(self, error: InvalidError) -> InvalidError:
        """Return an error of the table's rows, such as an overflow of a sum, with the table's path in its subject."""
        if self.paths.root in error.subject:
            return error
        subject = f"{error.subject} of {self.paths.root}"
        return InvalidError(
            subject,
            found=error.found,
            expected=error.expected,
            action=error.action,
            code=error.code,
        )

    def opened(
        self,
        bucket: BucketId,
        file: DataFileMeta,
        columns: Sequence[str] | None = None,
        *,
        inputs: Inputs | None = None,
    ) -> DataFile:
        """Open a data file of one bucket, with these columns of the table, or all. inputs: opens the file; None: the
        table's storage. Raises what `open_data_file` raises.
        """
        path, file_schema = self.data_file(bucket, file.file_name), self.schema_of(file.schema_id)
        return open_data_file(
            inputs or self.file_io,
            path,
            file,
            self.schema,
            file_schema,
            columns,
            partition=bucket.partition,
        )

    def data_file(self, bucket: BucketId, name: str) -> str:
        """Return the path of a data file of one bucket."""
        texts = partition_texts(bucket.partition, self.schema)
        return self.paths.data_file(texts, bucket.number, name)

    def bucket_dir(self, bucket: BucketId) -> str:
        """Return the directory of a bucket's data files. Raises InvalidError or UnsupportedError for a partition that
        cannot have a directory.
        """
        return self.paths.bucket_dir(partition_texts(bucket.partition, self.schema), bucket.number)
