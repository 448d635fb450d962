"""Minimum, maximum and null count of columns, as a manifest holds them.

On disk: never change (Paimon `SimpleStats`; format.md section 4):

    stats       = min_values max_values null_counts
    min_values  = BinaryRow with its arity in front, a field per column; null: not known
    max_values  = the same
    null_counts = one long or null per column

Knows nothing of files. Raises nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# On disk: never change. Arity 0 and the header: also the partition of unpartitioned tables.
EMPTY_ROW: Final = bytes(12)


@dataclass(frozen=True, slots=True)
class Stats:
    """One row of minima, one of maxima, and one null count or None per column."""

    min_values: bytes
    max_values: bytes
    null_counts: tuple[int | None, ...]


# Stats of no column.
EMPTY_STATS: Final = Stats(EMPTY_ROW, EMPTY_ROW, ())


def null_row(arity: int) -> bytes:
    """A BinaryRow, arity in front, whose fields are all null (format.md section 5)."""
    row = bytearray((arity + 71) // 64 * 8 + 8 * arity)
    for field in range(arity):
        row[(field + 8) // 8] |= 1 << (field % 8)
    return arity.to_bytes(4, "big") + bytes(row)


def unknown_stats(arity: int) -> Stats:
    """Stats of `arity` columns about which nothing is known: no reader may skip a file by them."""
    row = null_row(arity)
    return Stats(row, row, (None,) * arity)
