"""Index manifests that are written anew say the same as those that Paimon's Java wrote."""

from __future__ import annotations

import io
from typing import Any

import fastavro
import pytest

from tests.support.tables.fixture_tables import ROOT
from widetable.errors import DamagedError, UnsupportedError
from widetable.format.avro_file import write_avro
from widetable.format.index_manifest import (
    INDEX_MANIFEST_SCHEMA,
    read_index_manifest,
    write_index_manifest,
)

# `dv_parts_compacted` has entries of vector files without a vector: their ranges are empty, not null, which Java needs.
WRITTEN = [
    path
    for table in ("dv", "dv_dynamic", "dv_parts_compacted", "dynamic")
    for path in sorted((ROOT / "wh_others/others.db" / table / "manifest").glob("index-manifest-*"))
]


def records(data: bytes) -> list[dict[str, Any]]:
    found: list[Any] = list(fastavro.reader(io.BytesIO(data)))
    return found


@pytest.mark.parametrize("number", range(len(WRITTEN)))
def test_the_same_records_as_java(number: int) -> None:
    data = WRITTEN[number].read_bytes()
    again = write_index_manifest(read_index_manifest(data, "java's"))
    theirs, ours = records(data), records(again)
    # Newer fields of Java (`_GLOBAL_INDEX`) are null, and not written.
    extra = {name for record in theirs for name in record} - {*ours[0]}
    assert not any(record.pop(name) for record in theirs for name in extra)
    assert ours == theirs


def test_entries_of_another_version_or_kind_are_refused() -> None:
    own = write_index_manifest(read_index_manifest(WRITTEN[0].read_bytes(), "java's"))
    for name, value, error in (("_VERSION", 2, UnsupportedError), ("_KIND", 1, DamagedError)):
        changed = [{**record, name: value} for record in records(own)]
        with pytest.raises(error, match="index-0"):
            read_index_manifest(write_avro(INDEX_MANIFEST_SCHEMA, changed), "index-0")
