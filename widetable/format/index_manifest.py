"""Index manifests: which index files (deletion vectors, hashes) belong to a snapshot.

Source: Paimon `IndexManifestEntry`; format.md section 13: an Avro container of entries, all of them live. Written are
entries of hash indexes only; tables whose rows depend on other ones are refused. Raises DamagedError naming the
subject.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from widetable.format.avro_file import read_avro, write_avro
from widetable.format.avro_schema import Schema, array, field, nullable
from widetable.format.bucket_id import BucketId
from widetable.format.manifest_entry import ADD
from widetable.format.manifest_file import record_schema

HASH: Final = "HASH"
_VERSION: Final = 1


class IndexEntry(NamedTuple):
    """kind: HASH, or another word. row_count: of hashes."""

    bucket: BucketId
    kind: str
    file_name: str
    file_size: int
    row_count: int


_NAME: Final = field("_FILE_NAME", "string")
_READ: Final = (
    field("_PARTITION", "bytes"),
    field("_BUCKET", "int"),
    field("_INDEX_TYPE", "string"),
    _NAME,
    field("_FILE_SIZE", "long"),
    field("_ROW_COUNT", "long"),
)
_VECTOR: Final = record_schema(
    "record__DELETIONS_VECTORS_RANGES",
    [
        field("f0", "string"),
        field("f1", "int"),
        field("f2", "int"),
        field("_CARDINALITY", nullable("long")),
    ],
)
# On disk: never change.
INDEX_MANIFEST_SCHEMA: Final[Schema] = record_schema(
    "record",
    [
        field("_VERSION", "int"),
        field("_KIND", "int"),
        *_READ,
        field("_DELETIONS_VECTORS_RANGES", nullable(array(nullable(_VECTOR)))),
        field("_EXTERNAL_PATH", nullable("string")),
    ],
    root=True,
)
_NAMES_SCHEMA: Final[Schema] = record_schema("record", [_NAME], root=True)
_ENTRIES_SCHEMA: Final[Schema] = record_schema("record", list(_READ), root=True)


def write_index_manifest(entries: Iterable[IndexEntry]) -> bytes:
    """An index manifest of these entries of hash indexes."""
    return write_avro(
        INDEX_MANIFEST_SCHEMA,
        (
            {
                "_VERSION": _VERSION,
                "_KIND": ADD,
                "_PARTITION": entry.bucket.partition,
                "_BUCKET": entry.bucket.number,
                "_INDEX_TYPE": entry.kind,
                "_FILE_NAME": entry.file_name,
                "_FILE_SIZE": entry.file_size,
                "_ROW_COUNT": entry.row_count,
                "_DELETIONS_VECTORS_RANGES": None,
                "_EXTERNAL_PATH": None,
            }
            for entry in entries
        ),
    )


def read_index_manifest(data: bytes, subject: str) -> list[IndexEntry]:
    """The entries, in order. subject: the path, for messages."""
    columns = read_avro(data, _ENTRIES_SCHEMA, subject)
    found = zip(*(columns[member["name"]] for member in _READ), strict=True)
    return [IndexEntry(BucketId(partition, bucket), *rest) for partition, bucket, *rest in found]


def index_file_names(data: bytes, subject: str) -> list[str]:
    """The files that an index manifest names, in order."""
    return list(read_avro(data, _NAMES_SCHEMA, subject)["_FILE_NAME"])
