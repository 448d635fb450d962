"""A piece: the rows of a snapshot that are read at once, a row group of a file or a range of keys. Picklable.

    RowGroup     of a file whose rows are the table's: read as they lie in the file
    KeyRange     of a section of overlapping files: merged, by the read path of scans

In: a piece, and the columns wanted. Out: its rows, in the order of the file or of keys. Raises DamagedError if there
are other rows than were counted, NotFoundError when the snapshot has expired, and what reading data files raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from widetable.errors import DamagedError
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.data_file_reader import DataFile
from widetable.format.projection import Projection, with_columns
from widetable.messages.counted import counted
from widetable.read.expired import files_of
from widetable.read.merge_read import read_bucket
from widetable.read.predicate import Predicate
from widetable.read.split import SplitRead
from widetable.schema.table_schema import TableSchema, file_column


@dataclass(frozen=True)
class RowGroupPiece:
    """A row group of a file. read: of its bucket, with the filter. rows: that the filter keeps."""

    read: SplitRead
    file: DataFileMeta
    group: int
    rows: int

    def known_nulls(self, columns: Iterable[str]) -> Iterator[tuple[str, int]]:
        """Yield those of these columns that have nulls in the file, by its manifest and its schema, and how many."""
        if self.file.deleted is not None:
            return  # the nulls may be in deleted rows
        schema = self.read.table.schema
        file_schema = self.read.table.schema_of(self.file.schema_id)
        counts = _null_counts(self.file, file_schema)
        for name in columns:
            stored = file_column(schema.field(name), file_schema)
            nulls = self.file.row_count if stored is None else counts.get(stored.name)
            if nulls:
                yield name, nulls


@dataclass(frozen=True)
class KeyRangePiece:
    """The merged rows of files. read: of their bucket. predicate: the range of keys, and the filter; None for all."""

    read: SplitRead
    files: tuple[DataFileMeta, ...]
    predicate: Predicate | None
    rows: int


def _null_counts(file: DataFileMeta, file_schema: TableSchema) -> dict[str, int | None]:
    """Return how many nulls each column has in a file; None or no entry where the manifest does not say."""
    names = file.value_stats_cols
    if names is None:
        names = tuple(file_schema.names)
    if len(names) != len(file.value_stats.null_counts):
        return {}
    return dict(zip(names, file.value_stats.null_counts, strict=True))


Piece: TypeAlias = RowGroupPiece | KeyRangePiece


def batches_of_piece(
    piece: Piece, columns: Sequence[str], *, use_threads: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a piece with these columns. use_threads: decode on several cores."""
    split, table = piece.read.split, piece.read.table
    rows = 0
    with files_of(table, split.snapshot_id):
        if isinstance(piece, RowGroupPiece):
            needed = needed_columns(columns, piece.read.predicate)
            with table.opened(split.bucket, piece.file, needed) as opened:
                batches = batches_of_group(
                    opened, piece.group, piece.read, columns, use_threads=use_threads
                )
                for batch in batches:
                    rows += batch.num_rows
                    yield batch
        else:
            for batch in read_bucket(
                table,
                split.bucket,
                piece.files,
                columns,
                piece.predicate,
                merge=True,
                use_threads=use_threads,
            ):
                rows += batch.num_rows
                yield batch
    if rows != piece.rows:
        raise DamagedError(
            f"bucket {split.bucket.number} of {table.paths.root}",
            found=counted(rows, "row"),
            expected=f"{piece.rows}, as were counted in the same files",
            action="Run `widetable audit` on the table.",
        )


def needed_columns(columns: Sequence[str], predicate: Predicate | None) -> tuple[str, ...]:
    """Return the columns that are read: the wanted ones and those of the filter."""
    return tuple(dict.fromkeys([*columns, *(sorted(predicate.columns) if predicate else ())]))


def batches_of_group(
    opened: DataFile,
    group: int,
    read: SplitRead,
    columns: Sequence[str],
    *,
    use_threads: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a row group of an open file that the filter of the read keeps; no batch is empty."""
    schema, predicate = read.table.schema, read.predicate
    requested = Projection(schema.arrow_schema(columns))
    filtered = schema.arrow_schema(sorted(predicate.columns)) if predicate else ()
    for batch in opened.batches(row_groups=[group], use_threads=use_threads):
        if predicate is not None:
            batch = predicate.rows_of(with_columns(batch, filtered))
        if batch.num_rows:
            yield requested.of(batch)
