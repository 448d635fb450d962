"""Encode strings and binaries as u64 arrays that order rows by unsigned bytes, a prefix before its extensions.

Short values become words: the bytes after the prefix that all values share, eight by eight, big-endian,
zeros after the end. If some value ends with byte 0 a length follows; otherwise none is needed, because no
two values differ by padding alone.

Values with more than MAX_PADDED_BYTES after the shared prefix become ranks: positions in the sorted
column; equal values share one. The column is sorted by 64 bytes, then the rows that tie and continue by
the next 64, and so on. Memory: 20 words per row that takes part, whatever the length of the values.

    user-1, user-10, user-2        prefix of 5, longest 7: one word, 31 00.., 31 30 00.., 32 00..
    61, 61 00                      prefix of 1, one ends with byte 0: one word, 0 and 0, then lengths, 0 and 1
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from widetable.kernels.array_types import Positions
from widetable.kernels.arrow_buffers import (
    ArrowColumn,
    as_words,
    bytes_view,
    chunks_of,
    frozen,
    validity,
)
from widetable.kernels.jit import kernel
from widetable.kernels.sort_order import group_starts, sort_order

Lane: TypeAlias = npt.NDArray[np.uint64]

MAX_PADDED_BYTES = 64


class _Chunk(NamedTuple):
    """The values of one array: value i is data[starts[i] : ends[i]]; starts are moved behind the shared prefix
    before words are made.
    """

    data: npt.NDArray[np.uint8]
    starts: Positions
    ends: Positions  # for a null: one before its start


def bytes_lanes(column: ArrowColumn) -> Sequence[Lane]:
    """Return one array per word, or a single one of ranks; nulls get 0 everywhere.

    The arrays are new. Only key_lanes.py distinguishes a null from an empty value. There is no array
    where all values are equal, unless they end with byte 0.
    """
    chunks = [_chunk(array) for array in chunks_of(column)]
    # Only valid values share the prefix: a null must not shorten it.
    prefix, longest, ends_with_zero = _shape(chunks)
    valid = np.concatenate([chunk.ends >= chunk.starts for chunk in chunks])
    chunks = [
        chunk._replace(starts=np.minimum(chunk.starts + prefix, chunk.ends)) for chunk in chunks
    ]
    if longest - prefix > MAX_PADDED_BYTES:
        return (_ranks(chunks, np.flatnonzero(valid)),)
    words = (longest - prefix + 7) // 8
    lanes = np.zeros((words + ends_with_zero, len(column)), np.uint64)
    first = 0
    for data, starts, ends in chunks:
        last = first + len(starts)
        _padded_words(*as_words(data), starts, ends, lanes[:words, first:last])
        if ends_with_zero:
            lanes[words, first:last] = ends - starts
        first = last
    return list(lanes)


def _chunk(array: ArrowColumn) -> _Chunk:
    """Return the values of an array. A null ends before its start, so one comparison distinguishes it
    from an empty value.
    """
    data, offsets = bytes_view(array)
    valid = validity(array)
    starts, ends = offsets[:-1], offsets[1:]
    return _Chunk(
        data, starts, ends if valid is None else frozen(np.where(valid, ends, starts - 1))
    )


def _shape(chunks: Sequence[_Chunk]) -> tuple[int, int, bool]:
    """Return (length of the prefix that all share, longest value, whether one ends with byte 0), ignoring nulls."""
    prefix, longest, ends_with_zero = 0, -1, False
    first = np.empty(0, np.uint8)
    for data, starts, ends in chunks:
        if longest < 0:
            # Any value can be compared with; a chunk of nulls alone gives an empty one here,
            # and leaves `longest` at -1, so that the next chunk chooses another value.
            row = int(np.argmax(ends >= starts))
            first = data[starts[row] : max(ends[row], starts[row])]
            prefix = len(first)
        prefix, longest, ends_with_zero = _bytes_shape(
            data, starts, ends, first, prefix, longest, ends_with_zero
        )
    return prefix, max(longest, 0), ends_with_zero


def _ranks(chunks: Sequence[_Chunk], rows: Positions) -> Lane:
    """Return the ranks of `rows`; other rows get 0.

    Each round sorts the rows that still tie by (rank so far, next 64 bytes, length capped at
    65). A row is finished when it ties with no other, or when its value ends within the round: rows
    that tie then are equal. There are as many rounds as the longest prefix that two values share
    has pieces of 64 bytes, and each sorts tied rows only.
    """
    cuts = np.concatenate([[0], np.cumsum([len(chunk.starts) for chunk in chunks])])
    ranks = np.zeros(cuts[-1], np.uint64)
    words = MAX_PADDED_BYTES // 8
    done = 0  # bytes of every value that `ranks` has seen
    while len(rows):
        # Rank so far, the next bytes, and the bytes left, capped at one more than a round takes.
        lanes = np.zeros((len(rows), words + 2), np.uint64)
        lanes[:, 0] = ranks[rows]
        bounds = np.searchsorted(rows, cuts)
        for i, (data, all_starts, all_ends) in enumerate(chunks):
            first, last = bounds[i], bounds[i + 1]
            local = rows[first:last] - cuts[i]
            ends = all_ends[local]
            starts = np.minimum(all_starts[local] + done, ends)
            _padded_words(*as_words(data), starts, ends, lanes.T[1:-1, first:last])
            # The length distinguishes values that padding makes equal: "a" and "a" with a zero byte
            # behind it have equal words.
            lanes[first:last, -1] = np.minimum(ends - starts, MAX_PADDED_BYTES + 1)
        order = sort_order(lanes, np.zeros(len(rows), np.int64))
        undecided = np.zeros(len(rows), np.bool_)
        _refine(ranks, rows, order, group_starts(lanes, order), undecided)
        rows = rows[undecided & (lanes[:, -1] > MAX_PADDED_BYTES)]
        done += MAX_PADDED_BYTES
    return ranks


@kernel
def _refine(
    ranks: Lane,
    rows: Positions,
    order: Positions,
    starts: Positions,
    undecided: npt.NDArray[np.bool_],
) -> None:
    """Add to each rank the number of rows that tied with the row before this round and now sort before it."""
    tied, first = ranks[0], 0
    for group in range(len(starts) - 1):
        old = ranks[rows[order[starts[group]]]]
        if group == 0 or old != tied:
            tied, first = old, starts[group]
        for position in range(starts[group], starts[group + 1]):
            row = order[position]
            ranks[rows[row]] = old + np.uint64(starts[group] - first)
            undecided[row] = starts[group + 1] - starts[group] > 1


@kernel
def _bytes_shape(
    data: npt.NDArray[np.uint8],
    starts: Positions,
    ends: Positions,
    first: npt.NDArray[np.uint8],
    prefix: int,
    longest: int,
    ends_with_zero: bool,
) -> tuple[int, int, bool]:
    for row in range(len(starts)):
        start, end = starts[row], ends[row]
        if end < start:
            continue
        longest = max(longest, end - start)
        prefix = min(prefix, end - start)
        for i in range(prefix):
            if data[start + i] != first[i]:
                prefix = i
                break
        if end > start and data[end - 1] == 0:
            ends_with_zero = True
    return prefix, longest, ends_with_zero


@kernel
def _padded_words(
    data: Lane, tail: np.uint64, starts: Positions, ends: Positions, lanes: Lane
) -> None:
    """Set lanes[w, row] to bytes 8w to 8w + 8 of the row's value, big-endian, zeros after its end.

    Bytes are read as the (at most two) aligned words that they lie in: 3 times faster than one by one.
    """
    for row in range(len(starts)):
        start, end = starts[row], ends[row]
        for word in range(lanes.shape[0]):
            at = start + 8 * word
            # Words behind the end of a value keep their zeros; all words of a null do.
            left = end - at
            if left <= 0:
                break
            # The word that holds byte `at`, shifted by the bytes in front of it; the next word fills
            # up from above where the eight bytes cross into it. `tail` has the bytes
            # behind the last whole word: no read passes the end of the buffer.
            source, shift = at >> 3, np.uint64((at & 7) << 3)
            value = (data[source] if source < len(data) else tail) >> shift
            if (at & 7) + left > 8 and shift:
                after = data[source + 1] if source + 1 < len(data) else tail
                value |= after << (np.uint64(64) - shift)
            value = _big_endian(value)
            if left < 8:
                value &= ~((np.uint64(1) << np.uint64(64 - 8 * left)) - np.uint64(1))
            lanes[word, row] = value


@kernel
def _big_endian(word: np.uint64) -> np.uint64:
    """Return the word with its bytes in reverse order."""
    bytes_mask, pairs_mask = np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0000FFFF0000FFFF)
    one, two, four = np.uint64(8), np.uint64(16), np.uint64(32)
    word = ((word & bytes_mask) << one) | ((word >> one) & bytes_mask)
    word = ((word & pairs_mask) << two) | ((word >> two) & pairs_mask)
    return np.uint64((word << four) | (word >> four))
