"""Manifests and manifest lists: other writers' files, our own, other codecs, and damage."""

from __future__ import annotations

import gc
import io
import json
import random
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.faults.damage import damaged_copies, refused_subject
from tests.support.tables.fixture_tables import JAVA_TABLES, TABLES
from widetable.errors import DamagedError, UnsupportedError
from widetable.format.column_stats import EMPTY_STATS, Stats, unknown_stats
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.manifest_entry import ADD, DELETE, ManifestEntry
from widetable.format.manifest_file import (
    MANIFEST_SCHEMA,
    ManifestFileMeta,
    read_manifest,
    write_manifest,
)
from widetable.format.manifest_list import (
    MANIFEST_LIST_SCHEMA,
    read_manifest_list,
    write_manifest_list,
)

MANIFESTS = [p for table in TABLES for p in table.manifests()]
MANIFEST_LISTS = [p for table in TABLES for p in table.manifest_lists()]
JAVA_FILES = [p for t in JAVA_TABLES for p in (*t.manifests(), *t.manifest_lists())]


def avro_schema(data: bytes) -> Any:
    return json.loads(fastavro.reader(io.BytesIO(data)).metadata["avro.schema"])


def recoded(data: bytes, codec: str, change: Callable[[Any, list[Any]], None]) -> bytes:
    """The same records under a changed schema and codec."""
    schema = avro_schema(data)
    records = list(fastavro.reader(io.BytesIO(data)))
    change(schema, records)
    out = io.BytesIO()
    fastavro.writer(out, schema, records, codec=codec)
    return out.getvalue()


def unchanged(schema: Any, records: list[Any]) -> None:
    pass


def test_every_manifest_of_other_writers_comes_back() -> None:
    assert len(MANIFESTS) > 50
    for path in MANIFESTS:
        entries = read_manifest(path.read_bytes(), str(path))
        assert entries
        assert read_manifest(write_manifest(entries), "ours") == entries


def test_every_manifest_list_of_other_writers_comes_back() -> None:
    assert len(MANIFEST_LISTS) > 100
    for path in MANIFEST_LISTS:
        metas = read_manifest_list(path.read_bytes(), str(path))
        assert read_manifest_list(write_manifest_list(metas), "ours") == metas
        for meta in metas:
            manifest = (path.parent / meta.file_name).read_bytes()
            entries = read_manifest(manifest, meta.file_name)
            assert meta.file_size == len(manifest)
            assert meta.num_added_files == sum(e.kind == ADD for e in entries)
            assert meta.num_deleted_files == sum(e.kind == DELETE for e in entries)
            assert meta.min_bucket == min(e.bucket for e in entries)
            assert meta.max_level == max(e.file.level for e in entries)


@pytest.mark.parametrize("path", JAVA_FILES[:20] + JAVA_FILES[-20:], ids=lambda p: p.name[-12:])
def test_schema_is_java_s_field_by_field(path: Path) -> None:
    theirs = avro_schema(path.read_bytes())
    is_list = path.name.startswith("manifest-list")
    ours = write_manifest_list([]) if is_list else write_manifest([])
    assert avro_schema(ours) == theirs
    assert list(avro_schema(ours)) == list(theirs)


def test_container_says_zstandard() -> None:
    metadata = fastavro.reader(io.BytesIO(write_manifest([]))).metadata
    assert metadata["avro.codec"] == "zstandard"


KEY = bytes.fromhex("000000010000000000000000" + "2a00000000000000")
FULL = ManifestEntry(
    DELETE,
    KEY,
    3,
    16,
    DataFileMeta(
        file_name="data-ü.parquet",
        file_size=2**40,
        row_count=0,
        min_key=KEY,
        max_key=b"",
        key_stats=Stats(KEY, KEY, (0,)),
        value_stats=Stats(KEY, KEY, (None, 2**62, 0)),
        min_sequence_number=-(2**63),
        max_sequence_number=2**63 - 1,
        schema_id=7,
        level=5,
        extra_files=("a.index", "b"),
        creation_time_millis=1_700_000_000_123,
        delete_row_count=3,
        embedded_index=b"\0\xff",
        file_source=1,
        value_stats_cols=("x", "y"),
        external_path="s3://b/f",
        first_row_id=12,
        write_cols=("k",),
        write_cols_sequences=(1, 2),
    ),
)
BARE = FULL._replace(
    kind=ADD,
    file=DataFileMeta("f", 1, 1, KEY, KEY, unknown_stats(200), EMPTY_STATS, 0, 0, 0, 0),
)


def test_every_field_comes_back() -> None:
    assert read_manifest(write_manifest([FULL, BARE]), "m") == [FULL, BARE]


def test_time_that_no_calendar_has_comes_back() -> None:
    entry = BARE._replace(file=BARE.file._replace(creation_time_millis=-(2**62)))
    assert read_manifest(write_manifest([entry]), "m") == [entry]


def test_records_are_read_by_avro_itself() -> None:
    records: list[Any] = list(fastavro.reader(io.BytesIO(write_manifest([FULL, BARE]))))
    record = records[0]
    assert record["_VERSION"] == 2
    file = record["_FILE"]
    assert file["_VALUE_STATS"]["_NULL_COUNTS"] == [None, 2**62, 0]
    assert file["_WRITE_COLS"] == ["k"]


def test_block_with_another_sync_mark_is_refused() -> None:
    data = bytearray(write_manifest([BARE]))
    data[-1] ^= 1
    with pytest.raises(DamagedError, match="sync mark"):
        read_manifest(bytes(data), "m")


def test_many_entries_span_blocks_and_keep_their_order() -> None:
    entries = [BARE._replace(bucket=i, file=FULL.file._replace(file_size=i)) for i in range(9000)]
    assert read_manifest(write_manifest(entries), "m") == entries


def test_empty_manifest_list_is_a_file() -> None:
    assert read_manifest_list(write_manifest_list([]), "l") == []


def test_manifest_list_fields_come_back() -> None:
    bare = ManifestFileMeta("manifest-x", 9, 1, 0, EMPTY_STATS, 2)
    full = ManifestFileMeta("manifest-y", 9, 1, 5, Stats(KEY, KEY, (1,)), 2, 0, 7, 0, 5, 11, 12)
    assert read_manifest_list(write_manifest_list([bare, full]), "l") == [bare, full]


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "zstandard"])
def test_other_codecs_are_read(codec: str) -> None:
    if codec == "snappy":
        pytest.importorskip("cramjam", reason="fastavro writes snappy with it")
    for path in MANIFESTS[:10]:
        data = path.read_bytes()
        entries = read_manifest(data, str(path))
        assert read_manifest(recoded(data, codec, unchanged), "recoded") == entries


def test_snappy_block_made_by_hand_is_read() -> None:
    entries = [BARE] * 3  # one block
    plain = recoded(write_manifest(entries), "null", unchanged)
    header = plain.index(plain[-16:]) + 16
    at, numbers = header, []
    for _ in range(2):
        value = shift = 0
        while True:
            byte = plain[at]
            value, shift, at = value | (byte & 0x7F) << shift, shift + 7, at + 1
            if byte < 0x80:
                break
        numbers.append(value)
    block = plain[at : at + numbers[1] // 2]
    snappy = pa.compress(block, codec="snappy", asbytes=True) + zlib.crc32(block).to_bytes(4, "big")
    size = varint(2 * len(snappy))
    head = plain[:header].replace(b"\x08null", b"\x0csnappy")
    data = head + varint(numbers[0]) + size + snappy + plain[-16:]
    assert read_manifest(data, "m") == entries
    wrong_sum = bytearray(data)
    wrong_sum[-20] ^= 1
    with pytest.raises(DamagedError, match="checksum"):
        read_manifest(bytes(wrong_sum), "m")


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def test_unknown_codec_is_refused_by_name() -> None:
    data = write_manifest([BARE]).replace(b"\x12zstandard"[1:], b"zstandarx")
    with pytest.raises(UnsupportedError, match="zstandarx"):
        read_manifest(data, "m")


def test_missing_trailing_fields_are_null() -> None:
    def drop(schema: Any, records: list[Any]) -> None:
        fields = schema["fields"][5]["type"]["fields"]
        del fields[12:]

    (entry,) = read_manifest(recoded(write_manifest([FULL]), "null", drop), "m")
    assert entry.file.creation_time_millis is None
    assert entry.file.write_cols_sequences is None
    assert entry.file.extra_files == ("a.index", "b")


def test_unknown_fields_are_skipped() -> None:
    def add(schema: Any, records: list[Any]) -> None:
        point = {"type": "record", "name": "point", "fields": [{"name": "x", "type": "double"}]}
        kind = ["null", {"type": "map", "values": {"type": "array", "items": point}}]
        schema["fields"].insert(3, {"name": "_NEW", "type": kind})
        for record in records:
            record["_NEW"] = {"a": [{"x": 1.5}]}

    data = recoded(write_manifest([BARE, BARE]), "deflate", add)
    assert read_manifest(data, "m") == [BARE, BARE]


@pytest.mark.parametrize("field", ["_KIND", "_PARTITION", "_BUCKET", "_TOTAL_BUCKETS", "_FILE"])
def test_missing_required_field_is_named(field: str) -> None:
    def drop(schema: Any, records: list[Any]) -> None:
        schema["fields"] = [f for f in schema["fields"] if f["name"] != field]

    with pytest.raises(DamagedError, match=field) as caught:
        read_manifest(recoded(write_manifest([BARE]), "null", drop), "manifest/m")
    assert caught.value.subject == "manifest/m"


def test_field_of_another_type_is_named() -> None:
    def text_size(schema: Any, records: list[Any]) -> None:
        schema["fields"][5]["type"]["fields"][1]["type"] = "string"
        for record in records:
            record["_FILE"]["_FILE_SIZE"] = "1"

    with pytest.raises(DamagedError, match="_FILE_SIZE"):
        read_manifest(recoded(write_manifest([BARE]), "null", text_size), "m")


def test_unknown_entry_kind_is_refused() -> None:
    with pytest.raises(DamagedError, match="entry kind 2"):
        read_manifest(write_manifest([BARE._replace(kind=2)]), "m")


def test_manifest_list_is_no_manifest() -> None:
    with pytest.raises(DamagedError):
        read_manifest(write_manifest_list([]), "m")


@pytest.mark.parametrize("data", [b"", b"Obj", b"Obj\x01", b"PAR1" * 9, b"{}", bytes(100)])
def test_what_is_no_avro_is_refused(data: bytes) -> None:
    for read in (read_manifest, read_manifest_list):
        with pytest.raises(DamagedError) as caught:
            read(data, "manifest/m")
        assert caught.value.subject == "manifest/m"


DAMAGEABLE = [
    (read_manifest, write_manifest([FULL, BARE] * 5)),
    (read_manifest, recoded(write_manifest([FULL, BARE] * 5), "null", unchanged)),
    (read_manifest, recoded(write_manifest([FULL, BARE] * 5), "deflate", unchanged)),
    (
        read_manifest_list,
        write_manifest_list(
            [ManifestFileMeta("manifest-x", 9, 1, 0, EMPTY_STATS, 2, 0, 1, 0, 5)] * 9
        ),
    ),
]


@pytest.mark.parametrize(("read", "data"), DAMAGEABLE, ids=["zstd", "null", "deflate", "list"])
def test_truncated_files_are_refused(read: Callable[[bytes, str], Any], data: bytes) -> None:
    whole = read(data, "m")
    for length in [*range(0, len(data), 7), len(data) - 1]:
        piece = data[:length]
        if refused_subject(partial(read, piece, "m")) != "m":
            # Cut right behind the header a container is whole and empty: the size in the list and
            # the snapshot says that something is missing.
            assert read(piece, "m") in ([], whole)


@given(st.randoms(use_true_random=False), st.sampled_from(DAMAGEABLE))
def test_garbage_is_refused_or_read_but_raises_nothing_else(
    random: random.Random, case: tuple[Callable[[bytes, str], Any], bytes]
) -> None:
    read, data = case
    for piece in damaged_copies(data, random):
        assert refused_subject(partial(read, piece, "m")) in (None, "m")


def test_schemas_name_every_field_once() -> None:
    for schema in (MANIFEST_SCHEMA, MANIFEST_LIST_SCHEMA):
        names = [f["name"] for f in schema["fields"]]
        assert len(set(names)) == len(names)


@pytest.mark.parametrize("running", [True, False])
@pytest.mark.parametrize("data", [write_manifest([FULL, BARE]), b"no manifest"])
def test_collector_is_afterwards_as_it_was(data: bytes, running: bool) -> None:
    (gc.enable if running else gc.disable)()
    try:
        with suppress(DamagedError):
            read_manifest(data, "m")
        assert gc.isenabled() == running
    finally:
        gc.enable()


def test_collector_does_not_run_over_the_entries_that_are_made() -> None:
    data = write_manifest([BARE] * 5_000)
    rounds: list[str] = []

    def count(phase: str, _: dict[str, int]) -> None:
        rounds.append(phase)

    gc.callbacks.append(count)
    try:
        assert len(read_manifest(data, "m")) == 5_000
        assert rounds.count("start") <= 1
    finally:
        gc.callbacks.remove(count)
