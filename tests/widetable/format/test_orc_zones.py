"""TIMESTAMP WITH LOCAL TIME ZONE in ORC files: what Java wrote goes by the zone that it wrote in, what C++ wrote by
none (docs/differences-from-paimon.md).
"""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pytest

from tests.widetable.format.data_files import batch_of, read, table_schema, write
from tests.widetable.format.foreign_files import write_orc

# 17:00 in UTC is 12:00 in the zone EST, five hours behind.
STORED = 19_782 * 86_400_000 + 17 * 3_600_000
NOON = STORED - 5 * 3_600_000
# Of ORC's footer: field 9, who wrote it, 1 for C++ and 0 for Java; then field 12, the version.
CPP, JAVA = b"H\x01b", b"H\x00b"
# Of a stripe's footer: field 3, a zone of three bytes; and a field that nobody knows.
ZONE, NO_FIELD = b"\x1a\x03", b"\x7a\x03"


def read_back(folder: Path, *, java: bool, zone: bytes | None, legacy: str | None) -> int:
    """The milliseconds that are read of a file that has STORED. zone: what its stripe says; None for nothing."""
    columns = {"k": "INT", "z": "TIMESTAMP(3) WITH LOCAL TIME ZONE", "t": "TIMESTAMP(3)"}
    values = {"k": [1], "z": [STORED], "t": [STORED]}
    options = {} if legacy is None else {"orc.timestamp-ltz.legacy.type": legacy}
    schema = table_schema(columns, **options)
    batch = batch_of(schema, values)
    meta = write(folder / "data.parquet", schema, [batch])
    path = folder / "data.orc"
    meta = write_orc(path, pa.Table.from_batches([batch]), meta, compression="uncompressed")
    whole = path.read_bytes()
    assert (whole.count(ZONE + b"GMT"), whole.count(CPP)) == (1, 1)
    changed = whole.replace(ZONE + b"GMT", NO_FIELD + b"GMT" if zone is None else ZONE + zone)
    path.write_bytes(changed.replace(CPP, JAVA) if java else changed)
    found = read(path, meta, schema)
    assert found.column("t").cast(pa.int64()).to_pylist() == [STORED]  # it has no zone
    (millis,) = found.column("z").cast(pa.int64()).to_pylist()
    return int(millis)


@pytest.mark.parametrize("legacy", [None, "true"])
def test_what_java_stored_is_the_clock_of_the_writers_zone(
    tmp_path: Path, legacy: str | None
) -> None:
    assert read_back(tmp_path, java=True, zone=b"EST", legacy=legacy) == NOON


def test_where_no_zone_is_said_it_is_that_of_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "EST5")
        time.tzset()
        found = read_back(tmp_path, java=True, zone=None, legacy=None)
    time.tzset()
    assert found == NOON


@pytest.mark.parametrize(("java", "legacy"), [(True, "false"), (False, None), (False, "true")])
def test_other_files_hold_the_instant_itself(
    tmp_path: Path, java: bool, legacy: str | None
) -> None:
    assert read_back(tmp_path, java=java, zone=b"EST", legacy=legacy) == STORED
