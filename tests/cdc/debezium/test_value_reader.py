"""Values become what Kafka Connect and Debezium document, and what a type does not hold is bad."""

from __future__ import annotations

import base64
import json
import random
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal, localcontext
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cdc.debezium.written_records import schema
from widetable_cdc.debezium.base64_bytes import decoded
from widetable_cdc.debezium.connect_schema import record_form
from widetable_cdc.debezium.json_texts import texts_of
from widetable_cdc.debezium.value_cast import MarkedValues
from widetable_cdc.debezium.value_form import ValueForm, assumed_form, value_form
from widetable_cdc.debezium.value_reader import read_values

EPOCH = datetime(1970, 1, 1)
MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678901)
MICROS = (MOMENT - EPOCH) // timedelta(microseconds=1)
DECIMAL = "org.apache.kafka.connect.data.Decimal"
VARIABLE = {"type": "struct", "fields": [], "name": "io.debezium.data.VariableScaleDecimal"}


def named(kind: str, name: str, **parameters: int) -> dict[str, Any]:
    texts = {key.replace("_", "."): str(value) for key, value in parameters.items()}
    return {"type": kind, "name": name, "parameters": texts}


def numeric(precision: int, scale: int) -> dict[str, Any]:
    return named("bytes", DECIMAL, scale=scale, connect_decimal_precision=precision)


def array(items: str | dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": {"type": items} if isinstance(items, str) else items}


def form_of(kind: str | dict[str, Any]) -> ValueForm:
    form = record_form(json.dumps(schema([("c", kind, True)])))
    return value_form(form.columns[0].type)


def read(
    values: list[str | None], form: ValueForm, type: pa.DataType | None = None
) -> MarkedValues:
    data, ranges = texts_of(pa.array(values, pa.large_string()))
    cast = read_values(form, data, ranges, type or form.type)
    assert cast.values.type == (type or form.type)
    assert len(cast.values) == len(values)
    return cast


def unscaled(number: int) -> str:
    size = number.bit_length() // 8 + 1
    return base64.b64encode(number.to_bytes(size, "big", signed=True)).decode()


def variable(scale: int, number: int) -> str:
    return f'{{"scale":{scale},"value":"{unscaled(number)}"}}'


UTC = timezone.utc
CASES: list[tuple[str | dict[str, Any], pa.DataType, str, Any]] = [
    ("boolean", pa.bool_(), "false", False),
    ("int16", pa.int16(), "-32768", -32768),
    ("int32", pa.int32(), "7", 7),
    ("int64", pa.int64(), "9007199254740993", 9007199254740993),
    ("float", pa.float32(), "1.5", 1.5),
    ("double", pa.float64(), "0.1", 0.1),
    ("double", pa.float64(), '"Infinity"', float("inf")),
    ("string", pa.string(), '"h\\u00e9 \\"x\\""', 'hé "x"'),
    ("bytes", pa.binary(), '"AP8="', b"\x00\xff"),
    (numeric(10, 2), pa.decimal128(10, 2), '"BM4="', Decimal("12.30")),
    (numeric(10, 2), pa.decimal128(10, 2), "12.30", Decimal("12.30")),
    (numeric(38, 0), pa.decimal128(38, 0), f'"{unscaled(10**38 - 1)}"', Decimal(10**38 - 1)),
    (numeric(50, 3), pa.string(), f'"{unscaled(-(10**45) - 7)}"', f"-1{'0' * 42}.007"),
    (named("bytes", DECIMAL, scale=2), pa.string(), '"BOI="', "12.50"),
    (VARIABLE, pa.string(), variable(0, 10**30), "1" + "0" * 30),
    (VARIABLE, pa.string(), variable(7, -1), "-0.0000001"),
    (VARIABLE, pa.string(), variable(-3, 12), "12000"),
    (named("int32", "io.debezium.time.Date"), pa.date32(), "20455", date(2026, 1, 2)),
    (named("int32", "org.apache.kafka.connect.data.Date"), pa.date32(), "-1", date(1969, 12, 31)),
    (named("int32", "io.debezium.time.Time"), pa.time32("ms"), "11045678", time(3, 4, 5, 678000)),
    (named("int64", "io.debezium.time.MicroTime"), pa.string(), "11045678901", "03:04:05.678901"),
    (
        named("int64", "io.debezium.time.Timestamp"),
        pa.timestamp("ms"),
        str(MICROS // 1000),
        MOMENT.replace(microsecond=678000),
    ),
    (named("int64", "io.debezium.time.MicroTimestamp"), pa.timestamp("us"), str(MICROS), MOMENT),
    (
        named("string", "io.debezium.time.ZonedTimestamp"),
        pa.timestamp("us", "UTC"),
        '"2026-01-02T03:04:05.678901+02:00"',
        datetime(2026, 1, 2, 1, 4, 5, 678901, UTC),
    ),
    (
        named("string", "io.debezium.time.ZonedTimestamp"),
        pa.timestamp("us", "UTC"),
        '"2026-01-02T01:04:05.678901000Z"',
        datetime(2026, 1, 2, 1, 4, 5, 678901, UTC),
    ),
    (named("int32", "io.debezium.time.Year"), pa.int32(), "1999", 1999),
    (named("string", "io.debezium.time.ZonedTime"), pa.string(), '"01:04:05Z"', "01:04:05Z"),
    (named("bytes", "io.debezium.data.Bits", length=12), pa.string(), '"BQ=="', "000000000101"),
    (named("string", "io.debezium.data.Enum"), pa.string(), '"ok"', "ok"),
    (named("string", "io.debezium.data.Json"), pa.string(), '"{\\"a\\": 1}"', '{"a": 1}'),
    ({"type": "struct", "fields": []}, pa.string(), '{"x":1.0,"wkb":"AQ"}', '{"x":1.0,"wkb":"AQ"}'),
    ({"type": "map"}, pa.string(), '{"k":"v"}', '{"k":"v"}'),
    (array("int32"), pa.list_(pa.int32()), "[1, 2,null]", [1, 2, None]),
    (array("string"), pa.list_(pa.string()), '["a","",null]', ["a", "", None]),
    (array(numeric(6, 2)), pa.list_(pa.decimal128(6, 2)), '["AJY="]', [Decimal("1.50")]),
]


@pytest.mark.parametrize(("kind", "type", "text", "value"), CASES)
def test_a_value_of_each_type(
    kind: str | dict[str, Any], type: pa.DataType, text: str, value: Any
) -> None:
    form = form_of(kind)
    assert form.type == type
    cast = read([text, None, "null", text], form)
    assert not cast.is_bad.any()
    assert cast.values.to_pylist() == [value, None, None, value]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        *((kind, text) for kind in ("int32", "int64") for text in ("1.5", '"x"', "true", '"0x10"')),
        ("int32", "2147483648"),
        ("int64", "9223372036854775808"),
        ("boolean", "1"),
        ("bytes", '"A"'),
        (numeric(10, 2), f'"{unscaled(10**10)}"'),
        (numeric(10, 2), "1.005"),
        (numeric(10, 2), '"NaN"'),
        (VARIABLE, '{"scale":2}'),
        (named("int32", "io.debezium.time.Date"), "2932897"),  # 10000-01-01
        (named("int64", "io.debezium.time.MicroTimestamp"), "9223372036825200000"),  # infinity
        (named("int32", "io.debezium.time.Time"), "86400000"),
        (named("string", "io.debezium.time.ZonedTimestamp"), '"2026-01-02T03:04:05.1234567Z"'),
        (named("string", "io.debezium.time.ZonedTimestamp"), '"+10000-01-02T03:04:05Z"'),
        (array("int32"), "[1,2.5]"),
        (array("int32"), '{"a":1}'),
    ],
)
def test_a_value_that_its_type_does_not_hold_is_bad(kind: str | dict[str, Any], text: str) -> None:
    cast = read(["null", text, "null"], form_of(kind))
    assert cast.is_bad.tolist() == [False, True, False]
    assert cast.values.to_pylist() == [None, None, None]


@given(st.lists(st.tuples(st.integers(-(10**60), 10**60), st.integers(-5, 40)), max_size=20))
def test_decimals_of_any_size_keep_all_digits(numbers: list[tuple[int, int]]) -> None:
    texts = [variable(scale, number) for number, scale in numbers]
    cast = read(list(texts), form_of(VARIABLE))
    assert not cast.is_bad.any()
    with localcontext() as context:
        context.prec = 200
        for (number, scale), text in zip(numbers, cast.values.to_pylist(), strict=True):
            assert Decimal(text) == Decimal(number).scaleb(-scale)
            assert "E" not in text


def test_base64_is_what_python_decodes(rng: random.Random) -> None:
    values = [rng.randbytes(rng.randrange(9)) for _ in range(60)]
    texts = [base64.b64encode(value).decode() for value in values]
    values_again, is_bad = decoded(
        pa.array([*texts, None, "A===", "AB=C", "A B="], pa.large_string())
    )
    assert values_again.to_pylist() == [*values, None, None, None, None]
    assert is_bad.tolist() == [False] * 61 + [True] * 3


@pytest.mark.parametrize(
    ("type", "text", "value"),
    [
        (pa.timestamp("ms"), str(MICROS // 1000), MOMENT.replace(microsecond=678000)),
        (pa.timestamp("us"), str(MICROS), MOMENT),
        (pa.timestamp("us", "UTC"), '"2026-01-02T03:04:05.678901Z"', MOMENT.replace(tzinfo=UTC)),
        (pa.time32("ms"), "11045678", time(3, 4, 5, 678000)),
        (pa.date32(), "20455", date(2026, 1, 2)),
        (pa.decimal128(10, 2), '"BM4="', Decimal("12.30")),
        (pa.binary(), '"AP8="', b"\x00\xff"),
        (pa.string(), "12.30", "12.30"),
        (pa.list_(pa.int64()), "[1]", [1]),
    ],
)
def test_without_a_schema_the_column_says_the_form(
    type: pa.DataType, text: str, value: Any
) -> None:
    cast = read([text], assumed_form(type, "precise"), type)
    assert cast.values.to_pylist() == [value]
    assert not cast.is_bad.any()


@pytest.mark.parametrize("mode", ["string", "double"])
def test_without_a_schema_decimals_may_be_texts_or_numbers(mode: str) -> None:
    type = pa.decimal128(10, 2)
    cast = read(['"12.30"', "12.3", '"BM4="'], assumed_form(type, mode), type)
    assert cast.values.to_pylist() == [Decimal("12.30"), Decimal("12.30"), None]
    assert cast.is_bad.tolist() == [False, False, True]
