"""Filters of many conditions: rows, or an error that names the filter; never the end of the process."""

from __future__ import annotations

import operator
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import widetable as wt


def test_a_long_chain_of_conditions_is_a_filter_and_a_deep_one_is_refused(tmp_path: Path) -> None:
    columns = pa.schema([("k", pa.int64()), ("b", pa.bool_())])
    table = wt.Catalog(str(tmp_path)).create_table("db.t", columns, primary_key=["k"])
    table.write(pa.table({"k": [7], "b": [True]}))
    chain = " or ".join(f"k = {number}" for number in range(400))
    assert table.scan(filter=chain).to_arrow().num_rows == 1
    for deep in ("not " * 200 + "b", "not (" * 60 + "b" + ")" * 60, "(" * 330 + "b" + ")" * 330):
        with pytest.raises(wt.InvalidError, match="filter"):
            table.scan(filter=deep).to_arrow()


def _in_parentheses(word: str, condition: str, *, width: int, depth: int) -> str:
    """Width ** depth conditions; no pair of parentheses has more than `width` parts."""
    for _ in range(depth):
        condition = f" {word} ".join([f"({condition})"] * width)
    return condition


_LONG = {
    "or": " or ".join(f"k = {number}" for number in range(20_000)),
    "and": " and ".join(f"k <> {number}" for number in range(8, 20_008)),
    "or of and": " or ".join(f"(k = {number} and b)" for number in range(20_000)),
    "or in parentheses": _in_parentheses("or", "k = 7", width=30, depth=3),
    "and in parentheses": _in_parentheses("and", "k = 7", width=30, depth=3),
    "null": " or ".join(["v > 1"] * 20_000) + " or k = 7",
    "not null": "k = 7 and not (" + " and ".join(["v > 1"] * 20_000) + " and k = 8)",
    "floats": f"f in ({', '.join(f'{number}.5' for number in range(20_000))})",
}


@pytest.mark.parametrize("name", _LONG)
def test_a_chain_is_a_filter_however_long_it_is(tmp_path: Path, name: str) -> None:
    columns = {"k": "BIGINT", "b": "BOOLEAN", "f": "DOUBLE", "v": "INT"}
    table = wt.Catalog(str(tmp_path)).create_table("db.t", columns, primary_key=["k"])
    table.write([{"k": 7, "b": True, "f": 2.5, "v": None}, {"k": -1, "b": None, "f": 0.0, "v": 1}])
    expected = [-1, 7] if name == "and" else [7]
    assert table.scan(filter=_LONG[name]).to_arrow()["k"].to_pylist() == expected


def test_a_filter_of_long_chains_within_each_other_ends_no_process(tmp_path: Path) -> None:
    columns = {"k": "BIGINT", "v": "INT"}
    table = wt.Catalog(str(tmp_path)).create_table("db.t", columns, primary_key=["k"])
    table.write([{"k": 7, "v": 1}])
    within = "k = 7"
    for depth in range(12):
        word = ("or", "and")[depth % 2]
        other = ("k = 0", "v = 1")[depth % 2]
        within = f"({f' {word} '.join([other] * 1_000)} {word} {within})"
    assert table.scan(filter=within).to_arrow().num_rows == 1


@pytest.mark.parametrize("number", [65, 400, 10_000])
def test_a_text_of_many_conditions_is_a_filter(tmp_path: Path, number: int) -> None:
    """Arrow ends the process with an expression that is one chain of 10,000."""
    columns = pa.schema([("k", pa.int64()), ("f", pa.float64())])
    table = wt.Catalog(str(tmp_path)).create_table("db.t", columns, primary_key=["k"])
    table.write(pa.table({"k": [-1, 0, number], "f": [0.5, None, 1.0]}))
    keys = range(number)
    either = " or ".join(f"k = {key}" for key in keys)
    neither = " and ".join(f"k <> {key}" for key in keys)
    floats = f"not f in ({', '.join(f'{key}.0' for key in keys)})"

    assert rows(table, either)["k"].to_pylist() == [0]
    assert rows(table, f"not ({either})")["k"].to_pylist() == [-1, number]
    assert rows(table, neither)["k"].to_pylist() == [-1, number]
    assert rows(table, floats)["k"].to_pylist() == [-1]


def rows(table: wt.Table, filter: str | pc.Expression) -> pa.Table:
    return table.scan(filter=filter).to_arrow().sort_by("k")


def test_an_expression_of_many_conditions_is_a_filter_or_refused(tmp_path: Path) -> None:
    columns = pa.schema([("k", pa.int64()), ("b", pa.bool_())])
    table = wt.Catalog(str(tmp_path)).create_table("db.t", columns, primary_key=["k"])
    table.write(pa.table({"k": [7, 2_000], "b": [True, True]}))
    equal = [pc.field("k") == number for number in range(10_000)]

    assert rows(table, reduce(operator.or_, equal[:600]))["k"].to_pylist() == [7]
    for wrong in (
        reduce(operator.or_, equal),
        halved(equal),
        reduce(operator.add, [pc.field("k")] * 5_000) > 5,
    ):
        with pytest.raises(wt.InvalidError, match="more than 1,000 conditions"):
            table.scan(filter=wrong).to_arrow()


def halved(parts: list[pc.Expression]) -> pc.Expression:
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return halved(parts[:middle]) | halved(parts[middle:])
