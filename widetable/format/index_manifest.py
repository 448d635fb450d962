"""Index manifests: which index files (deletion vectors, hashes) belong to a snapshot. Only their names are read.

Source: Paimon `IndexManifestEntry`; format.md section 13: an Avro container whose records carry `_FILE_NAME`. Tables
whose rows depend on such files are refused; cleaning must not take the files of others. Raises DamagedError naming
the subject.
"""

from __future__ import annotations

from typing import Final

from widetable.format.avro_file import read_avro
from widetable.format.avro_schema import Schema, field
from widetable.format.manifest_file import record_schema

_SCHEMA: Final[Schema] = record_schema("record", [field("_FILE_NAME", "string")], root=True)


def index_file_names(data: bytes, subject: str) -> list[str]:
    """The files that an index manifest names, in order. subject: its path, for messages."""
    return list(read_avro(data, _SCHEMA, subject)["_FILE_NAME"])
