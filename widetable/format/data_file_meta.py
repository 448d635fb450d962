"""The description of one data file in a manifest.

On disk these are the fields of Paimon `DataFileMeta` (format.md section 4, table of the entry); the names here are
in snake case.
Values only: no I/O, raises nothing. `manifest_file` converts them to Avro records and back.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from widetable.format.column_stats import Stats
from widetable.format.deletion_vector import DeletedRows

# On disk: never change (Paimon `FileSource`).
FILE_SOURCE_APPEND: Final = 0
FILE_SOURCE_COMPACT: Final = 1


class DataFileMeta(NamedTuple):
    """One data file of one bucket.

    min_key, max_key: trimmed primary key of the first and last row, BinaryRow with its arity.
    min_sequence_number, max_sequence_number: of the rows in the file.
    schema_id: the schema whose column names the file uses. level: 0 for written files, higher for
    compacted ones.
    creation_time_millis: local wall clock read as if it were UTC. delete_row_count: exact number of
    -U and -D rows, None when the writer did not record it. value_stats_cols: columns of value_stats, None
    for all columns of the schema.
    file_source: FILE_SOURCE_APPEND or FILE_SOURCE_COMPACT. extra_files: names of files beside this one, such as that of
    its file indexes; embedded_index: the indexes themselves, if they are small. The fields from
    external_path on are preserved for other writers; ours leave them None. deleted: the rows that
    do not count any more, by the index of the snapshot that the meta was read from; no field of manifests.

    A file at another level has another meta: manifests delete the one and add the other.
    The class is a tuple, because a table has very many; its fields come in the order of the manifest's
    columns (`manifest_file`), and so `deleted` is the last.
    """

    file_name: str
    file_size: int
    row_count: int
    min_key: bytes
    max_key: bytes
    key_stats: Stats
    value_stats: Stats
    min_sequence_number: int
    max_sequence_number: int
    schema_id: int
    level: int
    extra_files: tuple[str, ...] = ()
    creation_time_millis: int | None = None
    delete_row_count: int | None = None
    embedded_index: bytes | None = None
    file_source: int | None = None
    value_stats_cols: tuple[str, ...] | None = None
    external_path: str | None = None
    first_row_id: int | None = None
    write_cols: tuple[str, ...] | None = None
    write_cols_sequences: tuple[int, ...] | None = None
    deleted: DeletedRows | None = None


def upgrade(meta: DataFileMeta, level: int) -> DataFileMeta:
    """Return the meta of the file at another level: a manifest has DELETE at the old level, ADD at the new."""
    return meta._replace(level=level)
