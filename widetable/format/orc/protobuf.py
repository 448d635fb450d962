"""Protocol buffers, as far as the tail of an ORC file needs them: the fields of a message, and messages from fields.

    message  = (tag value)*            tag = varint (number << 3 | wire type)
    value    = varint                  wire type 0
             | 8 bytes                 1
             | varint length, bytes    2
             | 4 bytes                 5

Source: the encoding as Protocol Buffers document it. Values of types 1, 2 and 5 are bytes, of type 0 unsigned integers.
Pure. Raises ValueError for bytes that are no message.

    [(1, 300), (3, b"ab")]   <->   08 ac 02  1a 02 61 62
    zigzag of 0, 1, 2, 3, 4   =    0, -1, 1, -2, 2
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

Fields: TypeAlias = list[tuple[int, int | bytes]]

_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5
_WIDTHS: Final = {_EIGHT: 8, _FOUR: 4}
_WORD: Final = (1 << 64) - 1


def varint(data: bytes, at: int) -> tuple[int, int]:
    """(value, position behind it)"""
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _WORD, at
        shift += 7
    raise ValueError("a number without an end")


def message_fields(data: bytes) -> Fields:
    """(number, value) in the order of the bytes."""
    fields: Fields = []
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        kind = tag & 7
        if kind == _VARINT:
            value, at = varint(data, at)
            fields.append((tag >> 3, value))
            continue
        if kind == _BYTES:
            size, at = varint(data, at)
        else:
            size = _WIDTHS.get(kind, -1)
        if not 0 <= size <= len(data) - at:
            raise ValueError(f"a field {tag >> 3} of the wire type {kind} and {size} bytes")
        fields.append((tag >> 3, data[at : at + size]))
        at += size
    return fields


def message(fields: Iterable[tuple[int, int | bytes]]) -> bytes:
    """The bytes of a message of numbers and bytes."""
    out = bytearray()
    for number, value in fields:
        if isinstance(value, int):
            out += encoded(number << 3 | _VARINT) + encoded(value)
        else:
            out += encoded(number << 3 | _BYTES) + encoded(len(value)) + value
    return bytes(out)


def encoded(value: int) -> bytes:
    """A number as a varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def zigzag(value: int) -> int:
    """The signed number that a varint of type sint64 means."""
    return (value >> 1) ^ -(value & 1)


class Message:
    """A parsed message, asked field by field; a field of the wrong wire type is a ValueError.

    Of a field that comes several times the last counts, as the encoding says. Each question
    walks over all fields: messages are short, or asked once.
    """

    def __init__(self, data: bytes) -> None:
        self.fields: Final = message_fields(data)

    def number(self, number: int, default: int = 0) -> int:
        """The last value of a field."""
        found = self.optional(number)
        return default if found is None else found

    def optional(self, number: int) -> int | None:
        """The same; None where the field is not there."""
        values = [value for key, value in self.fields if key == number]
        if not values:
            return None
        if not isinstance(values[-1], int):
            raise ValueError(f"bytes in the field {number}, not a number")
        return values[-1]

    def parts(self, number: int) -> list[bytes]:
        """All values of a field of bytes."""
        values = [value for key, value in self.fields if key == number]
        found = [value for value in values if isinstance(value, bytes)]
        if len(found) != len(values):
            raise ValueError(f"a number in the field {number}, not bytes")
        return found

    def numbers(self, number: int) -> list[int]:
        """All values of a repeated number, packed or not."""
        found = []
        for key, value in self.fields:
            if key != number:
                continue
            if isinstance(value, int):
                found.append(value)
                continue
            at = 0
            while at < len(value):
                item, at = varint(value, at)
                found.append(item)
        return found
