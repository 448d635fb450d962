"""Which type of the target a type of the source gets, and which texts a type refuses, in both tiers of kernels."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from widetable import InvalidError
from widetable_cdc.values.column_type import column_type
from widetable_cdc.values.source_type import SourceType
from widetable_cdc.values.source_types import TypeRow, resolve

pytestmark = pytest.mark.usefixtures("tier")

INT = SourceType(23, "int4")


def numeric(precision: int, scale: int) -> SourceType:
    return SourceType(1700, "numeric", typmod=((precision << 16) | (scale & 0x7FF)) + 4)


def texts(*values: str | None) -> pa.Array:
    return pa.array(values, pa.large_string())


@pytest.mark.parametrize(
    ("source", "decimal", "target"),
    [
        (numeric(38, 38), None, "DECIMAL(38, 38)"),
        (numeric(10, 0), "38,18", "DECIMAL(10, 0)"),
        (numeric(39, 0), None, "STRING"),
        (numeric(39, 0), "38,18", "DECIMAL(38, 18)"),
        (numeric(5, -2), None, "STRING"),
        (numeric(3, 5), None, "STRING"),
        (SourceType(1700, "numeric"), "10,10", "DECIMAL(10, 10)"),
        (SourceType(1231, "_numeric", element=SourceType(1700, "numeric")), "9,0", "ARRAY<DECIMAL(9, 0)>"),
        (SourceType(142, "xml"), None, "STRING"),
        (SourceType(99_999, "int4", kind="e"), None, "STRING"),
        (SourceType(99_999, "int4", kind="c"), None, "STRING"),
        (SourceType(99_999, "hstore"), None, "STRING"),
    ],
)  # fmt: skip
def test_a_type_has_its_target(source: SourceType, decimal: str | None, target: str) -> None:
    assert column_type(source, decimal=decimal).target == target


def test_a_type_that_becomes_a_string_has_a_note() -> None:
    noted = [numeric(39, 0), SourceType(99_999, "hstore"), SourceType(99_999, "pair", kind="c")]
    assert [column_type(source).note is None for source in noted] == [False] * 3
    plain = [SourceType(25, "text"), SourceType(99_999, "mood", kind="e"), numeric(3, 2), INT]
    assert [column_type(source).note for source in plain] == [None] * 4


@pytest.mark.parametrize("decimal", ["", "38", "39,1", "5,6", "0,0", "5,-1", "38.18"])
def test_a_decimal_that_is_none_is_refused(decimal: str) -> None:
    with pytest.raises(InvalidError, match="expected a precision of 1 to 38"):
        column_type(INT, decimal=decimal)


ROWS = {
    row.oid: row
    for row in (
        TypeRow(23, "int4", "b", 0, -1, 0, "N"),
        TypeRow(1007, "_int4", "b", 0, -1, 23, "A"),
        TypeRow(1700, "numeric", "b", 0, -1, 0, "N"),
        TypeRow(1231, "_numeric", "b", 0, -1, 1700, "A"),
        TypeRow(22, "int2vector", "b", 0, -1, 21, "A"),
        TypeRow(600, "point", "b", 0, -1, 701, "G"),
        TypeRow(50_000, "price", "d", 1700, 655_366, 0, "N"),
        TypeRow(50_001, "fair_price", "d", 50_000, -1, 0, "N"),
        TypeRow(50_002, "_fair_price", "b", 0, -1, 50_001, "A"),
        TypeRow(50_003, "prices", "d", 1231, 655_366, 0, "A"),
    )
}
PRICE = SourceType(1700, "numeric", typmod=655_366)


@pytest.mark.parametrize(
    ("oid", "typmod", "expected"),
    [
        (23, -1, INT),
        (1007, -1, SourceType(1007, "_int4", element=INT)),
        (1700, 655_366, PRICE),
        (1231, 655_366, SourceType(1231, "_numeric", typmod=655_366, element=PRICE)),
        (50_000, -1, PRICE),
        (50_001, -1, PRICE),
        (50_002, -1, SourceType(50_002, "_fair_price", element=PRICE)),
        (50_003, -1, SourceType(1231, "_numeric", typmod=655_366, element=PRICE)),
        (22, -1, SourceType(22, "int2vector")),
        (600, -1, SourceType(600, "point")),
    ],
)
def test_domains_and_arrays_are_resolved(oid: int, typmod: int, expected: SourceType) -> None:
    assert resolve(oid, typmod, ROWS) == expected


def test_an_unknown_type_is_an_error() -> None:
    with pytest.raises(InvalidError, match="type with the oid 7"):
        resolve(7, -1, ROWS)


@pytest.mark.parametrize(
    ("source", "good", "bad"),
    [
        (SourceType(16, "bool"), ["t", "f"], ["true", "", "T"]),
        (SourceType(21, "int2"), ["-32768", "32767"], ["32768", "1.0", " 1", "x", ""]),
        (SourceType(701, "float8"), ["1e-300", "-Infinity"], ["", "x", "1,5"]),
        (numeric(3, 2), ["9.99", "-0.01", "1"], ["10", "0.001", "NaN", "", "1e0x"]),
        (SourceType(1082, "date"), ["0001-01-01"], ["2026-13-01", "2026-02-30", "infinity", "2026-1-1"]),
        (SourceType(1083, "time", typmod=3), ["23:59:59.999"], ["24:00:00", "00:00:00.0001", "1"]),
        (SourceType(1114, "timestamp"), ["2026-01-02 03:04:05.1"], ["2026-01-02 24:00:01", "x"]),
        (SourceType(1184, "timestamptz"), ["2026-01-02 03:04:05+00"], ["2026-01-02 03:04:05"]),
        (SourceType(17, "bytea"), ["\\x", "\\x0fAB"], ["", "\\x0", "\\x0g", "x00", "\\000"]),
        (
            SourceType(1007, "_int4", element=INT),
            ["{}", "{1}", '{"1",NULL,-2}', "[0:1]={1,2}", "[-2:-2]={NULL}"],
            ["", "{", "{1", "{1}x", "{1,}", "{,1}", "{}}", "{{1}}", "1", "[1:1]", "{x}", '{"1}', '{"1"2}', "[="],
        ),
    ],
    ids=lambda each: each.name if isinstance(each, SourceType) else "",
)  # fmt: skip
def test_what_a_type_does_not_hold_is_bad_and_the_rest_is_read(
    source: SourceType, good: list[str], bad: list[str]
) -> None:
    kind = column_type(source)
    alone = [kind.from_texts(texts(text)).values[0] for text in good]
    values = [None, *good, *bad, *good]
    cast = kind.from_texts(texts("cut off", *values).slice(1))
    assert cast.bad.tolist() == [False] * (1 + len(good)) + [True] * len(bad) + [False] * len(good)
    assert [cast.values[at + 1] for at in range(len(good))] == alone
    assert cast.values.null_count == 1 + len(bad)
    assert cast.values.type == kind.arrow
    cast.values.validate(full=True)


def test_many_bad_values_between_good_ones_are_all_named(rng: random.Random) -> None:
    kind = column_type(numeric(5, 2))
    values = [
        rng.choice(("1.25", "NaN", "-Infinity", f"{rng.randint(0, 99999)}.1", None))
        for _ in range(3000)
    ]
    cast = kind.from_texts(texts(*values))
    is_bad = [
        value is not None and not (value[0].isdigit() and float(value) < 1000) for value in values
    ]
    assert cast.bad.tolist() == is_bad
    rest = [value for value, refused in zip(values, is_bad, strict=True) if not refused]
    kept = cast.values.filter(pa.array([not refused for refused in is_bad])).to_pylist()
    assert [None if each is None else float(each) for each in kept] == [
        None if each is None else float(each) for each in rest
    ]


@pytest.mark.parametrize(
    "source", [INT, SourceType(17, "bytea"), SourceType(1007, "_int4", element=INT)]
)
def test_no_values_are_no_values(source: SourceType) -> None:
    kind = column_type(source)
    for values in (texts(), texts(None, None), texts("a").slice(1)):
        cast = kind.from_texts(values)
        assert len(cast.values) == len(cast.bad) == cast.values.null_count == len(values)
        assert cast.values.type == kind.arrow
