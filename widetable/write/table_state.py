"""What a writer or a compaction needs to know of a table: where it is, and what its schema says.

A value; it holds no open file. Raises UnsupportedError from `engine` for a merge engine that is not honoured.
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
    """schema: the one to write with. schema_of: any schema of the table by its id, for files that older ones wrote.
    identity: which life of the table it is (`table_identity`); None: nobody has asked.
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
        """Whether files have all columns, at all levels: for old readers, who lose what a file beside lacks."""
        return bool(self.options.get(opt.LEVEL0_COLUMNS) == "all")

    @property
    def engine(self) -> MergeEngine:
        return engine_of(self.schema)

    def named(self, error: InvalidError) -> InvalidError:
        """An error of the table's rows, such as a sum that does not fit, with the table in its subject."""
        if self.paths.root in error.subject:
            return error
        subject = f"{error.subject} of {self.paths.root}"
        return InvalidError(
            subject, found=error.found, expected=error.expected, action=error.action
        )

    def opened(
        self,
        bucket: BucketId,
        file: DataFileMeta,
        columns: Sequence[str] | None = None,
        *,
        inputs: Inputs | None = None,
    ) -> DataFile:
        """A data file of one bucket, with these columns of the table, or all. inputs: what opens it; None: the table's
        storage. Raises what `open_data_file` raises.
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
        """The path of a data file of one bucket."""
        texts = partition_texts(bucket.partition, self.schema)
        return self.paths.data_file(texts, bucket.number, name)

    def bucket_dir(self, bucket: BucketId) -> str:
        """Where its data files are. Raises InvalidError or UnsupportedError for a partition that can have none."""
        return self.paths.bucket_dir(partition_texts(bucket.partition, self.schema), bucket.number)
