"""Decode Avro records field by field into columns of numbers and byte ranges.

Avro has no lengths or offsets for fields: a record is read from its first byte to its last. A plan made from the file's
schema says what to do with each field in turn (a step), and how to skip fields that are not requested (a node):

    step      STEP_INT      zigzag varint               range[0] = value, range[1] = 1
              STEP_BYTES    length and bytes            range = where the bytes start and end
              STEP_NODE     any node                    range = where its bytes start and end
              a null gives (-1, -1), a null number (0, 0); null_branch is the branch of a union with null, or -1
              bytes equal to those of the record before give its range: the range changes only when the value does
    node      NODE_FIXED    `width` bytes (null: 0)
              NODE_VARINT, NODE_BYTES                   as above
              NODE_RECORD   its children in turn;  NODE_UNION    the child that a varint names
              NODE_ARRAY, NODE_MAP    blocks: count, items (a map's with a key before); a negative count has the block's
                                      size in bytes behind it; count 0 is the end; an item takes a byte at least
                                      (format/avro_nodes refuses others), so the bytes bound the number of items

Kernels raise nothing: a position of -1 means that the bytes end too early or have an invalid branch.

Records {a: ["null", "int"], b: "bytes"} in 12 bytes, with steps (STEP_INT, null_branch 0),
(STEP_BYTES, -1):

    position     0  1  2  3 4     5  6  7 8     9 10 11
    bytes        02 06 04 h i     00 04 h i     00 02 x
    a            3                null          null            ranges 0, 1:   3  0  0    1  0  0
    b            "hi"             "hi"          "x"             ranges 2, 3:   3  3 11    5  5 12

The second "hi" has the range of the first: code that turns ranges into values makes one for both,
and a column that is equal in all records of a manifest costs one value.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from widetable.kernels.jit import kernel

Bytes: TypeAlias = npt.NDArray[np.uint8]
Numbers: TypeAlias = npt.NDArray[np.int64]

STEP_INT, STEP_BYTES, STEP_NODE = 0, 1, 2
NODE_FIXED, NODE_VARINT, NODE_BYTES, NODE_RECORD, NODE_UNION, NODE_ARRAY, NODE_MAP = range(7)

MAX_DEPTH = 64
_NOTHING: Final = np.empty(0, np.int64)


class Steps(NamedTuple):
    """One step per field, in file order. outputs: the pair of rows of the result, -1 for fields that are not requested.

    null_branches: which branch of the field's union is null, 0 or 1; -1 for a field that is no
    union. nodes: the field's type without its union; only STEP_NODE uses it.
    """

    kinds: Numbers
    outputs: Numbers
    null_branches: Numbers
    nodes: Numbers


class Nodes(NamedTuple):
    """The nodes. Node i has a kind, a width in bytes, and the children children[first[i] : first[i + 1]] (indices)."""

    kinds: Numbers
    widths: Numbers
    first: Numbers
    children: Numbers


def decode_records(
    data: Bytes, records: int, steps: Steps, nodes: Nodes, outputs: int
) -> Numbers | None:
    """Return int64[2 * outputs, records]: rows 2 i and 2 i + 1 hold the ranges of output i; None for invalid bytes.

    The records must use up all of `data`.

    The result, 16 bytes for each record and output, is allocated before decoding: the caller makes
    sure that `data` can hold so many records (a record takes a byte at least).
    """
    ranges, end = decode_from(data, 0, records, steps, nodes, outputs)
    return ranges if end == len(data) else None


def decode_from(
    data: Bytes,
    start: int,
    records: int,
    steps: Steps,
    nodes: Nodes,
    outputs: int,
    positions: Numbers = _NOTHING,
) -> tuple[Numbers, int]:
    """Return (the ranges of so many records from a position on, the position behind them or -1). positions: where each
    record begins, if they do not follow one another.
    """
    ranges = np.zeros((2 * outputs, records), np.int64)
    end = _records(data, start, positions, records, *steps, *nodes, *_room(), ranges)
    return ranges, end


def decode_at(
    data: Bytes, positions: Numbers, steps: Steps, nodes: Nodes, outputs: int
) -> Numbers | None:
    """Return the ranges of records that begin at these positions; -1 stands for a record whose fields are all null."""
    if not len(positions):
        return np.zeros((2 * outputs, 0), np.int64)
    ranges, end = decode_from(data, 0, len(positions), steps, nodes, outputs, positions)
    return None if end < 0 else ranges


def find_items(
    data: Bytes, positions: Numbers, item: int, nodes: Nodes, *, is_map: bool
) -> tuple[Numbers, Numbers] | None:
    """Return (counts, where the items begin) for arrays or maps at these positions; -1 has none; None for invalid
    bytes. An item of a map begins with its key. item: the node of an array's items, or of a map's values.

    There are two passes, as a kernel allocates nothing: one counts, the other stores positions. The
    value of a map item begins behind the key's length and bytes.

        [1, 2], null, [3, 4]; the block of the last has its size in front
        data       04 02 04 00  03 04 06 08 00           positions 0, -1, 4
        result     counts 2, 0, 2      items at 1, 2, 6, 7
    """
    counts = np.zeros(len(positions), np.int64)
    total = _items(data, positions, item, is_map, *nodes, *_room(), counts, _NOTHING)
    if total < 0:
        return None
    starts = np.empty(total, np.int64)
    if total:
        _items(data, positions, item, is_map, *nodes, *_room(), counts, starts)
    return counts, starts


def gather_bytes(data: Bytes, low: Numbers, high: Numbers) -> tuple[Numbers, Bytes]:
    """Return (offsets int64[n + 1], the bytes low[i] : high[i] one after another)."""
    offsets = np.zeros(len(low) + 1, np.int64)
    np.cumsum(high - low, out=offsets[1:])
    out = np.empty(offsets[-1], np.uint8)
    _gather(data, low, offsets, out)
    return offsets, out


def _room() -> tuple[Numbers, Numbers]:
    return np.empty(MAX_DEPTH, np.int64), np.empty(MAX_DEPTH, np.int64)


@kernel
def _varint(data: Bytes, at: int) -> tuple[Any, int]:
    """Return (value, position behind it); position -1 for a number without an end."""
    value = np.uint64(0)
    shift = np.uint64(0)
    while at < len(data) and shift < 70:
        byte = data[at]
        at += 1
        value |= np.uint64(byte & 0x7F) << shift
        if byte < 0x80:
            # Zigzag: 0, -1, 1, -2 are written as 0, 1, 2, 3. Ten bytes of seven bits are the
            # most that 64 bits need; what a tenth byte has above them is dropped by the shift.
            return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1)), at
        shift += np.uint64(7)
    return np.int64(0), -1


@kernel
def _over_bytes(data: Bytes, at: int) -> tuple[int, int]:
    """Return (start of the bytes, position behind them)."""
    length, start = _varint(data, at)
    if start < 0 or length < 0 or length > len(data) - start:
        return 0, -1
    return start, start + length


@kernel
def _next_block(data: Bytes, at: int) -> tuple[Any, int]:
    """Return (items of the next block that has no size, 0 at the end; position of the first item)."""
    while True:
        count, at = _varint(data, at)
        if at < 0:
            return np.int64(0), -1
        if count >= 0:
            # An item takes a byte at least.
            return count, (at if count <= len(data) - at else -1)
        size, at = _varint(data, at)
        if at < 0 or size < 0 or size > len(data) - at:
            return np.int64(0), -1
        at += size


# Without recursion: a schema that names itself must end, at MAX_DEPTH. A record counts its
# children down; an array or map counts down the items of its block and asks for the next block
# at zero.
@kernel
def _over_node(
    data: Bytes,
    at: int,
    root: int,
    kinds: Numbers,
    widths: Numbers,
    first: Numbers,
    children: Numbers,
    stack: Numbers,
    left: Numbers,
) -> int:
    """Return the position behind a node's value. stack, left: room for MAX_DEPTH open nodes and their items left."""
    depth = 0
    node = root
    while True:
        # Step over `node`, or open it.
        while kinds[node] == NODE_UNION:
            branch, at = _varint(data, at)
            if at < 0 or branch < 0 or branch >= first[node + 1] - first[node]:
                return -1
            node = children[first[node] + branch]
        kind = kinds[node]
        if kind == NODE_FIXED:
            at += widths[node]
            if at > len(data):
                return -1
        elif kind == NODE_VARINT:
            _, at = _varint(data, at)
        elif kind == NODE_BYTES:
            _, at = _over_bytes(data, at)
        else:
            if depth == MAX_DEPTH:
                return -1
            stack[depth] = node
            left[depth] = first[node + 1] - first[node] if kind == NODE_RECORD else 0
            depth += 1
        if at < 0:
            return -1
        # Find the next node: in the innermost open one, or where that is done, in the one around it.
        while True:
            if depth == 0:
                return at
            node = stack[depth - 1]
            kind = kinds[node]
            if left[depth - 1] == 0 and kind != NODE_RECORD:
                left[depth - 1], at = _next_block(data, at)
                if at < 0:
                    return -1
            if left[depth - 1] == 0:
                depth -= 1
                continue
            if kind == NODE_MAP:
                _, at = _over_bytes(data, at)
                if at < 0:
                    return -1
            child = first[node + 1] - left[depth - 1] if kind == NODE_RECORD else first[node]
            left[depth - 1] -= 1
            node = children[child]
            break


@kernel
def _equal(data: Bytes, at: int, other: int, count: int) -> bool:
    for offset in range(count):
        if data[at + offset] != data[other + offset]:
            return False
    return True


# _records returns the position behind the last record, or -1. positions: where each begins; empty:
# one follows the other.
@kernel
def _records(
    data: Bytes,
    start: int,
    positions: Numbers,
    records: int,
    step_kinds: Numbers,
    outputs: Numbers,
    null_branches: Numbers,
    step_nodes: Numbers,
    kinds: Numbers,
    widths: Numbers,
    first: Numbers,
    children: Numbers,
    stack: Numbers,
    left: Numbers,
    ranges: Numbers,
) -> int:
    at = start
    for record in range(records):
        at = positions[record] if len(positions) else at
        is_there = at >= 0
        for step in range(len(step_kinds)):
            kind = step_kinds[step]
            low: Any = np.int64(-1)
            high: Any = np.int64(-1)
            is_null = not is_there
            if is_there and null_branches[step] >= 0:
                branch, at = _varint(data, at)
                if at < 0 or branch < 0 or branch > 1:
                    return -1
                is_null = branch == null_branches[step]
            if is_null:
                if kind == STEP_INT:
                    low, high = np.int64(0), np.int64(0)
            elif kind == STEP_INT:
                low, at = _varint(data, at)
                high = np.int64(1)
            elif kind == STEP_BYTES:
                low, at = _over_bytes(data, at)
                high = at
            else:
                low = at
                at = _over_node(
                    data, at, step_nodes[step], kinds, widths, first, children, stack, left
                )
                high = at
            if is_there and at < 0:
                return -1
            output = outputs[step]
            if output < 0:
                continue
            if kind != STEP_INT and low >= 0 and record > 0:
                before = ranges[2 * output, record - 1]
                same_size = high - low == ranges[2 * output + 1, record - 1] - before
                if before >= 0 and same_size and _equal(data, low, before, high - low):
                    low, high = before, ranges[2 * output + 1, record - 1]
            ranges[2 * output, record] = low
            ranges[2 * output + 1, record] = high
    return max(at, 0)


@kernel
def _items(
    data: Bytes,
    positions: Numbers,
    item: int,
    is_map: bool,
    kinds: Numbers,
    widths: Numbers,
    first: Numbers,
    children: Numbers,
    stack: Numbers,
    left: Numbers,
    counts: Numbers,
    starts: Numbers,
) -> int:
    """Return the number of all items, or -1. starts: their positions, if it has room."""
    total = 0
    for row in range(len(positions)):
        counts[row] = 0
        at = positions[row]
        if at < 0:
            continue
        while True:
            count, at = _varint(data, at)
            if at < 0:
                return -1
            if count == 0:
                break
            if count < 0:
                count = -count
                _, at = _varint(data, at)
            # An item takes a byte at least.
            if at < 0 or count < 0 or count > len(data) - at:
                return -1
            for _ in range(count):
                if total < len(starts):
                    starts[total] = at
                total += 1
                if is_map:
                    _, at = _over_bytes(data, at)
                    if at < 0:
                        return -1
                at = _over_node(data, at, item, kinds, widths, first, children, stack, left)
                if at < 0:
                    return -1
            counts[row] += count
    return total


@kernel
def _gather(data: Bytes, low: Numbers, offsets: Numbers, out: Bytes) -> None:
    for row in range(len(low)):
        start = offsets[row]
        for offset in range(offsets[row + 1] - start):
            out[start + offset] = data[low[row] + offset]
