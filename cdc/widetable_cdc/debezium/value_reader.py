"""Values of JSON become columns of a table's types.

    form                raw texts                       column
    DECIMAL, scale 2    "BM4=", null, 12.30             12.30, null, 12.30
    TIMESTAMP, 6        1767323045678901                2026-01-02 03:04:05.678901
    ARRAY of PLAIN      [1,2,null]                      [1, 2, null]

In: bytes and ranges of raw JSON values, which were checked, the form in which they are written, and the Arrow type of
the column. Out: `MarkedValues`: what the type does not hold is bad, never rounded and never null by itself. No value
goes through a double unless its column has doubles. Raises nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from widetable_cdc.debezium.base64_bytes import decoded
from widetable_cdc.debezium.decimals import are_short, number_texts, short_numbers
from widetable_cdc.debezium.json_fields import Ranges, scan_elements, scan_fields
from widetable_cdc.debezium.json_kernels import Bytes, Longs
from widetable_cdc.debezium.json_texts import raw_texts, string_texts
from widetable_cdc.debezium.value_cast import (
    MarkedValues,
    cast,
    chosen,
    days,
    good,
    moments,
    times_of_day,
    zoned_moments,
)
from widetable_cdc.debezium.value_form import Encoding, ValueForm


def read_values(form: ValueForm, data: Bytes, ranges: Ranges, type: pa.DataType) -> MarkedValues:
    """Return the values as a column of `type`. JSON's null, and no text, is null."""
    there = ranges.where(~ranges.begin_with(data, "n"))
    return _READERS[form.encoding](form, data, there, type)


def _plain(form: ValueForm, data: Bytes, ranges: Ranges, type: pa.DataType) -> MarkedValues:
    texts = cast(string_texts(data, ranges), type)
    if not pa.types.is_integer(type) and not pa.types.is_boolean(type):
        return texts
    # Arrow reads 0x10 as an integer, and 1 as true.
    letters = "tf" if pa.types.is_boolean(type) else '"-0123456789'
    texts = texts.but(ranges.is_there & ~ranges.begin_with(data, letters))
    return texts.but(_hexadecimal(data, ranges)) if pa.types.is_integer(type) else texts


def _hexadecimal(data: Bytes, ranges: Ranges) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which texts are strings such as "0x10"."""
    second = np.minimum(np.maximum(ranges.starts + 2, 0), max(len(data) - 1, 0))
    if not len(data):
        return np.zeros(len(ranges.starts), np.bool_)
    return ranges.begin_with(data, '"') & np.isin(data[second], [ord("x"), ord("X")])


def _text(form: ValueForm, data: Bytes, ranges: Ranges, type: pa.DataType) -> MarkedValues:
    return cast(raw_texts(data, ranges), type)


def _base64(form: ValueForm, data: Bytes, ranges: Ranges, type: pa.DataType) -> MarkedValues:
    texts = string_texts(data, ranges)
    if pa.types.is_string(type) or pa.types.is_large_string(type):
        return cast(texts, type)
    values, is_bad = decoded(texts)
    return MarkedValues(values, is_bad).then(type)


def _decimal(form: ValueForm, data: Bytes, ranges: Ranges, type: pa.DataType) -> MarkedValues:
    is_bytes = ranges.begin_with(data, '"')
    values, is_bad = decoded(string_texts(data, ranges.where(is_bytes)))
    scales = np.full(len(values), form.scale, np.int64)
    written = _scaled(values, scales, type).but(is_bad)
    if np.array_equal(is_bytes, ranges.is_there):
        return written
    return chosen(is_bytes, written, _plain(form, data, ranges.where(~is_bytes), type))


def _scaled(values: pa.Array, scales: Longs, type: pa.DataType) -> MarkedValues:
    is_plain = len(scales) > 0 and (scales == scales[0]).all() and 0 <= scales[0] <= 36
    if pa.types.is_decimal(type) and is_plain and are_short(values):
        return cast(short_numbers(values, int(scales[0])), type)
    return cast(number_texts(values, scales), type)


def _variable_decimal(
    form: ValueForm, data: Bytes, ranges: Ranges, type: pa.DataType
) -> MarkedValues:
    is_struct = ranges.begin_with(data, "{")
    fields = scan_fields(data, ranges.where(is_struct), ["scale", "value"])
    scales = cast(string_texts(data, fields["scale"]), pa.int32())
    values, is_bad = decoded(string_texts(data, fields["value"]))
    numbers = np.asarray(scales.values.fill_null(0)).astype(np.int64)
    is_whole = fields["scale"].is_there & fields["value"].is_there
    written = _scaled(values, numbers, type).but(is_bad | scales.is_bad | (is_struct & ~is_whole))
    if np.array_equal(is_struct, ranges.is_there):
        return written
    return chosen(is_struct, written, _plain(form, data, ranges.where(~is_struct), type))


def _numbers(data: Bytes, ranges: Ranges) -> tuple[MarkedValues, Ranges]:
    """Return the integers among the values, and the ranges of the strings, which are written in another way."""
    is_string = ranges.begin_with(data, '"')
    numbers = cast(string_texts(data, ranges.where(~is_string)), pa.int64())
    return numbers, ranges.where(is_string)


def _days(form: ValueForm, data: Bytes, ranges: Ranges, type: pa.DataType) -> MarkedValues:
    numbers, strings = _numbers(data, ranges)
    texts = cast(string_texts(data, strings), type)
    return chosen(~strings.is_there, days(numbers, type), texts)


def _time(form: ValueForm, data: Bytes, ranges: Ranges, type: pa.DataType) -> MarkedValues:
    numbers, strings = _numbers(data, ranges)
    texts = cast(string_texts(data, strings), type)
    return chosen(~strings.is_there, times_of_day(numbers, form.digits, type), texts)


def _timestamp(form: ValueForm, data: Bytes, ranges: Ranges, type: pa.DataType) -> MarkedValues:
    numbers, strings = _numbers(data, ranges)
    texts = zoned_moments(string_texts(data, strings), type)
    return chosen(~strings.is_there, moments(numbers, form.digits, type), texts)


def _zoned(form: ValueForm, data: Bytes, ranges: Ranges, type: pa.DataType) -> MarkedValues:
    return zoned_moments(string_texts(data, ranges), type)


def _bits(form: ValueForm, data: Bytes, ranges: Ranges, type: pa.DataType) -> MarkedValues:
    """Return texts of zeros and ones, the highest bit first, as PostgreSQL writes them."""
    values, is_bad = decoded(string_texts(data, ranges))
    sizes = np.asarray(pc.binary_length(values).fill_null(0)).astype(np.int64)
    width = max((form.length + 7) // 8, int(sizes.max(initial=0)))
    offsets = np.concatenate(([0], np.cumsum(sizes)))[:-1]
    bytes_of = np.frombuffer(values.buffers()[2] or b"", np.uint8)
    places = offsets[:, None] + np.arange(width)
    rows = np.zeros((len(values), width), np.uint8)
    if len(bytes_of):
        is_there = np.arange(width) < sizes[:, None]
        rows = np.where(is_there, bytes_of[np.minimum(places, len(bytes_of) - 1)], 0)
    bits = np.unpackbits(rows.astype(np.uint8), axis=1, bitorder="little")
    length = form.length or bits.shape[1]
    letters = np.ascontiguousarray(bits[:, :length][:, ::-1] + ord("0"))
    is_long = bits[:, length:].any(axis=1)
    count = np.arange(len(values) + 1, dtype=np.int64) * length
    buffers = [pa.py_buffer(count), pa.py_buffer(letters)]
    texts = pa.LargeStringArray.from_buffers(len(values), *buffers)
    texts = pc.if_else(values.is_valid(), texts, pa.scalar(None, pa.large_string()))
    return cast(texts, type).but(is_bad | is_long)


def _array(form: ValueForm, data: Bytes, ranges: Ranges, type: pa.DataType) -> MarkedValues:
    if not pa.types.is_list(type) or form.element is None:
        return _text(form, data, ranges, type)
    offsets, elements, is_json = scan_elements(data, ranges)
    values = read_values(form.element, data, elements, type.value_type)
    bad_before = np.concatenate(([0], np.cumsum(values.is_bad)))
    is_bad = bad_before[offsets[1:]] > bad_before[offsets[:-1]]
    mask = pa.array(~ranges.is_there | ~is_json)
    lists = pa.ListArray.from_arrays(
        pa.array(offsets.astype(np.int32)), values.values, type=type, mask=mask
    )
    return good(lists).but(is_bad | (ranges.is_there & ~is_json))


_READERS: Final[dict[Encoding, Callable[[ValueForm, Bytes, Ranges, pa.DataType], MarkedValues]]] = {
    Encoding.PLAIN: _plain,
    Encoding.BASE64: _base64,
    Encoding.DECIMAL: _decimal,
    Encoding.VARIABLE_DECIMAL: _variable_decimal,
    Encoding.DAYS: _days,
    Encoding.TIME: _time,
    Encoding.TIMESTAMP: _timestamp,
    Encoding.ZONED: _zoned,
    Encoding.BITS: _bits,
    Encoding.JSON: _text,
    Encoding.ARRAY: _array,
}
