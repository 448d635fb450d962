"""Kernels that read JSON: where fields and elements lie, and texts without their escapes.

In: bytes that are valid UTF-8, and ranges in them. Out: ranges, and bytes. Raises nothing: a place of -1 says that what
is there is no JSON. `json_fields` and `json_texts` call them.

RFC 8259, with one difference: an escape of half a surrogate pair is a fault, as no UTF-8 stands for it.

    value       object | array | string | number | true | false | null, with spaces around it
    object      "{" (string ":" value ("," string ":" value)*)? "}"
    array       "[" (value ("," value)*)? "]"
    string      quote (byte of 32 and above, neither quote nor backslash | escape)* quote
    escape      backslash (quote | backslash | "/" | b | f | n | r | t | u hex hex hex hex)
    number      "-"? ("0" | 1-9 0-9*) ("." 0-9+)? ([eE] [+-]? 0-9+)?

Each byte is checked. Of two fields of one name the last one counts. Records of one source have their fields in one
order, so a name is first compared with the name behind the last one.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from widetable.connector import kernel

Bytes: TypeAlias = npt.NDArray[np.uint8]
Longs: TypeAlias = npt.NDArray[np.int64]
LongRows: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Long: TypeAlias = int | np.int64

# How many objects and arrays may lie in each other. Those of Debezium have about ten levels.
MAX_DEPTH: Final = 512
_QUOTE: Final = ord('"')
_SLASH: Final = ord("\\")
_COMMA: Final = ord(",")
_OBJECT: Final = ord("{")
_OBJECT_END: Final = ord("}")
_ARRAY: Final = ord("[")
_ARRAY_END: Final = ord("]")
_U: Final = ord("u")
_WORDS: Final = np.frombuffer(b"nulltruefalse", np.uint8)
# The byte that a letter behind a backslash stands for; 0 for no escape.
_ESCAPED: Final = np.zeros(256, np.uint8)
_ESCAPED[np.frombuffer(b'"\\/bfnrt', np.uint8)] = np.frombuffer(b'"\\/\b\f\n\r\t', np.uint8)


@kernel
def _space_end(data: Bytes, at: Long, end: Long) -> Long:
    """Return where the spaces from `at` on end."""
    while at < end and (data[at] == 32 or data[at] == 10 or data[at] == 13 or data[at] == 9):
        at += 1
    return at


@kernel
def _hex(data: Bytes, at: Long, end: Long) -> Long:
    """Return the number that four hexadecimal digits stand for; -1 without them."""
    if end - at < 4:
        return -1
    number = 0
    for i in range(4):
        letter = int(data[at + i])
        if 48 <= letter <= 57:
            digit = letter - 48
        elif 97 <= letter <= 102:
            digit = letter - 87
        elif 65 <= letter <= 70:
            digit = letter - 55
        else:
            return -1
        number = number * 16 + digit
    return number


@kernel
def _escape_end(data: Bytes, at: Long, end: Long) -> Long:
    """Return where the escape ends whose backslash is before `at`; -1 for none that JSON has."""
    if at >= end:
        return -1
    letter = data[at]
    if letter != _U:
        return at + 1 if _ESCAPED[letter] else -1
    unit = _hex(data, at + 1, end)
    if unit < 0 or 0xDC00 <= unit < 0xE000:
        return -1
    if unit < 0xD800 or unit >= 0xE000:
        return at + 5
    if end - at < 11 or data[at + 5] != _SLASH or data[at + 6] != _U:
        return -1
    low = _hex(data, at + 7, end)
    return at + 11 if 0xDC00 <= low < 0xE000 else -1


@kernel
def _string_end(data: Bytes, at: Long, end: Long) -> Long:
    """Return where the string ends whose opening quote is before `at`: behind its closing quote; -1 for a fault."""
    while at < end:
        letter = data[at]
        if letter == _QUOTE:
            return at + 1
        if letter < 32:
            return -1
        at += 1
        if letter == _SLASH:
            at = _escape_end(data, at, end)
            if at < 0:
                return -1
    return -1


@kernel
def _digits_end(data: Bytes, at: Long, end: Long) -> Long:
    """Return where the digits from `at` on end; -1 without any."""
    first = at
    while at < end and 48 <= data[at] <= 57:
        at += 1
    return at if at > first else -1


@kernel
def _number_end(data: Bytes, at: Long, end: Long) -> Long:
    """Return where the number at `at` ends; -1 for none."""
    # 43 +, 45 -, 46 ., 48 to 57 digits, 69 E, 101 e
    if data[at] == 45:
        at += 1
    if at < end and data[at] == 48:
        at += 1
    else:
        at = _digits_end(data, at, end)
        if at < 0:
            return -1
    if at < end and data[at] == 46:
        at = _digits_end(data, at + 1, end)
        if at < 0:
            return -1
    if at < end and (data[at] == 101 or data[at] == 69):
        at += 1
        if at < end and (data[at] == 43 or data[at] == 45):
            at += 1
        at = _digits_end(data, at, end)
    return at


@kernel
def _is_name(data: Bytes, start: Long, end: Long, letters: Bytes, first: Long, last: Long) -> bool:
    """Return whether data[start:end] is letters[first:last]."""
    is_equal = end - start == last - first
    i = 0
    while is_equal and i < end - start:
        is_equal = bool(data[start + i] == letters[first + i])
        i += 1
    return is_equal


@kernel
def _word_end(data: Bytes, at: Long, end: Long, first: Long, last: Long) -> Long:
    """Return where the word _WORDS[first:last] at `at` ends; -1 for another one."""
    behind = at + last - first
    return behind if behind <= end and _is_name(data, at, behind, _WORDS, first, last) else -1


@kernel
def _plain_end(data: Bytes, at: Long, end: Long) -> Long:
    """Return where a string, number, true, false or null at `at` ends; -1 for none."""
    letter = data[at]
    if letter == _QUOTE:
        return _string_end(data, at + 1, end)
    if letter == 110:  # n, then t and f
        return _word_end(data, at, end, 0, 4)
    if letter == 116:
        return _word_end(data, at, end, 4, 8)
    if letter == 102:
        return _word_end(data, at, end, 8, 13)
    return _number_end(data, at, end)


@kernel
def _name_end(data: Bytes, at: Long, end: Long) -> Long:
    """Return where the colon behind the name at `at`, which may have spaces before it, ends; -1 for a fault."""
    at = _space_end(data, at, end)
    if at >= end or data[at] != _QUOTE:
        return -1
    at = _string_end(data, at + 1, end)
    if at < 0:
        return -1
    at = _space_end(data, at, end)
    if at >= end or data[at] != 58:
        return -1
    return at + 1


@kernel
def _value_end(data: Bytes, at: Long, end: Long, stack: Bytes) -> Long:
    """Return where the value at `at` ends; -1 for a fault. stack: of the objects and arrays that are open."""
    depth = 0
    while True:
        at = _space_end(data, at, end)
        if at >= end:
            return -1
        letter = data[at]
        if (letter == _OBJECT) | (letter == _ARRAY):
            if depth == MAX_DEPTH:
                return -1
            stack[depth] = letter
            depth += 1
            at = _space_end(data, at + 1, end)
            if at >= end:
                return -1
            # Both closing brackets are two behind the opening ones; this one is taken below.
            if data[at] != letter + 2:
                if letter == _OBJECT:
                    at = _name_end(data, at, end)
                    if at < 0:
                        return -1
                continue
        else:
            at = _plain_end(data, at, end)
            if at < 0:
                return -1
        while depth > 0:
            at = _space_end(data, at, end)
            if at >= end:
                return -1
            letter = data[at]
            at += 1
            if letter == _COMMA:
                if stack[depth - 1] == _OBJECT:
                    at = _name_end(data, at, end)
                    if at < 0:
                        return -1
                break
            if letter != stack[depth - 1] + 2:
                return -1
            depth -= 1
        if depth == 0:
            return at


@kernel
def _put(out: Bytes, at: Long, letter: Long) -> Long:
    """Write a byte if there is room, and return the place behind it."""
    if at < len(out):
        out[at] = letter
    return at + 1


@kernel
def _put_point(out: Bytes, at: Long, point: Long) -> Long:
    """Write a code point as UTF-8, and return the place behind it."""
    if point < 0x80:
        return _put(out, at, point)
    if point < 0x800:
        at = _put(out, at, 0xC0 | (point >> 6))
    else:
        if point < 0x10000:
            at = _put(out, at, 0xE0 | (point >> 12))
        else:
            at = _put(out, at, 0xF0 | (point >> 18))
            at = _put(out, at, 0x80 | ((point >> 12) & 0x3F))
        at = _put(out, at, 0x80 | ((point >> 6) & 0x3F))
    return _put(out, at, 0x80 | (point & 0x3F))


@kernel
def _unescaped(data: Bytes, at: Long, end: Long, out: Bytes, to: Long) -> Long:
    """Write a string's text to `out` from `to` on, and return where it ends. The string has passed `_string_end`.

    What has no room is counted, not written.
    """
    while at < end:
        letter = int(data[at])
        if letter != _SLASH:
            to = _put(out, to, letter)
            at += 1
            continue
        letter = int(data[at + 1])
        at += 2
        if letter == _U:
            point = _hex(data, at, end)
            at += 4
            if 0xD800 <= point < 0xDC00:
                point = 0x10000 + ((point - 0xD800) << 10) + _hex(data, at + 2, end) - 0xDC00
                at += 6
            to = _put_point(out, to, point)
        else:
            to = _put(out, to, int(_ESCAPED[letter]))
    return to


@kernel
def _name_index(
    data: Bytes, start: Long, end: Long, letters: Bytes, name_ends: Longs, guess: Long, room: Bytes
) -> Long:
    """Return which of the names data[start:end] is, -1 for none. guess: the name that is compared first."""
    has_escape = False
    for i in range(start, end):
        has_escape = has_escape or data[i] == _SLASH
    last: Long = end
    if has_escape:
        last = _unescaped(data, start, end, room, MAX_DEPTH)
        if last > len(room):
            return -1
    count = len(name_ends)
    for i in range(count):
        which = guess + i
        if which >= count:
            which -= count
        first = name_ends[which - 1] if which else 0
        if has_escape:
            if _is_name(room, MAX_DEPTH, last, letters, first, name_ends[which]):
                return which
        elif _is_name(data, start, end, letters, first, name_ends[which]):
            return which
    return -1


@kernel
def _scan_object(
    data: Bytes, row: Long, text: Longs, letters: Bytes, names: Longs, out: LongRows, room: Bytes
) -> bool:
    """Note where the fields of one object lie. Returns whether it is an object, and nothing but spaces is around it."""
    end = text[1]
    at = _space_end(data, text[0], end)
    if at >= end or data[at] != _OBJECT:
        return False
    at = _space_end(data, at + 1, end)
    if at < end and data[at] == _OBJECT_END:
        return bool(_space_end(data, at + 1, end) == end)
    guess: Long = 0
    while True:
        at = _space_end(data, at, end)
        if at >= end or data[at] != _QUOTE:
            return False
        first = at + 1
        last = _string_end(data, first, end) - 1
        at = _name_end(data, at, end)
        if at < 0:
            return False
        which = _name_index(data, first, last, letters, names, guess, room)
        value = _space_end(data, at, end)
        at = _value_end(data, value, end, room)
        if at < 0:
            return False
        if which >= 0:
            out[2 * which + 2, row], out[2 * which + 3, row] = value, at
            guess = which + 1
        elif out[0, row] < 0:
            out[0, row], out[1, row] = first, last
        at = _space_end(data, at, end)
        if at >= end:
            return False
        if data[at] == _OBJECT_END:
            return bool(_space_end(data, at + 1, end) == end)
        if data[at] != _COMMA:
            return False
        at += 1


@kernel
def scan_objects(
    data: Bytes,
    texts: LongRows,
    letters: Bytes,
    names: Longs,
    out: LongRows,
    is_json: Mask,
    room: Bytes,
) -> None:
    """Scan objects (`json_fields.scan_fields`).

    texts: where each begins and ends. letters, names: the names, one behind the other, and where each ends. out: two
    rows for the first other name, then two for each name. room: `MAX_DEPTH` bytes, and those that a name may have.
    """
    for row in range(len(texts)):
        is_json[row] = texts[row, 0] < 0 or _scan_object(
            data, row, texts[row], letters, names, out, room
        )


@kernel
def _scan_array(
    data: Bytes, at: Long, end: Long, first: Long, starts: Longs, ends: Longs, stack: Bytes
) -> Long:
    """Note where the elements of one array lie, from number `first` on, if there is room. Returns how many there are;
    -1 for a text that is no array.
    """
    at = _space_end(data, at, end)
    if at >= end or data[at] != _ARRAY:
        return -1
    at = _space_end(data, at + 1, end)
    if at < end and data[at] == _ARRAY_END:
        return 0 if _space_end(data, at + 1, end) == end else -1
    count = 0
    while True:
        at = _space_end(data, at, end)
        value = at
        at = _value_end(data, at, end, stack)
        if at < 0:
            return -1
        if first + count < len(starts):
            starts[first + count] = value
            ends[first + count] = at
        count += 1
        at = _space_end(data, at, end)
        if at >= end:
            return -1
        if data[at] == _ARRAY_END:
            return count if _space_end(data, at + 1, end) == end else -1
        if data[at] != _COMMA:
            return -1
        at += 1


@kernel
def scan_arrays(
    data: Bytes,
    text_starts: Longs,
    text_ends: Longs,
    counts: Longs,
    starts: Longs,
    ends: Longs,
    stack: Bytes,
) -> None:
    """Count the elements of arrays, -1 for a text that is none, and note where they lie if there is room."""
    total = 0
    for row in range(len(text_starts)):
        counts[row] = 0
        if text_starts[row] >= 0:
            counts[row] = _scan_array(
                data, text_starts[row], text_ends[row], total, starts, ends, stack
            )
            total += max(counts[row], 0)


@kernel
def text_sizes(data: Bytes, starts: Longs, ends: Longs, sizes: Longs, no_room: Bytes) -> None:
    """Measure texts without their escapes, in bytes. A start of -1 has no bytes."""
    for row in range(len(starts)):
        sizes[row] = _unescaped(data, starts[row], ends[row], no_room, 0) if starts[row] >= 0 else 0


@kernel
def write_texts(data: Bytes, starts: Longs, ends: Longs, offsets: Longs, out: Bytes) -> None:
    """Write texts without their escapes, text i from offsets[i] on."""
    for row in range(len(starts)):
        if starts[row] >= 0:
            _unescaped(data, starts[row], ends[row], out, offsets[row])
