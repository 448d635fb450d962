"""Texts of moments by a pattern of Java's DateTimeFormatter, for whole columns. Pure.

    yyyy    year, four digits        yy      its last two digits
    MM, dd, HH, mm, ss               two digits each; M, d, H, m, s as many as there are
    S ...   digits of the second's fraction, as many as there are letters, cut off
    'text'  itself; '' is a quote    other characters that are no letters: themselves

Raises InvalidError for other letters.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from widetable import InvalidError

_PARTS: Final = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+")
_FIELDS: Final[dict[str, Callable[[pa.Array], pa.Array]]] = {
    "y": pc.year,
    "M": pc.month,
    "d": pc.day,
    "H": pc.hour,
    "m": pc.minute,
    "s": pc.second,
}
_TEXT: Final = pa.large_string()
_NANO_DIGITS: Final = 9


class DatePattern:
    """A pattern. Raises InvalidError where it is made."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._parts: list[Callable[[pa.Array], pa.Array | pa.Scalar]] = []
        end = 0
        for match in _PARTS.finditer(pattern):
            if match.start() != end:
                break
            end = match.end()
            self._parts.append(self._part(match[0], match[1]))
        if end != len(pattern) or not pattern:
            raise self._refused("a quote that does not end" if pattern else "nothing")

    def texts(self, moments: pa.Array) -> pa.Array:
        """Return the texts, large_string[n], of timestamps without a zone; null where a moment is null."""
        parts = [part(moments) for part in self._parts]
        joined = pc.binary_join_element_wise(*parts, pa.scalar("", _TEXT))
        if isinstance(joined, pa.Scalar):  # no part depends on the moment
            return pc.if_else(moments.is_valid(), joined, pa.scalar(None, _TEXT))
        return joined

    def _part(self, part: str, quoted: str | None) -> Callable[[pa.Array], pa.Array | pa.Scalar]:
        letter, count = part[0], len(part)
        if quoted is not None or not letter.isalpha():
            text = part if quoted is None else quoted.replace("''", "'") or "'"
            scalar = pa.scalar(text, _TEXT)
            return lambda moments: scalar
        if letter == "S" and count <= _NANO_DIGITS:
            return lambda moments: pc.utf8_slice_codeunits(_fraction(moments), 0, count)
        if letter == "y" and count in (2, 4):
            return lambda moments: pc.utf8_slice_codeunits(
                _padded(pc.year(moments), 4), 4 - count, 4
            )
        if letter in _FIELDS and letter != "y" and count <= 2:
            return lambda moments: _padded(_FIELDS[letter](moments), count)
        raise self._refused(repr(part))

    def _refused(self, problem: str) -> InvalidError:
        return InvalidError(
            f"date_format with the pattern {self._pattern!r}",
            found=problem,
            expected="yyyy, yy, MM, M, dd, d, HH, H, mm, m, ss, s, S and more, and texts in single quotes",
            action="Correct the pattern.",
        )


def _padded(numbers: pa.Array, digits: int) -> pa.Array:
    return pc.utf8_lpad(numbers.cast(_TEXT), digits, "0")


def _fraction(moments: pa.Array) -> pa.Array:
    """Return nine digits of each second's fraction."""
    parts = (pc.millisecond(moments), pc.microsecond(moments), pc.nanosecond(moments))
    padded = [_padded(part, 3) for part in parts]
    return pc.binary_join_element_wise(*padded, pa.scalar("", _TEXT))
