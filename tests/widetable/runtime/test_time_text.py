"""One grammar of dates and times: filters, words of the command line, CSV, JSON, partitions and moments agree."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import widetable as wt
from tests.support.programs.command_line import run
from widetable.cli.input.key_words import key_of_words, partition_of_words
from widetable.cli.input.row_files import row_batches
from widetable.derive.changes.join_partitions import parse_partitions, partition_values
from widetable.errors import InvalidError
from widetable.read.filters import parse
from widetable.read.predicate import Compare
from widetable.runtime.moment import epoch_millis
from widetable.schema.new_schema import new_schema
from widetable.schema.table_schema import TableSchema

KINDS = {
    "DATE": pa.date32(),
    "TIME": pa.time32("ms"),
    "TIMESTAMP": pa.timestamp("ms"),
    "TIMESTAMP_LTZ": pa.timestamp("ms", tz="UTC"),
}
DAY, CLOCK = 19_782, 34_200_000  # 2024-02-29, 09:30
AT = DAY * 86_400_000 + CLOCK
# Type, text -> days, or milliseconds; None: refused.
TEXTS: list[tuple[str, str, int | None]] = [
    ("DATE", "2024-02-29", DAY),
    ("DATE", "2024-2-29", DAY),
    ("DATE", "20240229", DAY),
    ("DATE", " 2024-02-29\t", DAY),
    ("DATE", "+12024-02-09", 3_672_187),
    ("DATE", "-0001-12-31", -719_529),
    ("DATE", "2024-1-1", DAY - 59),
    *(("DATE", text, None) for text in ("", "2024", "2024-02", "24-02-29", "2024-02-30")),
    *(("DATE", text, None) for text in ("2023-02-29", "2024-13-01", "2024-00-01", "20240230")),
    *(("DATE", text, None) for text in ("2024-W01-1", "2024-060", "2024/02/29", "today")),
    *(("DATE", text, None) for text in ("2024-02-29 09:30", "2024-02-29Z", "٢٠٢٤-02-29")),
    *(("DATE", text, None) for text in ("2024-02-29x", "2024-02- 9", "2024 -02-29")),
    ("TIME", "09:30", CLOCK),
    ("TIME", "9:30:0", CLOCK),
    ("TIME", "9:30:01.5", CLOCK + 1500),
    ("TIME", " 09:30:00.007000000 ", CLOCK + 7),
    *(("TIME", text, None) for text in ("", "9", "0930", "T09:30", "24:00", "09:60", "09:30:60")),
    *(("TIME", text, None) for text in ("09:30:", "09:30.5", "09:30:00,5", "09:30:00.", "-1:00")),
    *(("TIME", text, None) for text in ("09:30Z", "09:30+01:00", "09:30:00.1234567891", "09:30 AM")),
    *((kind, text, AT) for kind in ("TIMESTAMP", "TIMESTAMP_LTZ") for text in (
        "2024-02-29 09:30", "2024-02-29T09:30:00", "2024-2-29 9:30:0.000", " 2024-02-29 9:30 ",
    )),
    *((kind, "2024-02-29", AT - CLOCK) for kind in ("TIMESTAMP", "TIMESTAMP_LTZ")),
    *((kind, "2024-02-29 9:30:0.123000", AT + 123) for kind in ("TIMESTAMP", "TIMESTAMP_LTZ")),
    *((kind, text, None) for kind in ("TIMESTAMP", "TIMESTAMP_LTZ") for text in (
        "", "09:30", "2024-02-30 09:30", "2024-02-29 24:00", "2024-02-29 09:30:61", "20240229",
        "2024-02-29  09:30", "2024-02-29t09:30", "2024-02-29 9", "2024-02-29 9:30.5",
        "2024-02-29 09:30+24:00", "2024-02-29 09:30+01:60", "2024-02-29 09:30+1:00",
        "2024-02-29 09:30 CET", "2024-02-29 09:30z", "2024-02-29 09:30 Europe/Oslo",
    )),
    *(("TIMESTAMP_LTZ", f"2024-02-29 09:30{zone}", AT) for zone in ("Z", " Z", " UTC", "+00:00")),
    *(("TIMESTAMP_LTZ", f"2024-02-29T10:30{zone}", AT) for zone in ("+01:00", " +0100")),
    ("TIMESTAMP_LTZ", "2024-02-29T05:00-04:30", AT),
    ("TIMESTAMP_LTZ", "2024-02-29Z", AT - CLOCK),
    *(("TIMESTAMP", f"2024-02-29 09:30{zone}", None) for zone in ("Z", " UTC", "+01:00", "-0430")),
]  # fmt: skip


def schema_of(kind: str) -> TableSchema:
    arrow = pa.schema([pa.field("c", KINDS[kind], False), pa.field("k", pa.int32(), False)])
    return new_schema(arrow, primary_key=["c", "k"], partition_by=["c"])


def number_of(column: pa.Array | pa.ChunkedArray) -> int:
    whole = column.cast(pa.int32() if column.type.bit_width == 32 else pa.int64())
    return int(np.asarray(whole)[0])


def by_filter(kind: str, text: str, folder: Path) -> object:
    tree = parse(f"c = '{text}'", schema_of(kind)).tree
    assert isinstance(tree, Compare)
    return tree.value


def by_typed_literal(kind: str, text: str, folder: Path) -> object:
    word = kind.removesuffix("_LTZ")
    tree = parse(f"c = {word} '{text}'", schema_of(kind)).tree
    assert isinstance(tree, Compare)
    return tree.value


def by_key_words(kind: str, text: str, folder: Path) -> object:
    return number_of(key_of_words([f"c={text}", "k=1"], schema_of(kind))["c"])


def by_partition_words(kind: str, text: str, folder: Path) -> object:
    return number_of(partition_of_words([f"c={text}"], schema_of(kind))["c"])


def by_join_partitions(kind: str, text: str, folder: Path) -> object:
    schema = schema_of(kind)
    chosen = parse_partitions(f"c={text}", schema)
    assert chosen is not None
    value: int = partition_values(chosen.fixed[0], schema)["c"].value
    return value


def by_file(kind: str, path: Path) -> int:
    with row_batches([str(path)], None, schema_of(kind), None) as batches:
        return number_of(pa.Table.from_batches(batches)["c"])


def by_csv(kind: str, text: str, folder: Path) -> object:
    (folder / "rows.csv").write_text(f'c,k\n"{text}",1\n')
    return by_file(kind, folder / "rows.csv")


def by_json(kind: str, text: str, folder: Path) -> object:
    (folder / "rows.json").write_text(json.dumps({"c": text, "k": 1}))
    return by_file(kind, folder / "rows.json")


Entry = Callable[[str, str, Path], object]
ENTRIES: list[Entry] = [
    *(by_filter, by_typed_literal, by_key_words, by_partition_words, by_join_partitions),
    *(by_csv, by_json),
]


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_text_of_a_date_or_time_means_one_thing_everywhere(entry: Entry, tmp_path: Path) -> None:
    forms: dict[str, set[str]] = {kind: set() for kind in KINDS}
    for kind, text, expected in TEXTS:
        if expected is not None:
            assert entry(kind, text, tmp_path) == expected, (kind, text)
            continue
        if "," in text and entry is by_join_partitions:
            continue  # a comma ends a value there
        with pytest.raises(InvalidError) as raised:
            entry(kind, text, tmp_path)
        assert (raised.value.code, raised.value.subject != "filter") == ("WT-E100", True)
        assert text.strip() in f"{raised.value.subject} {raised.value.found}", (kind, text)
        forms[kind].add(raised.value.expected)
    assert forms == {
        "DATE": {"a date such as 2024-02-29"},
        "TIME": {"a time such as 10:30:00.123"},
        "TIMESTAMP": {"a timestamp such as 2024-02-29 10:30:00.123, without a time zone"},
        "TIMESTAMP_LTZ": {
            "a timestamp such as 2024-02-29 10:30:00.123+00:00, in UTC without a time zone"
        },
    }


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("DATE", "+999999999-01-01"),
        ("TIME", "09:30:00.0001"),
        ("TIMESTAMP", "2024-02-29 09:30:00.0001"),
        ("TIMESTAMP", "+999999999-01-01"),
    ],
)
def test_a_filter_compares_with_what_a_column_cannot_hold(
    tmp_path: Path, kind: str, text: str
) -> None:
    for entry in ENTRIES:
        if entry in (by_filter, by_typed_literal):
            entry(kind, text, tmp_path)
        else:
            with pytest.raises(InvalidError):
                entry(kind, text, tmp_path)


def test_a_moment_has_the_grammar_of_a_timestamp(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text without a zone is local time there, and a text of digits is a number of milliseconds."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    for kind, text, expected in TEXTS:
        if kind != "TIMESTAMP_LTZ" or text.isdigit():
            continue
        if expected is not None:
            assert epoch_millis(text, "timestamp") == expected, text
            continue
        with pytest.raises(InvalidError):
            epoch_millis(text, "timestamp")
    monkeypatch.undo()
    time.tzset()


def test_explain_takes_the_date_of_a_filter(tmp_path: Path) -> None:
    table = wt.Catalog(tmp_path).create_table(
        "db.t", {"d": "DATE", "v": "INT"}, primary_key=["d"], options={"bucket": "1"}
    )
    (tmp_path / "rows.csv").write_text("d,v\n2024-1-1,7\n")
    assert run("write", table.path, str(tmp_path / "rows.csv")).exit_code == 0
    assert table.scan(filter="d = '2024-1-1'").to_arrow()["v"].to_pylist() == [7]
    explained = run("explain", table.path, "d=2024-1-1")
    assert (explained.exit_code, "2024-01-01" in explained.stdout) == (0, True)
