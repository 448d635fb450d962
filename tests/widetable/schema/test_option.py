"""Values of options: what text each kind takes, as Paimon's, and that no value that is taken bricks a table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from widetable.errors import InvalidError
from widetable.schema.barrier_options import BARRIER_INTERVAL
from widetable.schema.join_options import JOIN_OPTIONS
from widetable.schema.option import Option, parse_value
from widetable.schema.option_checks import check_alter
from widetable.schema.options import (
    BY_KEY,
    IGNORE_DELETE,
    IGNORE_UPDATE_BEFORE,
    OLD_KEYS,
    OPTIONS,
    WRITTEN_OUT,
)
from widetable.schema.retention_options import RECORD_LEVEL_EXPIRE_TIME

SCHEMA = pa.schema([("k", pa.int32()), ("v", pa.int32())])
NUMBERS = [option for option in OPTIONS if option.range is not None]
UNITS = {"integer": "", "memory size": " b", "duration": " ms"}
every_number = pytest.mark.parametrize("option", NUMBERS, ids=lambda option: option.key)


def option_of(kind: str) -> Option[Any]:
    return Option("x", kind, None, "", "X.")


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("integer", "7", 7),
        ("integer", " +7 ", 7),
        ("memory size", "7", 7),
        ("memory size", "7bytes", 7),
        ("memory size", "7 KB", 7 << 10),
        ("memory size", "7 mebibytes", 7 << 20),
        ("memory size", "7g", 7 << 30),
        ("memory size", "1 tebibytes", 1 << 40),
        ("duration", "7", 7),
        ("duration", "7 ms", 7),
        ("duration", "7 milliseconds", 7),
        ("duration", "1500 micros", 1),
        ("duration", "7s", 7000),
        ("duration", "2 minutes", 120_000),
        ("duration", "1 Hour", 3_600_000),
        ("duration", "2 d", 172_800_000),
        ("boolean", " TRUE", True),
    ],
)
def test_text_is_read_as_paimon_reads_it(kind: str, text: str, value: object) -> None:
    assert parse_value(option_of(kind), text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("integer", ""),
        ("integer", "1_000"),
        ("integer", "٣"),
        ("integer", "1.0"),
        ("integer", str(2**31)),
        ("integer", "9" * 5000),
        ("memory size", "-1 b"),
        ("memory size", "1 tb b"),
        ("memory size", "9999999999 tb"),
        ("memory size", "1.5 mb"),
        ("duration", "1 fortnight"),
        ("duration", "h"),
        ("duration", "9" * 30 + " d"),
        ("boolean", "yes"),
    ],
)
def test_other_text_is_refused_with_the_option_and_the_text(kind: str, text: str) -> None:
    with pytest.raises(InvalidError, match="option 'x'") as raised:
        parse_value(option_of(kind), text)
    assert repr(text) in raised.value.found


def outside(option: Option[Any]) -> list[str]:
    least, most = option.range or (0, 0)
    below = [] if option.kind != "integer" and least == 0 else [f"{least - 1}{UNITS[option.kind]}"]
    return [*below, f"{most + 1}{UNITS[option.kind]}", "99999999999999999999", "1e3", ""]


@every_number
def test_a_number_out_of_range_is_refused_where_it_is_given(
    option: Option[Any], tmp_path: Path
) -> None:
    catalog = wt.Catalog(str(tmp_path))
    catalog.create_table("db.there", SCHEMA, primary_key=["k"])
    for text in outside(option):
        with pytest.raises(wt.InvalidError, match=option.key):
            catalog.create_table("db.t", SCHEMA, primary_key=["k"], options={option.key: text})
        with pytest.raises(wt.InvalidError, match=option.key):
            catalog.alter_table("db.there", set_options={option.key: text})
    assert catalog.list_tables() == ["db.there"]
    assert catalog.table("db.there").schema.id == 0


@every_number
def test_a_number_out_of_range_that_another_client_gave_stops_writers_not_readers(
    option: Option[Any], tmp_path: Path
) -> None:
    table = wt.Catalog(str(tmp_path)).create_table("db.t", SCHEMA, primary_key=["k"])
    rows = pa.table({"k": [1], "v": [1]}, schema=SCHEMA)
    table.write(rows)
    file = Path(table.path) / "schema/schema-0"
    body = json.loads(file.read_text())
    for text in outside(option):
        body["options"][option.key] = text
        file.write_text(json.dumps(body))
        table = wt.Table.open(table.path)
        with pytest.raises(wt.InvalidError, match=option.key):
            table.write(rows)
        if option.key not in WRITTEN_OUT:  # of how many buckets nothing can be read
            assert table.scan(columns=["v"]).to_arrow().to_pylist() == [{"v": 1}]
    assert len(table.snapshots()) == 1


@every_number
def test_a_table_lives_with_the_ends_of_the_range(option: Option[Any], tmp_path: Path) -> None:
    """`bucket` may be less than one in tables of others only; a caches' disk of no bytes is no caches."""
    if option in JOIN_OPTIONS or option in (RECORD_LEVEL_EXPIRE_TIME, BARRIER_INTERVAL):
        # Nobody writes such a table, or not so: derive/test_join_plan.py, operations/test_record_expiry.py and
        # test_barriers.py.
        return
    least, most = option.range or (0, 0)
    for number, value in enumerate((1 if option.key == "bucket" else least, most)):
        table = wt.Catalog(str(tmp_path)).create_table(
            f"db.t{number}",
            SCHEMA,
            primary_key=["k"],
            options={
                "changelog-producer": "lookup",
                "widetable.fsync": "false",
                "snapshot.num-retained.min": "1",
                option.key: f"{value}{UNITS[option.kind]}",
            },
        )
        for commit in range(2):
            rows = {"k": pa.array(range(30), pa.int32()), "v": pa.array([commit] * 30, pa.int32())}
            assert table.write(pa.table(rows)).committed
        assert set(table.scan().to_arrow()["v"].to_pylist()) == {1}
        table.compact(full=True)
        table.expire_snapshots()
        assert table.lookup([0])["v"].to_pylist() == [1]
        assert table.audit().ok


def test_an_older_name_gives_way_to_the_option_itself() -> None:
    schema = wt_schema({"write.compaction-skip": "true"})
    assert schema.typed_options.get(BY_KEY["write-only"])
    schema = wt_schema({"write-only": "false", "write.compaction-skip": "true"})
    assert not schema.typed_options.get(BY_KEY["write-only"])


def wt_schema(options: dict[str, str]) -> Any:
    from widetable.schema.new_schema import new_schema

    return new_schema(SCHEMA, primary_key=["k"], options=options)


IGNORES = [IGNORE_UPDATE_BEFORE.key, IGNORE_DELETE.key]
IGNORES += [key for key, name in OLD_KEYS.items() if name in IGNORES]


@pytest.mark.parametrize("after", IGNORES)
@pytest.mark.parametrize("before", IGNORES)
def test_what_is_ignored_stays_so_by_whichever_name(before: str, after: str) -> None:
    old = {before: "true"}
    check_alter(old, old)
    check_alter(old, {})
    check_alter(old, {after: " TRUE"})
    check_alter({before: "false"}, {after: "false"})
    if OLD_KEYS.get(before, before) == OLD_KEYS.get(after, after):
        with pytest.raises(wt.InvalidError, match="a change from true to false"):
            check_alter(old, {after: " FALSE"})
    else:
        check_alter(old, {after: "false", **old})
