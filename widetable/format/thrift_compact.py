"""Parse Thrift's compact protocol: the structure of a Parquet footer, with the positions of its numbers.

    struct   = (field)* 00                field = (delta << 4 | type) value, or type, zigzag number, value
    list     = (size << 4 | type) item*, with F for a size that follows as a varint
    number   = zigzag varint; a byte and a double unencoded;  binary = varint length, bytes
    booleans = in the type of a field (1 true, 2 false), a byte in a list

Source: Apache Thrift, "Thrift Compact protocol encoding". In: bytes; out: structs as dictionaries from field number to
value, lists, and numbers with their position; binaries, doubles and booleans, which are not needed, as None. Raises
ValueError for bytes that end too early or have an unknown type.

    15 0e  18 02 41 42  00     ->    {1: Number(position=1, value=7), 2: None}
    field 1, i32 7; field 2, the binary "AB"; end
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

from widetable.format.orc.protobuf import varint, zigzag

Struct: TypeAlias = dict[int, Any]

_STOP, _TRUE, _FALSE, _BYTE, *_NUMBERS, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(13)
_LONG_LIST: Final = 15


class Number(NamedTuple):
    """A number. position: of its first byte."""

    position: int
    value: int


def read_struct(data: bytes) -> Struct:
    """Parse the struct at the beginning of the bytes."""
    try:
        return _struct(data, 0)[0]
    except IndexError as cause:
        raise ValueError("a Thrift struct that ends too early") from cause


def _struct(data: bytes, at: int) -> tuple[Struct, int]:
    fields: Struct = {}
    number = 0
    while data[at] != _STOP:
        delta, kind = divmod(data[at], 16)
        at += 1
        if delta:
            number += delta
        else:
            raw, at = varint(data, at)
            number = zigzag(raw)
        fields[number], at = (None, at) if kind in (_TRUE, _FALSE) else _value(data, at, kind)
    return fields, at + 1


def _value(data: bytes, at: int, kind: int) -> tuple[Any, int]:
    if kind in _NUMBERS:
        value, end = varint(data, at)
        return Number(at, zigzag(value)), end
    if kind == _STRUCT:
        return _struct(data, at)
    if kind in (_LIST, _SET):
        return _list(data, at)
    if kind == _BINARY:
        size, at = varint(data, at)
        return None, at + size
    if kind == _MAP:
        return _map(data, at)
    sizes = {_TRUE: 1, _FALSE: 1, _BYTE: 1, _DOUBLE: 8}
    if kind not in sizes:
        raise ValueError(f"a Thrift value of the type {kind}")
    return None, at + sizes[kind]


def _list(data: bytes, at: int) -> tuple[list[Any], int]:
    size, kind = divmod(data[at], 16)
    at += 1
    if size == _LONG_LIST:
        size, at = varint(data, at)
    items = []
    for _ in range(size):
        value, at = _value(data, at, kind)
        items.append(value)
    return items, at


def _map(data: bytes, at: int) -> tuple[None, int]:
    size, at = varint(data, at)
    if size:
        kinds, at = divmod(data[at], 16), at + 1
        for _ in range(size):
            for kind in kinds:
                _, at = _value(data, at, kind)
    return None, at
