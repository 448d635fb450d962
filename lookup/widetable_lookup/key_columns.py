"""The key columns of mapped rows, and the search for keys in them.

In: sorted keys, each once, as Arrow columns of the key's types. Out: positions of their rows. Every answer, including
that a key is absent, rests on checked pages: a miss is proven by the two rows between which the key would lie.
Raises CacheFault for damaged pages, InvalidError and UnsupportedError for keys (memcomparable.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.kernels.array_types import Positions
from widetable.kernels.arrow_buffers import fixed_values, is_bytes
from widetable_lookup.key_fences import KeyFences, beside_prefix, fences_of, words_after
from widetable_lookup.key_search import (
    BOOLEAN,
    BYTES,
    FENCE_ROWS,
    FLOATING,
    SIGNED,
    UNSIGNED,
    equal_rows,
    search_numbers,
    search_rows,
)
from widetable_lookup.memcomparable import EncodedKeys, encode_keys, range_keys
from widetable_lookup.row_gather import SPARE_BYTES, any_words
from widetable_lookup.row_map import RowMap

_Mask = npt.NDArray[np.bool_]

_NARROW_DECIMAL_DIGITS: Final = 18


class _KeyPart(NamedTuple):
    """A column as key_search.py compares it. offsets, values: numbers of its buffers; shift: bytes before the first
    value.
    """

    kind: int
    width: int
    stride: int
    offsets: int
    values: int
    shift: int


class _SearchedRows(NamedTuple):
    """The rows in the form that the kernels of key_search.py take."""

    data: npt.NDArray[np.uint8]
    words: npt.NDArray[np.uint64]
    columns: npt.NDArray[np.int64]
    bases: npt.NDArray[np.int64]
    starts: Positions


class _SearchedKeys(NamedTuple):
    """The keys in the form that the kernels of key_search.py take."""

    data: npt.NDArray[np.uint8]
    words: npt.NDArray[np.uint64]
    offsets: Positions


class KeyColumns:
    """The key columns of one map. Threads may share it."""

    def __init__(
        self,
        rows: RowMap,
        names: Sequence[str],
        types: Sequence[pa.DataType],
        fences: KeyFences | None,
    ) -> None:
        """fences: those of a key that is not one number."""
        self._rows = rows
        self._names = tuple(names)
        self._firsts = [rows.first_buffer(name) for name in names]
        self._types = tuple(types)
        self._fences = fences
        parts = [
            part
            for kind, first in zip(types, self._firsts, strict=True)
            for part in _parts(kind, first)
        ]
        offsets = rows.layout.offsets
        self._words = rows.words
        self._columns = np.array([part[:3] for part in parts], np.int64).T.copy()
        values = offsets[[part.values for part in parts]]
        shifts = np.array([[part.shift] for part in parts], np.int64)
        # A batch of empty strings has no bytes: nothing is read at its base.
        value_bases = np.maximum(values, 0) + shifts
        self._bases = np.stack([value_bases, offsets[[part.offsets for part in parts]]])

    def search(self, keys: Sequence[pa.Array]) -> tuple[Positions, Positions]:
        """Return (hits int64[h], ascending numbers of keys; positions int64[h], their rows)."""
        if self._fences is None:
            lows, equal = self._search_numbers(keys[0])
        else:
            lows, equal = self._search_rows(encode_keys(keys, self._names), self._fences)
        self._check_proof(lows)
        hits = np.flatnonzero(equal)
        return hits, lows[hits]

    def search_prefixes(self, prefixes: Sequence[pa.Array]) -> tuple[Positions, Positions]:
        """Search leading columns, fewer than all, and return each prefix with all its rows, in the form of `search`.

        Each prefix becomes two keys: the smallest key with the prefix, and the smallest one after all of these. The
        rows lie between them:

            rows from 3 on, 2 of them; from 10 on, 3      hits 0 0 1 1 1      positions 3 4 10 11 12

        No key follows a prefix of only FF: its rows reach to the end. Only the last prefix can be so, because they
        ascend.
        """
        assert self._fences is not None, "a key of one number has no prefix"
        following = self._types[len(prefixes) :]
        begins = encode_keys(prefixes, self._names[: len(prefixes)])
        lows, _ = self._search_rows(range_keys(begins, following), self._fences)
        if (begins.data[begins.offsets[-2] :] == 0xFF).all():
            lows[-1] = self._rows.rows
        self._check_proof(lows)
        firsts, counts = lows[::2], lows[1::2] - lows[::2]
        hits = np.repeat(np.arange(len(counts)), counts)
        ends = np.cumsum(counts)
        return hits, np.arange(len(hits)) + np.repeat(firsts - ends + counts, counts)

    def _check_proof(self, lows: Positions) -> None:
        """Check the pages of the rows that prove the outcome: row `low`, the first that is not smaller, and the one
        before it.

        Pages are checked after the search, and only for these rows. The outcome rests on comparisons with these two
        rows alone, or with fences, because rows are in order. If they are right, so is the outcome, whatever else the
        search read.
        """
        self._check(np.minimum(lows, self._rows.rows - 1))
        self._check(np.maximum(lows - 1, 0))

    def confirm(self, keys: EncodedKeys, hits: Positions, positions: Positions) -> bool:
        """Return whether these rows have these keys. positions ascend."""
        if not len(hits):
            return True
        if positions[0] < 0 or positions[-1] >= self._rows.rows or (np.diff(positions) < 1).any():
            return False
        self._check(positions)
        return equal_rows(*self._searched(), *_with_words(keys), hits, positions)

    def _searched(self) -> _SearchedRows:
        starts = self._rows.layout.starts
        return _SearchedRows(self._rows.data, self._words, self._columns, self._bases, starts)

    def _search_rows(self, keys: EncodedKeys, fences: KeyFences) -> tuple[Positions, _Mask]:
        """Search among the rows with the prefix that all rows share. Keys that are smaller lie before all rows, larger
        ones after.

        Only keys with that prefix have words to compare with the fences.
        """
        begin, end = beside_prefix(keys, fences.prefix)
        count = len(keys.offsets) - 1
        lows, equal = np.empty(count, np.int64), np.zeros(count, np.bool_)
        lows[:begin], lows[end:] = 0, self._rows.rows
        encoded = _with_words(keys)
        offsets = keys.offsets[begin : end + 1]
        search_rows(
            *self._searched(),
            fences.words,
            encoded.data,
            encoded.words,
            offsets,
            words_after(EncodedKeys(keys.data, offsets), len(fences.prefix)),
            lows[begin:end],
            equal[begin:end],
        )
        return lows, equal

    def _search_numbers(self, column: pa.Array) -> tuple[Positions, _Mask]:
        if column.null_count:
            encode_keys([column], self._names)  # raises the error
        dtype = np.dtype(f"i{column.type.bit_width // 8}")
        source = self._rows.items(8 * dtype.itemsize).view(dtype)
        bases = self._bases[0, 0] // dtype.itemsize
        starts = self._rows.layout.starts
        lows, equal = np.empty(len(column), np.int64), np.empty(len(column), np.bool_)
        search_numbers(source, bases, starts, fixed_values(column, dtype), lows, equal)
        return lows, equal

    def _check(self, positions: Positions) -> None:
        """Check the pages of the key columns in these rows, which ascend."""
        rows = self._rows
        if rows.pages.complete:
            return
        for first, kind in zip(self._firsts, self._types, strict=True):
            if is_bytes(kind):
                rows.locate(first, positions)
            else:
                bases = rows.layout.offsets[first + 1 : first + 2]
                rows.pages.check_values(bases, rows.layout.starts, positions, kind.bit_width)


def is_number_key(types: Sequence[pa.DataType]) -> bool:
    """Return whether a key of these columns is one signed number, which is searched directly and has no key index.

    DECIMAL does not count, because its values are not adjacent; BOOLEAN and floats neither, because their bits do not
    sort like their values.
    """
    parts = [part for kind in types for part in _parts(kind, 0)]
    return len(parts) == 1 and parts[0].kind == SIGNED and parts[0].width == parts[0].stride


def fences_between(rows: RowMap, names: Sequence[str]) -> KeyFences:
    """Return the fences of a cache that is being built. names: of the key columns."""
    choice = rows.choose(names)
    keys = encode_keys(rows.take(choice, np.arange(0, rows.rows, FENCE_ROWS)), names)
    (last,) = encode_keys(rows.take(choice, np.array([rows.rows - 1])), names).to_list()
    return fences_of(keys, last)


def _with_words(keys: EncodedKeys) -> _SearchedKeys:
    data = np.append(keys.data, np.zeros(SPARE_BYTES, np.uint8))
    return _SearchedKeys(data, any_words(data), keys.offsets)


def _parts(kind: pa.DataType, first: int) -> list[_KeyPart]:
    """Return the parts of a column, the most significant first.

    BIGINT              signed, 8 bytes, the next 8 on
    DECIMAL p <= 18     signed, the low 8 of 16 bytes
    DECIMAL p > 18      signed, the high 8 of 16 bytes; then unsigned, the low 8
    """
    if is_bytes(kind):
        return [_KeyPart(BYTES, 0, 0, first + 1, first + 2, 0)]
    values = first + 1
    if pa.types.is_boolean(kind):
        return [_KeyPart(BOOLEAN, 1, 0, values, values, 0)]
    if pa.types.is_decimal128(kind):
        if kind.precision <= _NARROW_DECIMAL_DIGITS:
            return [_KeyPart(SIGNED, 8, 16, values, values, 0)]
        high = _KeyPart(SIGNED, 8, 16, values, values, 8)
        return [high, _KeyPart(UNSIGNED, 8, 16, values, values, 0)]
    width = kind.bit_width // 8
    how = FLOATING if pa.types.is_floating(kind) else SIGNED
    return [_KeyPart(how, width, width, values, values, 0)]
