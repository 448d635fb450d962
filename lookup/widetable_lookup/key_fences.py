"""Fences between the keys of a cache: eight bytes of every 32nd key, in one piece.

    keys.fences  = size prefix words
    size         = length of the prefix, 64 bits, little-endian
    prefix       = the bytes that all keys begin with
    words        = per 32 rows, of the first of them: the eight bytes of its encoded key after the prefix, with zeros
                   behind its end, as one 64-bit number, stored little-endian

A search among 32 rows reads six places in memory, one among a million rows about thirty, which is the cost of a search.
Equal words do not separate keys; then the rows are searched as without fences. Keys that are one number have no fences:
they lie just as close together.

In: encoded keys (memcomparable.py). Out: words in the order of the keys, as far as they differ. Raises CacheFault for
bytes that are not fences.

    keys "user-1", "user-5", "user-9"      prefix "user-", words 3100010000000000, 3500.., 3900..
    search for "a", "user-3", "v"          the second has the prefix: 1, 2
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from widetable.kernels.jit import kernel
from widetable_lookup.cache_fault import CacheFault
from widetable_lookup.memcomparable import EncodedKeys

FENCES: Final = "keys.fences"

_WORD_BYTES: Final = 8

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]


class KeyFences(NamedTuple):
    """The fences of a cache. prefix uint8[p]: the bytes that all keys begin with; words uint64[f]."""

    prefix: Bytes
    words: Words

    def to_bytes(self) -> bytes:
        size = len(self.prefix).to_bytes(_WORD_BYTES, "little")
        return size + self.prefix.tobytes() + self.words.astype("<u8").tobytes()


def fences_from_bytes(data: bytes, rows: int, rows_per_fence: int) -> KeyFences:
    """Return the fences that the file contains. rows: the number of rows of the cache."""
    size = int.from_bytes(data[:_WORD_BYTES], "little")
    fences = -(-rows // rows_per_fence)
    if len(data) != _WORD_BYTES + size + _WORD_BYTES * fences:
        raise CacheFault(f"{FENCES}: {len(data)} bytes are not the fences of {rows} rows")
    prefix = np.frombuffer(data, np.uint8, size, _WORD_BYTES)
    return KeyFences(prefix, np.frombuffer(data, "<u8", fences, _WORD_BYTES + size))


def fences_of(keys: EncodedKeys, last: bytes) -> KeyFences:
    """Make fences. keys: every n-th key, beginning with the first; last: the last key of all."""
    first = keys.data[: keys.offsets[1]].tobytes()
    size = next(
        (i for i, (one, other) in enumerate(zip(first, last, strict=False)) if one != other),
        min(len(first), len(last)),
    )
    return KeyFences(np.frombuffer(first, np.uint8, size), words_after(keys, size))


def words_after(keys: EncodedKeys, size: int) -> Words:
    """Return the eight bytes of each key after its first `size`."""
    words = np.empty(len(keys.offsets) - 1, np.uint64)
    _words_after(keys.data, keys.offsets, size, words)
    return words


def beside_prefix(keys: EncodedKeys, prefix: Bytes) -> tuple[int, int]:
    """Return which keys have the prefix: the first of them, and the first one after them."""
    numbers, wanted = range(len(keys.offsets) - 1), prefix.tobytes()

    def start_of(number: int) -> bytes:
        return keys.data[keys.offsets[number] : keys.offsets[number + 1]][: len(wanted)].tobytes()

    begin = bisect_left(numbers, wanted, key=start_of)
    return begin, bisect_right(numbers, wanted, begin, key=start_of)


@kernel
def _words_after(data: Bytes, offsets: npt.NDArray[np.int64], size: int, words: Words) -> None:
    for key in range(len(words)):
        word = np.uint64(0)
        for at in range(offsets[key] + size, offsets[key] + size + 8):
            word <<= np.uint64(8)
            if at < offsets[key + 1]:
                word |= np.uint64(data[at])
        words[key] = word
