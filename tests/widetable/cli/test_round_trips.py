"""What `widetable read` prints, `widetable write` takes: the same cells, whatever their bits; all else is refused."""

from __future__ import annotations

import io
import json
import random
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.models.bit_patterns import FLAT, cells, draw_column, draw_type
from tests.support.programs.command_line import run

HOSTILE = [
    *("", " ", "NA", "N/A", "null", "NULL", "nan", "NaN", "true", "0", "1e5", "00ff", "#N/A"),
    *(
        '"',
        '""',
        ",",
        "a,b",
        "\n",
        "a\r\nb",
        "\r",
        "\0",
        "\\",
        "\\n",
        "'",
        '"\n"',
        "\ufeff",
        "\u2028",
    ),
]
ROWS = 40


def make(warehouse: Path, name: str, columns: pa.Schema, **options: str) -> wt.Table:
    return wt.Catalog(warehouse).create_table(
        f"db.{name}", columns, primary_key=["k"], options={"widetable.fsync": "false", **options}
    )


def drawn(rng: random.Random, types: list[pa.DataType]) -> pa.Table:
    arrays = [pa.array(range(ROWS), pa.int64()), *(draw_column(rng, t, ROWS) for t in types)]
    texts = [rng.choice([None, *HOSTILE]) for _ in range(ROWS)]
    names = ["k", *(f'c"{n},' for n in range(len(types))), "text"]
    return pa.table([*arrays, pa.array(texts)], names=names)


def sorted_cells(table: wt.Table) -> dict[str, list[Any]]:
    rows = table.scan().to_arrow().combine_chunks().sort_by("k")
    batch = rows.to_batches()[0]
    return {n: cells(c) for n, c in zip(batch.schema.names, batch.columns, strict=True)}


def write_text(path: str, text: str, monkeypatch: pytest.MonkeyPatch, *more: str) -> str:
    """What went wrong, in one line; empty: nothing."""
    stdin = io.TextIOWrapper(io.BytesIO(text.encode()))
    monkeypatch.setattr(sys, "stdin", stdin)
    result = run("write", path, "-", *more)
    assert result.exit_code == (2 if result.stderr else 0), result
    assert len(result.stderr.splitlines()) <= 1
    return result.stderr


@pytest.mark.parametrize("format", ["json", "csv"])
def test_what_is_read_is_written_again(
    format: str, tmp_path: Path, rng: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    for turn in range(12):
        flat = rng.sample(FLAT, 8)
        types = flat if format == "csv" else [*flat, *(draw_type(rng) for _ in range(4))]
        data = drawn(rng, types)
        first, second = (make(tmp_path, f"{name}{turn}", data.schema) for name in "ab")
        first.write(data)
        printed = run("read", first.path, "--format", format)
        assert (printed.exit_code, printed.stderr) == (0, "")
        assert write_text(second.path, printed.stdout, monkeypatch, "--format", format) == ""
        assert sorted_cells(second) == sorted_cells(first)


TYPED = {
    "INT": ["0x10", "1.0", "2147483648", "NaN", "true x"],
    "DOUBLE": ["1e999", "one"],
    "FLOAT": ["1e39"],
    "DECIMAL(5, 2)": ["1.555", "1000", "NaN"],
    "BOOLEAN": ["yes"],
    "BYTES": ["0", "0 0", "zz"],
    "DATE": ["2023-02-29", "19782", "2024-13-01"],
    "TIME": ["24:00:00", "10:30:00.0001"],
    "TIMESTAMP(3)": ["2024-01-01 00:00:00Z", "2024-01-01 00:00:00.0001", "2024-01-01 24:00:00"],
    "TIMESTAMP_LTZ(3)": ["2024-01-01 00:00:00 CET", "2024-01-01 24:00:00"],
}


@pytest.mark.parametrize("kind", TYPED)
def test_both_formats_refuse_the_same(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"{tmp_path}/db.db/t"
    assert run("init", path, "k BIGINT", f"v {kind}", "--key", "k").exit_code == 0
    for text in TYPED[kind]:
        lines = '{"k": 1}\n' + json.dumps({"k": 2, "v": text})
        for format, given in (("csv", f"k,v\n1,\n2,{text}\n"), ("json", lines)):
            said = write_text(path, given, monkeypatch, "--format", format)
            assert said.startswith("InvalidError: -, "), (text, said)
            assert "column 'v'" in said
            assert ("line 2" if format == "json" else "row 2") in said
    assert run("read", path).stdout == ""


def test_forms_that_others_print_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"{tmp_path}/db.db/t"
    columns = (
        "k INT",
        "d DATE",
        "t TIMESTAMP(3)",
        "z TIMESTAMP_LTZ(3)",
        "f DOUBLE",
        "n DECIMAL(4,1)",
    )
    run("init", path, *columns, "--key", "k")
    line = '{"k":1,"d":"2024-02-29","t":"2024-02-29T10:30","z":"2024-02-29T10:30:00+02:00","f":NaN,"n":1e1}'
    assert write_text(path, line, monkeypatch, "--format", "json") == ""
    assert json.loads(run("read", path).stdout) == {
        "k": 1,
        "d": "2024-02-29",
        "t": "2024-02-29 10:30:00",
        "z": "2024-02-29 08:30:00+00:00",
        "f": "NaN",
        "n": "10.0",
    }


BROKEN = {
    "json": [
        '{"k": 1, "k": 2}',
        '{"k": 1',
        "[]",
        "{}",
        "7",
        '{"k": 1, "v": "\\ud800"}',
        "[" * 100_000,
    ],
    "csv": ['k,v\n1,"open', 'k,v\n1,"open\n2,b\n', "k,v\n1\n", "k,k\n1,1\n", "", "k,nope\n1,1\n"],
}


@pytest.mark.parametrize("format", BROKEN)
def test_broken_files_are_refused(
    format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make(tmp_path, "t", pa.schema([("k", pa.int64()), ("v", pa.string())])).path
    for text in BROKEN[format]:
        assert "InvalidError" in write_text(path, text, monkeypatch, "--format", format), text
    assert run("read", path).stdout == ""


def test_a_column_of_any_row_is_one_of_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = pa.schema([(name, pa.int64()) for name in ("k", "a", "b", "c")])
    table = make(tmp_path, "t", columns, **{"merge-engine": "partial-update"})
    table.write({"k": [1], "a": [1], "b": [1], "c": [1]})
    monkeypatch.setattr("widetable.cli.input.row_inputs._LINES_AT_ONCE", 3)
    lines = "".join(f'{{"k": {n}, "a": {n}}}\n' for n in range(1, 10)) + '{"k": 1, "b": 7}\n'
    (tmp_path / "more.csv").write_text("k,c\n5,5\n")
    more = str(tmp_path / "more.csv")
    (tmp_path / "lines.json").write_text(lines)
    result = run("write", table.path, str(tmp_path / "lines.json"), more)
    assert (result.exit_code, result.stderr) == (0, "")
    rows = {row["k"]: row for row in table.scan().to_arrow().to_pylist()}
    assert rows[1] == {"k": 1, "a": 1, "b": 7, "c": 1}
    assert rows[5] == {"k": 5, "a": 5, "b": None, "c": 5}


@pytest.mark.parametrize("format", ["json", "csv"])
def test_long_values_and_line_breaks(
    format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "line\r\n" * 1_000_000
    data = pa.table({"k": range(9), "v": ["a\nb", "x", text, "y", "", None, text[:-1], "z", '"']})
    first, second = (make(tmp_path, name, data.schema) for name in "ab")
    first.write(data)
    printed = run("read", first.path, "--format", format).stdout
    assert write_text(second.path, printed, monkeypatch, "--format", format) == ""
    assert sorted_cells(second) == sorted_cells(first)


def test_outputs_that_the_system_refuses(tmp_path: Path) -> None:
    table = make(tmp_path, "t", pa.schema([("k", pa.int64())]))
    table.write({"k": range(100_000)})
    nowhere = run("read", table.path, "--output", f"{tmp_path}/no/x.json").stderr
    assert nowhere.startswith("NotFoundError")
    assert f"{tmp_path}/no/x.json" in nowhere
    assert run("read", table.path, "--output", "-").stdout == run("read", table.path).stdout
    assert not Path("-").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path, "t", pa.schema([("k", pa.int64())]))
    table.write({"k": range(100_000)})
    for format in ("json", "csv", "parquet"):
        with open("/dev/full", "w") as full:
            monkeypatch.setattr("contextlib.redirect_stdout", lambda _: full)
            monkeypatch.setattr(sys, "stdout", full)
            result = run("read", table.path, "--format", format)
            monkeypatch.undo()
        assert result.stderr.startswith("StorageError: standard output"), (format, result)


@pytest.mark.parametrize("name", ["v", "k", "", "nope"])
def test_a_row_kind_that_is_none_is_refused(name: str, tmp_path: Path) -> None:
    table = make(tmp_path, "t", pa.schema([("k", pa.int64()), ("v", pa.string())]))
    (tmp_path / "a.json").write_text('{"k": 1, "v": "-D"}\n')
    said = run("write", table.path, str(tmp_path / "a.json"), "--row-kind", name).stderr
    assert said.startswith(f"InvalidError: --row-kind: found {name!r}")
    assert table.scan().count() == 0


@pytest.mark.parametrize("format", ["json", "csv", "parquet"])
def test_an_overwrite_without_rows_is_refused(format: str, tmp_path: Path) -> None:
    table = make(tmp_path, "t", pa.schema([("k", pa.int64())]))
    empty = tmp_path / "empty"
    run("read", table.path, "--format", format, "--output", str(empty))
    table.write({"k": [1]})
    said = run("write", table.path, "--overwrite", "--format", format, str(empty)).stderr
    assert said.startswith("InvalidError: --overwrite: found no rows")
    assert "widetable delete" in said
    assert table.scan().count() == 1


def test_a_wrong_type_is_quoted_as_it_was_given(tmp_path: Path) -> None:
    for kind in ("int comment 'Hello'", "Variant", "ARRAY<Nothing>"):
        said = run("init", f"{tmp_path}/db.db/t", f"k {kind}", "--key", "k").stderr
        assert kind.removeprefix("ARRAY<").removesuffix(">") in said, said
