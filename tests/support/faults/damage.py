"""Damaged copies of bytes, and what a decoder says of them: a value, or one of the package's errors, never another."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from widetable.errors import DamagedError, UnsupportedError


def damaged_copies(data: bytes, rng: random.Random) -> Iterator[bytes]:
    """Copies with a few wrong bytes, and one that is cut short."""
    for wrong_bytes in (1, 1, 5, 50):
        copy = bytearray(data)
        for _ in range(wrong_bytes):
            copy[rng.randrange(len(copy))] = rng.randrange(256)
        yield bytes(copy)
    yield data[: rng.randrange(len(data))]


def refused_subject(decode: Callable[[], object]) -> str | None:
    """The subject of the error that `decode` raises, None when it gives a value. Other errors pass."""
    try:
        decode()
    except (DamagedError, UnsupportedError) as error:
        return error.subject
    return None
