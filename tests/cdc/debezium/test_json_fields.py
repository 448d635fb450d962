"""Fields and elements are where Python's json finds them, and what it refuses is marked."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.programs import tiers
from widetable_cdc.debezium.json_fields import repeats, scan_elements, scan_fields
from widetable_cdc.debezium.json_texts import raw_texts, string_texts, texts_of

NAMES = ["a", "größe", 'b"\\', "🙂", "missing"]
_LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
)
VALUES = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from([*NAMES[:-1], "other"]), VALUES)


@pytest.fixture(params=tiers.TIERS)
def tier(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    tiers.only(request.param, monkeypatch)


def texts(values: Sequence[str | None]) -> pa.Array:
    return pa.array(values, pa.large_string())


def is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


@given(
    st.lists(OBJECTS, max_size=5),
    st.sampled_from([(",", ":"), (" , ", " : ")]),
    st.booleans(),
    st.integers(0, 3),
)
def test_fields_have_the_values_that_json_reads(
    rows: list[dict[str, Any]], separators: tuple[str, str], is_ascii: bool, sliced: int
) -> None:
    written = [json.dumps(r, separators=separators, ensure_ascii=is_ascii) for r in rows]
    column = texts([*["{}"] * sliced, *written])[sliced:]
    data, ranges = texts_of(column)
    fields = scan_fields(data, ranges, NAMES)
    assert fields.is_json.all()
    for name in NAMES:
        raw = raw_texts(data, fields[name]).to_pylist()
        plain = string_texts(data, fields[name]).to_pylist()
        for row, one, text in zip(rows, raw, plain, strict=True):
            assert (one is None) == (name not in row)
            if one is not None:
                assert json.loads(one) == row[name]
            if isinstance(row.get(name), str):
                assert text == row[name]
    strange = raw_texts(data, fields.unknown).to_pylist()
    assert strange == ["other" if "other" in row else None for row in rows]


@pytest.mark.usefixtures("tier")
def test_both_tiers_find_the_same_in_broken_texts(rng: random.Random) -> None:
    whole = json.dumps({"a": [1, -2.5e3, {"b": "\\u00e9"}, [], {}], "größe": True, "z": None})
    broken = []
    for _ in range(120):
        at = rng.randrange(len(whole))
        letter = rng.choice('{}[]",:\\ 0-+.eE\x01utrue')
        cut = rng.randrange(3)
        broken.append(whole[:at] + (letter if cut else "") + whole[at + (cut < 2) :])
    data, ranges = texts_of(texts(broken))
    fields = scan_fields(data, ranges, ["a"])
    for text, accepted in zip(broken, fields.is_json.tolist(), strict=True):
        assert accepted == is_object(text), text


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "{", "[1]", '"a"', "1", "null", '{"a":1}x', '{"a":01}', '{"a":1,}', '{"a" 1}'),
        *('{"a":nul}', '{"a":-}', '{"a":1.}', '{"a":1e}', '{"a":"x\ty"}', '{"a":[}', '{"a":{]}'),
        *('{"a"}', '{"a":1 "b":2}', '{"a":"\\x"}', '{"a":"\\u12g4"}', '{"a":+1}', "{'a':1}"),
        '{"a":"\\ud800"}',
        '{"a":"\\udc00"}',
        '{"a":"\\ud800\\u0041"}',
        '{"a":' + "[" * 600 + "]" * 600 + "}",
    ],
)
def test_what_is_no_object_is_marked(text: str) -> None:
    data, ranges = texts_of(texts([text]))
    assert not scan_fields(data, ranges, ["a"]).is_json[0]


def test_of_two_fields_of_one_name_the_last_one_counts() -> None:
    data, ranges = texts_of(texts(['{"a":1,"b":2,"a":3}', None]))
    fields = scan_fields(data, ranges, ["b", "a"])
    assert raw_texts(data, fields["a"]).to_pylist() == ["3", None]
    assert fields.is_json.all()


def test_all_escapes_of_a_string_are_read() -> None:
    text = '{"a":"\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\u20ac\\ud83d\\ude42\\u0000"}'
    data, ranges = texts_of(texts([text]))
    fields = scan_fields(data, ranges, ["a"])
    assert string_texts(data, fields["a"]).to_pylist() == [json.loads(text)["a"]]


@given(st.lists(st.none() | st.lists(VALUES, max_size=4), max_size=5))
def test_elements_are_those_that_json_reads(rows: list[list[Any] | None]) -> None:
    data, ranges = texts_of(texts([None if row is None else json.dumps(row) for row in rows]))
    offsets, elements, is_json = scan_elements(data, ranges)
    assert is_json.all()
    assert np.diff(offsets).tolist() == [len(row or ()) for row in rows]
    every = [json.loads(text) for text in raw_texts(data, elements).to_pylist()]
    assert every == [value for row in rows for value in row or ()]


@pytest.mark.parametrize("text", ["{}", "[1,]", "[", "[1 2]", "[1]x", "1"])
def test_what_is_no_array_is_marked(text: str) -> None:
    data, ranges = texts_of(texts(["[1]", text, "[2]"]))
    offsets, elements, is_json = scan_elements(data, ranges)
    assert is_json.tolist() == [True, False, True]
    assert offsets.tolist() == [0, 1, 1, 2]
    assert raw_texts(data, elements).to_pylist() == ["1", "2"]


def test_repeats_are_marked() -> None:
    data, ranges = texts_of(texts(["ab", "ab", "ac", None, None, "", "a", "ab"]))
    marks = repeats(data, ranges).tolist()
    assert marks == [False, True, False, False, True, False, False, False]
