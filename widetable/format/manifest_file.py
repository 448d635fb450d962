"""Manifests: files that list which data files were added to and deleted from a table.

Source: Paimon `ManifestFile`, `ManifestFileMeta`, `ManifestEntry`; the Avro schema is format.md
section 4, field by field as Java writes it. In: entries; out: bytes, and back. Raises DamagedError
naming the subject, nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import Any, Final

from widetable.format.avro_file import Columns, Record, read_avro, write_avro
from widetable.format.avro_nodes import Schema
from widetable.format.avro_schema import array, field, nullable
from widetable.format.column_stats import Stats
from widetable.format.damaged_file import damaged_bytes
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.manifest_entry import ADD, DELETE, ENTRY_VERSION, ManifestEntry
from widetable.runtime.collector_pause import collector_paused

_NAMESPACE: Final = "org.apache.paimon.avro.generated"


@dataclass(frozen=True, slots=True)
class ManifestFileMeta:
    """The description of one manifest in a manifest list.

    file_size: exact bytes. partition_stats: of the entries' partitions. Buckets, levels: smallest
    and largest of the entries, None when the writer did not record them. min_row_id, max_row_id:
    preserved for other writers; ours leave them None.

    Readers skip a manifest by its bounds; a manifest that they do not rule out may still hold no
    matching entry.
    """

    file_name: str
    file_size: int
    num_added_files: int
    num_deleted_files: int
    partition_stats: Stats
    schema_id: int
    min_bucket: int | None = None
    max_bucket: int | None = None
    min_level: int | None = None
    max_level: int | None = None
    min_row_id: int | None = None
    max_row_id: int | None = None


def record_schema(name: str, fields: Sequence[Schema], *, root: bool = False) -> Schema:
    """Return a record type; only the outermost one has the namespace."""
    head: Schema = {"type": "record", "name": name}
    return head | ({"namespace": _NAMESPACE} if root else {}) | {"fields": list(fields)}


def stats_schema(name: str) -> Schema:
    """Return the record type of `Stats`."""
    return record_schema(
        name,
        [
            field("_MIN_VALUES", "bytes"),
            field("_MAX_VALUES", "bytes"),
            field("_NULL_COUNTS", nullable(array(nullable("long")))),
        ],
    )


# On disk: never change.
_FILE_FIELDS: Final = (
    field("_FILE_NAME", "string"),
    field("_FILE_SIZE", "long"),
    field("_ROW_COUNT", "long"),
    field("_MIN_KEY", "bytes"),
    field("_MAX_KEY", "bytes"),
    field("_KEY_STATS", stats_schema("record__FILE__KEY_STATS")),
    field("_VALUE_STATS", stats_schema("record__FILE__VALUE_STATS")),
    field("_MIN_SEQUENCE_NUMBER", "long"),
    field("_MAX_SEQUENCE_NUMBER", "long"),
    field("_SCHEMA_ID", "long"),
    field("_LEVEL", "int"),
    field("_EXTRA_FILES", array("string")),
    field("_CREATION_TIME", nullable({"type": "long", "logicalType": "timestamp-millis"})),
    field("_DELETE_ROW_COUNT", nullable("long")),
    field("_EMBEDDED_FILE_INDEX", nullable("bytes")),
    field("_FILE_SOURCE", nullable("int")),
    field("_VALUE_STATS_COLS", nullable(array("string"))),
    field("_EXTERNAL_PATH", nullable("string")),
    field("_FIRST_ROW_ID", nullable("long")),
    field("_WRITE_COLS", nullable(array("string"))),
    field("_WRITE_COLS_SEQUENCES", nullable(array("long"))),
)
MANIFEST_SCHEMA: Final = record_schema(
    "record",
    [
        field("_VERSION", "int"),
        field("_KIND", "int"),
        field("_PARTITION", "bytes"),
        field("_BUCKET", "int"),
        field("_TOTAL_BUCKETS", "int"),
        field("_FILE", record_schema("record__FILE", _FILE_FIELDS)),
    ],
    root=True,
)
# The fields of DataFileMeta and ManifestEntry have this order; `deleted`, the last of DataFileMeta, is not on disk.
_FILE_NAMES: Final = tuple(member["name"] for member in _FILE_FIELDS)
_ENTRY_NAMES: Final = tuple(member["name"] for member in MANIFEST_SCHEMA["fields"])
# These are written as lists: in a union Avro's encoder interprets a tuple as (branch name, value).
_NULLABLE_LISTS: Final = ("_VALUE_STATS_COLS", "_WRITE_COLS", "_WRITE_COLS_SEQUENCES")


def stats_to_record(stats: Stats) -> Record:
    """Return the Avro record of stats."""
    low, high, counts = stats
    return {"_MIN_VALUES": low, "_MAX_VALUES": high, "_NULL_COUNTS": list(counts)}


def _to_record(entry: ManifestEntry) -> Record:
    file = dict(zip(_FILE_NAMES, entry.file, strict=False))
    for name in ("_KEY_STATS", "_VALUE_STATS"):
        file[name] = stats_to_record(file[name])
    for name in _NULLABLE_LISTS:
        file[name] = None if file[name] is None else list(file[name])
    return dict(zip(_ENTRY_NAMES, (ENTRY_VERSION, *entry[:-1], file), strict=True))


def write_manifest(entries: Iterable[ManifestEntry]) -> bytes:
    """Return a manifest with these entries, in this order."""
    return write_avro(MANIFEST_SCHEMA, map(_to_record, entries))


def read_manifest(data: bytes, subject: str) -> list[ManifestEntry]:
    """Return the entries of a manifest, in file order. subject: its path, for messages.

    Entries of the same file are not combined (`manifest_entry.combine`). The garbage collector is
    paused while all entries are created.
    """
    with collector_paused():
        return _entries(data, subject)


def _entries(data: bytes, subject: str) -> list[ManifestEntry]:
    columns = read_avro(data, MANIFEST_SCHEMA, subject)
    kinds = columns["_KIND"]
    wrong = set(kinds) - {ADD, DELETE}
    if wrong:
        expected = f"{ADD} (added) or {DELETE} (deleted)"
        raise damaged_bytes(subject, f"the entry kind {min(wrong)}", expected)
    heads = [columns[name] for name in ("_PARTITION", "_BUCKET", "_TOTAL_BUCKETS")]
    return list(map(ManifestEntry._make, zip(kinds, *heads, _files(columns), strict=True)))


def _files(columns: Columns) -> Iterator[DataFileMeta]:
    values: list[Iterable[Any]] = []
    for name in _FILE_NAMES:
        path = f"_FILE.{name}"
        values.append(columns[path] if path in columns else read_stats(columns, path))
    return starmap(DataFileMeta, zip(*values, strict=True))


def read_stats(columns: Columns, path: str) -> Iterator[Stats]:
    """Return the stats of all records. path: of their field. A null list of counts (old writers) is an empty one."""
    counts = [c if c is not None else () for c in columns[f"{path}._NULL_COUNTS"]]
    bounds = columns[f"{path}._MIN_VALUES"], columns[f"{path}._MAX_VALUES"]
    return map(Stats._make, zip(*bounds, counts, strict=True))
