"""The part of Protocol Buffers that the tail of an ORC file needs: parse and encode the fields of a message.

    message  = (tag value)*            tag = varint (number << 3 | wire type)
    value    = varint                  wire type 0
             | 8 bytes                 1
             | varint length, bytes    2
             | 4 bytes                 5

Source: "Encoding" of Protocol Buffers. Values of types 1, 2 and 5 are bytes, of type 0 unsigned integers.
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
    """Return (value, position behind it)."""
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
    """Return (number, value) of each field, in the order of the bytes."""
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
    """Encode a message of numbers and bytes."""
    out = bytearray()
    for number, value in fields:
        if isinstance(value, int):
            out += encoded(number << 3 | _VARINT) + encoded(value)
        else:
            out += encoded(number << 3 | _BYTES) + encoded(len(value)) + value
    return bytes(out)


def encoded(value: int) -> bytes:
    """Encode a number as a varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def zigzag(value: int) -> int:
    """Return the signed number of a varint of type sint64."""
    return (value >> 1) ^ -(value & 1)


class Message:
    """A parsed message; reading a field of the wrong wire type raises ValueError.

    If a field is repeated the last value counts, as the encoding requires. Each call
    searches all fields: messages are short, or read once.
    """

    def __init__(self, data: bytes) -> None:
        self.fields: Final = message_fields(data)

    def number(self, number: int, default: int = 0) -> int:
        """Return the last value of a field, or the default."""
        value = self.optional(number)
        return default if value is None else value

    def optional(self, number: int) -> int | None:
        """Return the last value of a field; None where the field is missing."""
        values = [value for key, value in self.fields if key == number]
        if not values:
            return None
        if not isinstance(values[-1], int):
            raise ValueError(f"bytes in the field {number}, not a number")
        return values[-1]

    def parts(self, number: int) -> list[bytes]:
        """Return all values of a field of bytes."""
        values = [value for key, value in self.fields if key == number]
        parts = [value for value in values if isinstance(value, bytes)]
        if len(parts) != len(values):
            raise ValueError(f"a number in the field {number}, not bytes")
        return parts

    def numbers(self, number: int) -> list[int]:
        """Return all values of a repeated number, packed or not."""
        numbers = []
        for key, value in self.fields:
            if key != number:
                continue
            if isinstance(value, int):
                numbers.append(value)
                continue
            at = 0
            while at < len(value):
                item, at = varint(value, at)
                numbers.append(item)
        return numbers
