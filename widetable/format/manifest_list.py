"""Manifest lists: files that name the manifests of a snapshot, with bounds by which readers skip some of
them.

Source: Paimon `ManifestList`, `ManifestFileMeta`; the Avro schema is format.md section 4, field by
field as Java writes it. In: ManifestFileMeta values; out: bytes, and back. Raises DamagedError
naming the subject, nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Final

from widetable.format.avro_file import Record, read_avro, write_avro
from widetable.format.avro_schema import field, nullable
from widetable.format.manifest_entry import ENTRY_VERSION
from widetable.format.manifest_file import (
    ManifestFileMeta,
    read_stats,
    record_schema,
    stats_schema,
    stats_to_record,
)

# On disk: never change.
MANIFEST_LIST_SCHEMA: Final = record_schema(
    "record",
    [
        field("_VERSION", "int"),
        field("_FILE_NAME", "string"),
        field("_FILE_SIZE", "long"),
        field("_NUM_ADDED_FILES", "long"),
        field("_NUM_DELETED_FILES", "long"),
        field("_PARTITION_STATS", stats_schema("record__PARTITION_STATS")),
        field("_SCHEMA_ID", "long"),
        field("_MIN_BUCKET", nullable("int")),
        field("_MAX_BUCKET", nullable("int")),
        field("_MIN_LEVEL", nullable("int")),
        field("_MAX_LEVEL", nullable("int")),
        field("_MIN_ROW_ID", nullable("long")),
        field("_MAX_ROW_ID", nullable("long")),
    ],
    root=True,
)


# The fields of ManifestFileMeta, in its order.
_NAMES: Final = [member["name"] for member in MANIFEST_LIST_SCHEMA["fields"][1:]]


def write_manifest_list(metas: Iterable[ManifestFileMeta]) -> bytes:
    """Return a manifest list of these manifests, in this order; it may be empty."""
    return write_avro(MANIFEST_LIST_SCHEMA, map(_to_record, metas))


def read_manifest_list(data: bytes, subject: str) -> list[ManifestFileMeta]:
    """Return the manifests that a list names, in file order. subject: its path, for messages."""
    columns = read_avro(data, MANIFEST_LIST_SCHEMA, subject)
    values = [columns[name] if name in columns else read_stats(columns, name) for name in _NAMES]
    return list(map(ManifestFileMeta, *values))


def _to_record(meta: ManifestFileMeta) -> Record:
    record = {name: getattr(meta, f.name) for name, f in zip(_NAMES, fields(meta), strict=True)}
    stats = stats_to_record(meta.partition_stats)
    return {"_VERSION": ENTRY_VERSION, **record, "_PARTITION_STATS": stats}
