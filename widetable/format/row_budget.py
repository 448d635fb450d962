"""How many rows go together when they are read, merged, spilled or written in pieces: so many that they take about a
given number of bytes. One rule, because rows may be a few bytes wide or a hundred megabytes.

Pure. Raises nothing but of `check_row`.

    rows_within(1 MiB, 100)           10,485 rows
    rows_within(1 MiB, 5,000,000)     1: a row is never divided, so a budget may be passed by one row
    RowBudget(1 MiB, first_rows=16)   16, 256, 4,096, 65,536 rows, as long as they prove narrow
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from widetable.errors import InvalidError
from widetable.messages.counted import counted

# What a reader gives at once, unless it shares the memory with others.
BATCH_BYTES: Final = 16 << 20
# More rows in a batch gain nothing, however narrow they are.
MOST_ROWS: Final = 1 << 16
# Of options that give a budget, less would be spent on the batches themselves.
LEAST_BYTES: Final = 16 << 10
# What a process may take beside the budget that it was given.
SPARE_BYTES: Final = 256 << 20
_GROWTH: Final = 16


def rows_within(budget_bytes: int, row_bytes: float, most_rows: int = MOST_ROWS) -> int:
    """Rows of this width that stay within a budget: one at least, and no more than most_rows."""
    return max(1, min(most_rows, int(budget_bytes / max(row_bytes, 1.0))))


def check_row(row_bytes: float, budget_bytes: int, what: str) -> None:
    """A row is never divided, so it must fit. Raises InvalidError, which names the number needed, for one that does
    not: the process would else be killed. budget_bytes: option `write-buffer-size`.
    """
    if row_bytes <= budget_bytes + SPARE_BYTES:
        return
    needed = int(row_bytes) - SPARE_BYTES
    raise InvalidError(
        what,
        found=f"a row of {counted(int(row_bytes), 'byte')} in memory",
        expected=f"at most {budget_bytes + SPARE_BYTES}: 'write-buffer-size' and {SPARE_BYTES} beside it",
        action=f"Set 'write-buffer-size' to {needed} b at least, on a machine that has it, or write smaller values.",
    )


def memory_bytes(rows: pa.RecordBatch | pa.Table) -> int:
    """Bytes of rows in memory; where an old Arrow cannot tell, of a view, those of all that its buffers hold."""
    try:
        return int(rows.nbytes)
    except pa.ArrowTypeError:
        return int(rows.get_total_buffer_size())


def row_bytes(rows: pa.RecordBatch | pa.Table) -> float:
    """Bytes of a row in memory, on average."""
    count: int = rows.num_rows
    return memory_bytes(rows) / max(count, 1)


def pieces(
    rows: pa.RecordBatch, budget_bytes: int, most_rows: int = MOST_ROWS
) -> Iterator[pa.RecordBatch]:
    """Slices of a batch that stay within a budget each."""
    count = rows_within(budget_bytes, row_bytes(rows), most_rows)
    return (rows.slice(start, count) for start in range(0, rows.num_rows, count))


class RowBudget:
    """The same where the width is learned on the way: the widest batch so far counts.

    first_rows: until something is known; from piece to piece it may grow by a factor at most, up to most_rows.

    One for each stream of rows, and kept over its whole length: a width once seen is not
    forgotten, so wide rows that come again are not read by thousands. Not thread-safe.
    """

    def __init__(
        self, budget_bytes: int, first_rows: int = MOST_ROWS, most_rows: int = MOST_ROWS
    ) -> None:
        self.budget_bytes: Final = budget_bytes
        self._row_bytes = 0.0
        self._most_rows = first_rows
        self._limit_rows: Final = most_rows

    @property
    def rows(self) -> int:
        """Of the next piece."""
        return rows_within(self.budget_bytes, self._row_bytes, self._most_rows)

    def expect(self, row_bytes: float) -> None:
        """Rows of this width, as long as none were seen."""
        if not self._row_bytes:
            self._most_rows = rows_within(self.budget_bytes, row_bytes, self._limit_rows)

    def saw(self, rows: pa.RecordBatch | pa.Table, count: int | None = None) -> None:
        """Learn from a piece. count: what it is counted in, where that is not rows."""
        if rows.num_rows:
            self.saw_bytes(memory_bytes(rows), rows.num_rows if count is None else count)
        self._most_rows = min(self._limit_rows, self._most_rows * _GROWTH)

    def saw_bytes(self, total_bytes: int, count: int) -> None:
        """So many rows took so much memory together."""
        self._row_bytes = max(self._row_bytes, total_bytes / max(count, 1))
