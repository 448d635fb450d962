"""Index manifests: the index files (deletion vectors, hashes) of a snapshot.

Source: Paimon `IndexManifestEntry`; format.md section 13: an Avro container of entries, all of them live. Entries of
other kinds than HASH and DELETION_VECTORS are read, never written. Raises DamagedError naming the subject,
UnsupportedError for vectors outside the table's directory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from widetable.errors import UnsupportedError
from widetable.format.avro_file import read_avro, write_avro
from widetable.format.avro_nodes import Schema
from widetable.format.avro_schema import array, field, nullable
from widetable.format.bucket_id import BucketId
from widetable.format.damaged_file import damaged_bytes
from widetable.format.manifest_entry import ADD
from widetable.format.manifest_file import record_schema

HASH: Final = "HASH"
DELETION_VECTORS: Final = "DELETION_VECTORS"
_VERSION: Final = 1


class VectorRange(NamedTuple):
    """The position of a data file's deletion vector in an index file; `deletion_vector` explains start and length.
    rows: how many it deletes, None when they were not counted.
    """

    data_file: str
    start: int
    length: int
    rows: int | None = None


class IndexEntry(NamedTuple):
    """An index file. kind: HASH, DELETION_VECTORS, or another word. row_count: of hashes, or vectors. vectors: in file
    order.

    One file may hold the vectors of many data files, and there is one HASH file per bucket.
    file_size: in bytes. The entries of one snapshot are complete: it has no other index files.
    """

    bucket: BucketId
    kind: str
    file_name: str
    file_size: int
    row_count: int
    vectors: tuple[VectorRange, ...] = ()


_NAME: Final = field("_FILE_NAME", "string")
_VECTOR: Final = record_schema(
    "record__DELETIONS_VECTORS_RANGES",
    [
        field("f0", "string"),
        field("f1", "int"),
        field("f2", "int"),
        field("_CARDINALITY", nullable("long")),
    ],
)
_EXTERNAL: Final = field("_EXTERNAL_PATH", nullable("string"))
_HEAD: Final = (field("_VERSION", "int"), field("_KIND", "int"))
_READ: Final = (
    field("_PARTITION", "bytes"),
    field("_BUCKET", "int"),
    field("_INDEX_TYPE", "string"),
    _NAME,
    field("_FILE_SIZE", "long"),
    field("_ROW_COUNT", "long"),
    field("_DELETIONS_VECTORS_RANGES", nullable(array(nullable(_VECTOR)))),
)
# On disk: never change.
INDEX_MANIFEST_SCHEMA: Final[Schema] = record_schema(
    "record",
    [
        *_HEAD,
        *_READ,
        _EXTERNAL,
    ],
    root=True,
)
# The fields between the head and the path are those of IndexEntry, in its order.
_NAMES: Final = tuple(member["name"] for member in INDEX_MANIFEST_SCHEMA["fields"])
_VECTOR_FIELDS: Final = tuple(member["name"] for member in _VECTOR["fields"])
_SIZES_SCHEMA: Final[Schema] = record_schema(
    "record", [_NAME, field("_FILE_SIZE", nullable("long"))], root=True
)


def write_index_manifest(entries: Iterable[IndexEntry]) -> bytes:
    """Return an index manifest of these entries."""
    rows = ((_VERSION, ADD, *entry.bucket, *entry[1:-1], _ranges(entry), None) for entry in entries)
    return write_avro(INDEX_MANIFEST_SCHEMA, (dict(zip(_NAMES, row, strict=True)) for row in rows))


def _ranges(entry: IndexEntry) -> list[dict[str, Any]] | None:
    """Return the ranges; null only for other kinds: Java reads the ranges even of a file that holds no vector any more,
    and fails at null (DeletionVectorsIndexFile.readAllDeletionVectors).
    """
    if entry.kind != DELETION_VECTORS:
        return None
    return [dict(zip(_VECTOR_FIELDS, vector, strict=True)) for vector in entry.vectors]


def read_index_manifest(data: bytes, subject: str) -> list[IndexEntry]:
    """Return the entries, in order. subject: the path, for messages."""
    columns = read_avro(data, INDEX_MANIFEST_SCHEMA, subject)
    _check_heads(columns, subject)
    rows_of_entries = zip(*(columns[member["name"]] for member in _READ), strict=True)
    entries = [
        IndexEntry(BucketId(partition, bucket), kind, name, size, rows, _vectors(ranges))
        for partition, bucket, kind, name, size, rows, ranges in rows_of_entries
    ]
    for entry, external in zip(entries, columns["_EXTERNAL_PATH"], strict=True):
        if external is not None and entry.vectors:
            raise UnsupportedError(
                subject,
                found=f"deletion vectors at the external path {external!r}",
                expected="an index file inside the table's directory",
                action="Read the table with another client.",
            )
    return entries


def _check_heads(columns: Mapping[str, Sequence[Any]], subject: str) -> None:
    """Raise unless all entries have a supported version and are live."""
    versions, kinds = {*columns["_VERSION"]} - {_VERSION}, {*columns["_KIND"]} - {ADD}
    if versions:
        raise UnsupportedError(
            subject,
            found=f"an entry of version {versions.pop()}",
            expected=f"version {_VERSION}",
            action="Read the table with a newer version of this package.",
        )
    if kinds:
        expected = f"live entries only, of kind {ADD}"
        raise damaged_bytes(subject, f"an entry of kind {kinds.pop()}", expected)


def _vectors(ranges: Any) -> tuple[VectorRange, ...]:
    """Return the ranges. Java's type allows a null among them, which is ignored."""
    return tuple(VectorRange(*each) for each in ranges or () if each is not None)


def index_file_sizes(data: bytes, subject: str) -> dict[str, int]:
    """Return the files that an index manifest names, in order, and their bytes, 0 where they are not recorded.

    Only these fields are read, so entries may have any version and kind: use it to find the files in use.
    """
    columns = read_avro(data, _SIZES_SCHEMA, subject)
    sizes = (size_bytes or 0 for size_bytes in columns["_FILE_SIZE"])
    return dict(zip(columns["_FILE_NAME"], sizes, strict=True))
