"""What numpy gets for each type of column: exact values, and errors that name the column."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from widetable.derive.loading.column_form import ColumnForm, form_of
from widetable.errors import InvalidError, UnsupportedError
from widetable.schema.type_text import type_from_text
from widetable.schema.types import DataField, arrow_type

DAY = dt.date(1969, 12, 30)
MOMENT = dt.datetime(2026, 11, 30, 6, 0, 0, 123000)
MILLIS = int(MOMENT.replace(tzinfo=dt.timezone.utc).timestamp() * 1000)


def field(text: str) -> DataField:
    return DataField(0, "c", type_from_text(text))


def form(text: str, *, masks: bool = False, **choices: Any) -> ColumnForm:
    fills = {"c": choices["fill"]} if "fill" in choices else {}
    words = {"c": choices["words"]} if "words" in choices else {}
    return form_of(field(text), masks=masks, fills=fills, vocabularies=words)


def array(text: str, values: list[Any]) -> pa.Array:
    return pa.array(values, arrow_type(field(text).type))


@pytest.mark.parametrize(
    ("text", "values", "dtype", "expected"),
    [
        ("BOOLEAN", [True, False], "bool", [True, False]),
        ("TINYINT", [-128, 127], "int8", [-128, 127]),
        ("SMALLINT", [-5], "int16", [-5]),
        ("INT", [2**31 - 1], "int32", [2**31 - 1]),
        ("BIGINT", [-(2**63), 2**53 + 1], "int64", [-(2**63), 2**53 + 1]),
        ("FLOAT", [1.5], "float32", [1.5]),
        ("DOUBLE", [0.1, float("inf")], "float64", [0.1, float("inf")]),
        ("DATE", [DAY], "int32", [-2]),
        ("TIME(3)", [dt.time(0, 0, 1, 5000)], "int32", [1005]),
        ("TIMESTAMP(3)", [MOMENT], "int64", [MILLIS]),
        ("TIMESTAMP(6)", [MOMENT], "int64", [MILLIS * 1000]),
        ("TIMESTAMP(9) WITH LOCAL TIME ZONE", [MOMENT], "int64", [MILLIS * 10**6]),
        ("DECIMAL(5, 2)", [Decimal("1.50"), Decimal("-999.99")], "int64", [150, -99999]),
        ("DECIMAL(18, 0)", [Decimal(10**18 - 1)], "int64", [10**18 - 1]),
        ("STRING", ["a", "é"], "object", ["a", "é"]),
        ("BYTES", [b"\x00", b""], "object", [b"\x00", b""]),
        ("ARRAY<FLOAT>", [[1, 2], [3, 4]], "float32", [[1, 2], [3, 4]]),
        ("ARRAY<BIGINT>", [[], []], "int64", [[], []]),
    ],
)
def test_values_are_exact(text: str, values: list[Any], dtype: str, expected: list[Any]) -> None:
    for chosen, wanted in (
        (array(text, values), expected),
        (array(text, [None, *values]).slice(1), expected),
        (array(text, []), []),
    ):
        formed = form(text).formed(chosen)
        assert formed.valid is None
        assert formed.values.dtype == np.dtype(dtype)
        assert formed.values.tolist() == wanted


@pytest.mark.parametrize(
    ("text", "values", "zero"),
    [
        ("BOOLEAN", [True, None], False),
        ("INT", [None, 3], 0),
        ("DOUBLE", [0.5, None], 0.0),
        ("DATE", [DAY, None], 0),
        ("TIMESTAMP(3)", [None, MOMENT], 0),
        ("DECIMAL(5, 2)", [Decimal("1.50"), None], 0),
        ("STRING", [None, "x"], ""),
        ("BYTES", [b"y", None], b""),
        ("ARRAY<INT>", [[1, 2], None], [0, 0]),
        ("ARRAY<BOOLEAN>", [[True], None], [False]),
    ],
)
def test_a_mask_says_what_is_valid(text: str, values: list[Any], zero: Any) -> None:
    formed = form(text, masks=True).formed(array(text, values))
    assert formed.valid is not None
    assert formed.valid.tolist() == [value is not None for value in values]
    assert (
        formed.values[values.index(None)].tolist() == zero
        if isinstance(formed.values[0], np.ndarray | np.generic)
        else formed.values[values.index(None)] == zero
    )


def test_a_column_without_nulls_has_a_mask_if_it_may_have_nulls() -> None:
    valid = form("INT", masks=True).formed(array("INT", [1, 2])).valid
    assert valid is not None
    assert valid.tolist() == [True, True]
    assert form("INT NOT NULL", masks=True).formed(array("INT NOT NULL", [1, 2])).valid is None


@pytest.mark.parametrize(
    ("text", "fill", "values", "expected"),
    [
        ("INT", 7, [None, 1], [7, 1]),
        ("DECIMAL(5, 2)", Decimal("0.25"), [None], [25]),
        ("STRING", "?", [None, "a"], ["?", "a"]),
        ("DATE", DAY, [None], [-2]),
        ("ARRAY<INT>", [8, 9], [None, [1, 2]], [[8, 9], [1, 2]]),
    ],
)
def test_a_value_stands_for_nulls(
    text: str, fill: Any, values: list[Any], expected: list[Any]
) -> None:
    assert form(text, fill=fill).formed(array(text, values)).values.tolist() == expected


def test_words_have_their_place_in_the_vocabulary_and_unseen_ones_that_behind_it() -> None:
    chosen = form("STRING", words=["Oslo", "Bergen"])
    places = chosen.formed(array("STRING", ["Bergen", "Rome", "Oslo", ""])).values
    assert places.dtype == np.int64
    assert places.tolist() == [1, 2, 0, 2]
    with pytest.raises(InvalidError, match="'c'"):
        chosen.formed(array("STRING", [None]))
    filled = form("STRING", words=["Oslo"], fill="Oslo")
    assert filled.formed(array("STRING", [None, "x"])).values.tolist() == [0, 1]


@pytest.mark.parametrize(
    "text", ["MAP<INT, INT>", "ROW<x INT>", "ARRAY<STRING>", "DECIMAL(19, 2)", "ARRAY<ARRAY<INT>>"]
)
def test_a_type_without_a_form_is_refused_by_name(text: str) -> None:
    with pytest.raises(UnsupportedError, match=r"column 'c'.*Leave it out"):
        form(text)


@pytest.mark.parametrize(
    ("text", "values", "finding"),
    [
        ("ARRAY<INT>", [[1], [1, 2]], "lists of the lengths 1 and 2"),
        ("ARRAY<INT>", [[1, None]], "a null within a list"),
        ("ARRAY<INT>", [None], "1 null in 1 row"),
        ("STRING", ["a", None], "1 null in 2 rows"),
    ],
)
def test_lists_and_nulls_that_do_not_fit(text: str, values: list[Any], finding: str) -> None:
    with pytest.raises(InvalidError, match=f"column 'c': found {finding}"):
        form(text).formed(array(text, values))


def test_no_list_tells_the_length_of_a_masked_one() -> None:
    with pytest.raises(InvalidError, match=r"column 'c'.*null={'c'"):
        form("ARRAY<INT>", masks=True).formed(array("ARRAY<INT>", [None]))


@pytest.mark.parametrize("words", ["Oslo", ["a", "a"], ["a", None], [1], 3])
def test_a_vocabulary_that_is_none_is_refused(words: Any) -> None:
    with pytest.raises(InvalidError, match="vocabulary of column 'c'"):
        form("STRING", words=words)
