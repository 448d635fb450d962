"""What may stand in a small JSON file after a crash, or after somebody wrote to it by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

GARBAGE: Final = (
    b"",
    b" \n",
    b"null",
    b"[]",
    b"{}",
    b'"text"',
    b"\0" * 64,
    b"\xff\xfe",
    b"[" * 100_000,
    b"9" * 10_000,
)
# Values that stand where an integer should.
NO_INTEGERS: Final = ("true", "1.0", "1e999", "NaN", '"7"', "null", "[7]", "9" * 10_000)


def torn(whole: bytes) -> list[bytes]:
    """whole: a right file, one JSON object on which everything depends. Garbage, pieces of it, wrong values in it."""
    return [*GARBAGE, *_pieces(whole), *_wrong_values(whole)]


def _pieces(whole: bytes) -> list[bytes]:
    return [whole[:at] for at in (1, len(whole) // 2, len(whole) - 1)]


def _wrong_values(whole: bytes) -> Iterator[bytes]:
    for key, value in json.loads(whole).items():
        if isinstance(value, int):
            for wrong in NO_INTEGERS:
                yield whole.replace(f'"{key}": {value}'.encode(), f'"{key}": {wrong}'.encode())
