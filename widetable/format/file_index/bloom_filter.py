"""Bloom filters of columns: whether a data file may have a value.

On disk: never change (Paimon `BloomFilterFileIndex`, `BloomFilter64`):

    filter = functions bits        functions: int32, big-endian; bits: a multiple of 8, the lowest bit of a byte first
    bit i of a value, i from 1 to `functions`:  h mod bits, where h = low + i * high in int32, or ~h if that is negative
    low, high = the halves of the hash of the value (kernels.hashing.value_hash)

A filter is made when the values are known, so it fits them: a small file has a small filter. Its size follows from the
number n of different values and the share p of false positives: -n ln p / (ln 2)^2 bits, bits / n ln 2 functions.
Nulls are not in it. Raises DamagedError for bytes that are no filter.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from widetable.format.file_index.index_container import IndexPart
from widetable.format.file_index.indexed_values import indexed_values
from widetable.kernels.arrow_buffers import bytes_view, fixed_values
from widetable.kernels.hashing.value_hash import ValueHashes, bytes_hashes, number_hashes
from widetable.messages.counted import counted
from widetable.schema.file_index_options import BloomFilterOption
from widetable.schema.types import DataType

_FUNCTIONS_BYTES: Final = 4
# With one false positive in 2^1000 a filter has so many functions; more are no filter.
_MOST_FUNCTIONS: Final = 1000
# Hashes are made different from each other when so many have come since the last time.
_COMPACTED: Final = 1 << 20
# Values of a filter that are asked for at once: the first that may be there decides.
_ASKED_AT_ONCE: Final = 1 << 12


class BloomFilterBuilder:
    """Collects the different hashes of a column.

    Memory: 16 bytes for each, and for up to a million more. Hashes are sorted whenever as many have come as there are
    different ones: a sort takes an eighth of the time of a hash table.
    """

    def __init__(self, option: BloomFilterOption, kind: DataType) -> None:
        self._option = option
        self._kind = kind
        self._hashes: list[ValueHashes] = []
        self._waiting = 0
        self._most_waiting = _COMPACTED

    def add(self, column: pa.Array) -> None:
        """Add the values of more rows."""
        hashes = _hashes(indexed_values(column, self._kind).drop_null())
        self._hashes.append(hashes)
        self._waiting += len(hashes)
        if self._waiting >= self._most_waiting:
            different = self._different()
            self._hashes, self._waiting = [different], 0
            self._most_waiting = max(_COMPACTED, len(different))

    def build(self) -> bytes:
        """Return the filter."""
        hashes = self._different()
        items = max(min(len(hashes), self._option.most_items), 1)
        wanted = int(-items * math.log(self._option.false_positives) / math.log(2) ** 2)
        bits = wanted + 8 - wanted % 8
        functions = max(1, math.floor(bits / items * math.log(2) + 0.5))
        is_set = np.zeros(bits, np.bool_)
        for number in range(1, functions + 1):
            is_set[_places(hashes, number, bits)] = True
        return (
            functions.to_bytes(_FUNCTIONS_BYTES, "big")
            + np.packbits(is_set, bitorder="little").tobytes()
        )

    def _different(self) -> ValueHashes:
        hashes = np.concatenate([np.empty(0, np.uint64), *self._hashes])
        hashes.sort()
        is_first = np.ones(len(hashes), np.bool_)
        is_first[1:] = hashes[1:] != hashes[:-1]
        return hashes[is_first]


class BloomFilter:
    """A filter of a data file, which answers whether the file may have a value. It knows no rows."""

    def __init__(self, part: IndexPart, rows: int, kind: DataType) -> None:
        self._part = part

    def rows_with(self, values: pa.Array) -> BitMap | None:
        """Return no row if no row has one of the values (`sought_values`), None if some may."""
        functions, bits = self._filter()
        for first in range(0, len(values), _ASKED_AT_ONCE):
            hashes = _hashes(values.slice(first, _ASKED_AT_ONCE))
            if _all_set(hashes, functions, bits).any():
                return None
        return BitMap()

    def hidden_rows(self, values: pa.Array, first_row: int) -> int:
        """Return how many of the values, which the file has, the filter lacks."""
        functions, bits = self._filter()
        is_set = _all_set(_hashes(values.drop_null()), functions, bits)
        return len(is_set) - int(np.count_nonzero(is_set))

    def _filter(self) -> tuple[int, npt.NDArray[np.uint8]]:
        """Return the number of functions, and the bits."""
        data = self._part.read(0, self._part.length)
        functions = int.from_bytes(data[:_FUNCTIONS_BYTES], "big")
        bits = np.frombuffer(data, np.uint8, offset=min(_FUNCTIONS_BYTES, len(data)))
        if not (1 <= functions <= _MOST_FUNCTIONS and len(bits)):
            finding = f"{functions} functions and {counted(len(bits), 'byte')}"
            self._part.damaged(finding, "a Bloom filter")
        return functions, bits

    def null_rows(self) -> None:
        """Return None: a filter does not say which rows are null."""


def _hashes(values: pa.Array) -> ValueHashes:
    if pa.types.is_binary(values.type):
        return bytes_hashes(bytes_view(values))
    return number_hashes(fixed_values(values, f"i{values.type.bit_width // 8}"))


def _all_set(
    hashes: ValueHashes, functions: int, bits: npt.NDArray[np.uint8]
) -> npt.NDArray[np.bool_]:
    """Return whether all bits of each hash are set. Hashes of which one is not are asked for no more."""
    left = np.arange(len(hashes))
    for number in range(1, functions + 1):
        places = _places(hashes[left], number, 8 * len(bits))
        left = left[(bits[places >> 3] >> (places & 7)) & 1 == 1]
        if not len(left):
            break
    is_set = np.zeros(len(hashes), np.bool_)
    is_set[left] = True
    return is_set


def _places(hashes: ValueHashes, number: int, bits: int) -> npt.NDArray[np.int64]:
    """Return the bit of each hash by one function, which are numbered from 1 on."""
    low, high = hashes.astype(np.uint32), (hashes >> np.uint64(32)).astype(np.uint32)
    mixed = (low + high * np.uint32(number)).view(np.int32)
    return np.where(mixed < 0, ~mixed, mixed).astype(np.int64) % bits
