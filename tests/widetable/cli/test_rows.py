"""Tables are made, filled and read on the command line: what is written in any format comes out in any."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import widetable as wt
from tests.support.programs.command_line import Ran, run

ROWS: list[dict[str, Any]] = [
    {"id": 1, "city": "Oslo", "at": "2026-01-31 10:00:00", "tags": ["a", "b"]},
    {"id": 2, "city": None, "at": None, "tags": None},
]


def succeeded(*arguments: str) -> str:
    result = run(*arguments)
    assert (result.exit_code, result.stderr) == (0, ""), result
    return result.stdout


def failed(*arguments: str) -> str:
    result = run(*arguments)
    assert result.exit_code == 2, result
    assert len(result.stderr.splitlines()) == 1
    return result.stderr


@pytest.fixture
def path(tmp_path: Path) -> str:
    made = succeeded(
        "init",
        f"{tmp_path}/shop.db/users",
        "id BIGINT",
        "city STRING",
        "at TIMESTAMP(6)",
        "tags ARRAY<STRING>",
        "--key",
        "id",
        "--set",
        "bucket=2",
        "--set",
        "merge-engine=partial-update",
    )
    return made.strip()


def rows_of(path: str, *arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in succeeded("read", path, *arguments).splitlines()]


def typed(with_tags: bool) -> pa.Table:
    rows = [dict(row) for row in ROWS]
    table = pa.Table.from_pylist(rows)
    table = table.set_column(2, "at", table["at"].cast(pa.timestamp("us")))
    return table if with_tags else table.drop_columns(["tags"])


def write_json(file: Path) -> None:
    file.write_text("".join(json.dumps(row) + "\n" for row in ROWS))


def write_parquet(file: Path) -> None:
    pq.write_table(typed(with_tags=True), file)


@pytest.mark.parametrize(
    ("name", "make"),
    [("a.json", write_json), ("a.parquet", write_parquet), ("a.jsonl", write_json)],
)
def test_rows_of_files_are_written(path: str, tmp_path: Path, name: str, make: Any) -> None:
    make(tmp_path / name)
    assert "2 rows" in succeeded("write", path, str(tmp_path / name))
    assert sorted(rows_of(path), key=lambda row: row["id"]) == ROWS


def test_rows_of_csv_are_written_in_the_table_s_types(path: str, tmp_path: Path) -> None:
    pyarrow.csv.write_csv(typed(with_tags=False), tmp_path / "a.csv")
    succeeded("write", path, str(tmp_path / "a.csv"))
    expected = [{**row, "tags": None} for row in ROWS]
    assert sorted(rows_of(path), key=lambda row: row["id"]) == expected
    (tmp_path / "wrong.csv").write_text("id,city\nseven,Oslo\n")
    assert "wrong.csv" in failed("write", path, str(tmp_path / "wrong.csv"))
    assert len(rows_of(path)) == 2


@pytest.mark.parametrize(
    ("ending", "rows", "says"),
    [
        ("csv", "id,city\n1,Oslo\n".encode("utf-16"), "UTF-16"),
        ("csv", "id,city\n1,Oslo\n".encode("utf-16-le"), "UTF-16"),
        ("csv", "id,größe\n1,Oslo\n".encode("latin-1"), "the byte 0xf6"),
        ("csv", "id,city\n1,Tromsø\n".encode("latin-1"), "another encoding than UTF-8"),
        ("csv", gzip.compress(b"id,city\n1,Oslo\n"), "gzip"),
        ("csv", bz2.compress(b"id,city\n1,Oslo\n"), "bzip2"),
        ("json", '{"id": 1}\n'.encode("utf-16"), "UTF-16"),
        ("json", '{"id": 1, "city": "Tromsø"}\n'.encode("latin-1"), "line 1: found the byte 0xf8"),
        ("json", gzip.compress(b'{"id": 1}\n'), "gzip"),
    ],
    # A name of bytes would differ between processes: the head of gzip tells the second.
    ids=range(9),
)
def test_a_file_that_is_no_text_of_utf_8_is_refused_by_its_name(
    path: str, tmp_path: Path, ending: str, rows: bytes, says: str
) -> None:
    file = tmp_path / f"given.{ending}"
    file.write_bytes(rows)
    refusal = failed("write", path, str(file))
    assert refusal.startswith(f"InvalidError: {file}")
    assert says in refusal
    assert not rows_of(path)


def test_columns_that_a_file_lacks_stay(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_json(tmp_path / "a.json")
    succeeded("write", path, str(tmp_path / "a.json"))
    stdin = io.TextIOWrapper(
        io.BytesIO(b'{"id": 2, "city": "Rome"}\n\n{"id": 3, "city": "Bern"}\n')
    )
    monkeypatch.setattr(sys, "stdin", stdin)
    succeeded("write", path, "-", "--format", "json")
    found = {row["id"]: row for row in rows_of(path)}
    assert found[1] == ROWS[0]
    assert [found[key]["city"] for key in (2, 3)] == ["Rome", "Bern"]


def test_lines_carry_the_columns_that_they_name(tmp_path: Path) -> None:
    """A null of a line is written; what a line does not name stays, in files of other columns."""
    path = f"{tmp_path}/shop.db/groups"
    words = "id BIGINT", "a INT", "g INT", "b INT", "h INT"
    sets = ("merge-engine=partial-update", "fields.g.sequence-group=a", "fields.h.sequence-group=b")
    options = [word for each in (*sets, "write-only=true") for word in ("--set", each)]
    succeeded("init", path, *words, "--key", "id", *options)
    first, patches = tmp_path / "first.csv", tmp_path / "patches.jsonl"
    first.write_text("id,a,g,b,h\n1,9,0,9,0\n2,9,0,9,0\n")
    lines = [
        {"id": 1, "a": 1, "g": 1},
        {"id": 1, "b": None, "h": 1},
        {"id": 2, "a": None, "g": 1, "b": 2, "h": 1},
    ]
    patches.write_text("".join(json.dumps(line) + "\n" for line in lines))
    succeeded("write", path, str(first))
    for _ in range(2):
        succeeded("write", path, str(patches), "--user", "feed", "--identifier", "1")
    assert wt.Table.open(path).scan().to_arrow().to_pylist() == [
        {"id": 1, "a": 1, "g": 1, "b": None, "h": 1},
        {"id": 2, "a": None, "g": 1, "b": 2, "h": 1},
    ]
    assert len(wt.Table.open(path).snapshots()) == 2
    some = tmp_path / "some.csv"
    some.write_text("id,a,g\n3,1,1\n")
    (tmp_path / "more.jsonl").write_text('{"id": 4, "b": 1, "h": 1}\n')
    succeeded("write", path, str(some), str(tmp_path / "more.jsonl"))
    explained = wt.Table.open(path).explain(3)
    assert explained.records[0].values == {"id": 3, "a": 1, "g": 1}


@pytest.mark.parametrize("name", ["b.json", "b.csv", "b.parquet"])
def test_rows_that_lack_a_column_of_a_group_are_refused_beside_others_that_have_it(
    tmp_path: Path, name: str
) -> None:
    """Beside a row with `street` the column was null in all others, and overwrote what was there."""
    columns = ["id BIGINT", "city STRING", "street STRING", "seq BIGINT"]
    options = ["merge-engine=partial-update", "fields.seq.sequence-group=city,street"]
    sets = [word for option in options for word in ("--set", option)]
    path = succeeded("init", f"{tmp_path}/s.db/t", *columns, "--key", "id", *sets).strip()
    whole = {"id": 1, "city": "Oslo", "street": "Torg", "seq": 1}
    lacking = {"id": 1, "city": "Bergen", "seq": 2}
    files = [tmp_path / "a.json", tmp_path / name]
    files[0].write_text(json.dumps(whole))
    succeeded("write", path, str(files[0]))
    files[1].write_text(json.dumps(lacking) if name == "b.json" else "id,city,seq\n1,Bergen,2\n")
    if name == "b.parquet":
        pq.write_table(pa.Table.from_pylist([lacking]), files[1])
    said = failed("write", path, *map(str, files))
    assert str(files[1]) in said
    assert "'street'" in said
    assert rows_of(path) == [whole]


def test_kinds_and_replays(path: str, tmp_path: Path) -> None:
    write_json(tmp_path / "a.json")
    once = ("write", path, str(tmp_path / "a.json"), "--user", "job", "--identifier", "1")
    assert "2 rows" in succeeded(*once)
    assert "already has this commit" in succeeded(*once)
    (tmp_path / "b.json").write_text('{"id": 9, "city": "Bonn"}\n')
    succeeded("write", path, "--overwrite", str(tmp_path / "b.json"))
    assert [row["id"] for row in rows_of(path)] == [9]
    deletes = f"{tmp_path}/shop.db/deletes"
    succeeded("init", deletes, "id BIGINT", "--key", "id")
    (tmp_path / "c.json").write_text(
        '{"id": 1, "op": "+I"}\n{"id": 2, "op": "+I"}\n{"id": 1, "op": "-D"}\n'
    )
    succeeded("write", deletes, "--row-kind", "op", str(tmp_path / "c.json"))
    assert rows_of(deletes) == [{"id": 2}]


def test_what_is_read_is_chosen(path: str, tmp_path: Path) -> None:
    write_json(tmp_path / "a.json")
    succeeded("write", path, str(tmp_path / "a.json"))
    succeeded("tag", "create", path, "first")
    (tmp_path / "b.json").write_text('{"id": 1, "city": "Bonn"}\n')
    succeeded("write", path, str(tmp_path / "b.json"))
    assert rows_of(path, "--columns", "city", "--filter", "id = 1") == [{"city": "Bonn"}]
    assert rows_of(path, "--columns", "city", "--filter", "id = 1", "--tag", "first") == [
        {"city": "Oslo"}
    ]
    assert rows_of(path, "--columns", "city", "--filter", "id = 1", "--snapshot", "1") == [
        {"city": "Oslo"}
    ]
    assert len(rows_of(path, "--limit", "1")) == 1
    output = tmp_path / "out.parquet"
    assert "2 rows" in succeeded("read", path, "--format", "parquet", "--output", str(output))
    assert pq.read_table(output).num_rows == 2
    assert "out.parquet" in failed("read", path, "--format", "parquet", "--output", str(output))
    assert succeeded(
        "read", path, "--columns", "id,city", "--filter", "id = 1", "--format", "csv"
    ).splitlines() == ['"id","city"', '1,"Bonn"']


def test_rows_are_deleted(tmp_path: Path) -> None:
    path = f"{tmp_path}/shop.db/users"
    succeeded("init", path, "id BIGINT", "city STRING", "--key", "id")
    (tmp_path / "a.json").write_text(
        "".join(f'{{"id": {n}, "city": "c{n % 2}"}}\n' for n in range(6))
    )
    succeeded("write", path, str(tmp_path / "a.json"))
    assert succeeded("delete", path, "city = 'c1'", "--dry-run") == "3 rows would be deleted\n"
    assert len(rows_of(path)) == 6
    assert succeeded("delete", path, "city = 'c1'").startswith("3 rows deleted, snapshot ")
    assert sorted(row["id"] for row in rows_of(path)) == [0, 2, 4]
    assert succeeded("delete", path, "id = 99") == "0 rows deleted\n"


def test_tables_are_listed_and_shown(path: str, tmp_path: Path) -> None:
    assert succeeded("ls", str(tmp_path)) == "shop.users\n"
    assert json.loads(succeeded("ls", str(tmp_path), "--json"))["tables"] == ["shop.users"]
    shown = json.loads(succeeded("schema", path, "--format", "json"))
    assert [column["type"] for column in shown["columns"]] == [
        "BIGINT NOT NULL",
        "STRING",
        "TIMESTAMP(6)",
        "ARRAY<STRING>",
    ]
    assert shown["primary_key"] == ["id"]
    assert shown["options"]["bucket"] == "2"
    lines = succeeded("schema", path).splitlines()
    assert lines[1].split() == ["city", "STRING"]
    assert "primary key: id" in lines
    assert "merge-engine = partial-update" in lines
    assert "no database" in failed("ls", path)


def test_a_table_that_is_there_stays(path: str) -> None:
    again = ("init", path, "id BIGINT", "--key", "id")
    assert "no table of that name" in failed(*again)
    assert succeeded(*again, "--if-not-exists").strip() == path
    assert len(wt.Table.open(path).schema.fields) == 4


def test_tags_and_consumers(path: str, tmp_path: Path) -> None:
    write_json(tmp_path / "a.json")
    succeeded("write", path, str(tmp_path / "a.json"))
    succeeded("tag", "create", path, "first", "--snapshot", "1")
    assert succeeded("tag", "list", path).startswith("first  snapshot 1  20")
    assert [
        tag["name"] for tag in json.loads(succeeded("tag", "list", path, "--json"))["tags"]
    ] == ["first"]
    succeeded("tag", "delete", path, "first")
    assert succeeded("tag", "list", path) == ""
    table = wt.Table.open(path)
    assert sum(changes.num_rows for changes in table.follow(consumer_id="totals", timeout=0.1)) == 2
    assert succeeded("consumer", "list", path).startswith("totals  snapshot ")
    succeeded("consumer", "delete", path, "totals")
    assert json.loads(succeeded("consumer", "list", path, "--json")) == {"consumers": {}}
    assert "no such consumer" in failed("consumer", "delete", path, "totals")


def test_a_compaction_says_what_it_did(path: str, tmp_path: Path) -> None:
    write_json(tmp_path / "a.json")
    succeeded("write", path, str(tmp_path / "a.json"))
    assert "2 rows" in succeeded("compact", "--full", path)
    assert succeeded("compact", "--full", path) == "nothing was due\n"


WRONG: list[tuple[Sequence[str], str]] = [
    (("tag", "create", "{path}"), "NAME"),
    (("tag", "list", "{path}", "x"), "'x'"),
    (("tag", "delete", "{path}", "x", "--snapshot", "1"), "--snapshot"),
    (("consumer", "delete", "{path}"), "NAME"),
    (("write", "{path}", "no-such.json"), "no-such.json"),
    (("write", "{path}", "rows.xlsx"), "rows.xlsx"),
    (("write", "{path}", "/"), "'/'"),
    (("init", "/tmp/users", "id INT", "--key", "id"), "<db>.db"),
    (("init", "{path}2", "id", "--key", "id"), "'id'"),
    (("init", "{path}2", "id NOTHING", "--key", "id"), "NOTHING"),
    (("read", "{path}", "--filter", "city ="), "filter"),
    (("read", "{path}", "--limit", "-1"), "rows"),
]


@pytest.mark.parametrize(("words", "said"), WRONG, ids=lambda value: str(value)[:60])
def test_wrong_words_are_named(path: str, words: Sequence[str], said: str) -> None:
    result: Ran = run(*(word.format(path=path) for word in words))
    assert result.exit_code == 2
    assert said.strip("'") in result.stderr
