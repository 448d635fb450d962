"""How many rows to read, merge, spill or write at once, so that they take about a given number of bytes. There is one
rule, because rows may be a few bytes wide or a hundred megabytes.

Pure. Only `check_row` raises errors.

    rows_within(1 MiB, 100)           10,485 rows
    rows_within(1 MiB, 5,000,000)     1: a row is never divided, so one row may exceed a budget
    RowBudget(1 MiB, first_rows=16)   16, 256, 4,096, 65,536 rows, as long as they prove narrow
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from widetable.errors import InvalidError
from widetable.messages.counted import counted

# The size of a reader's batches, unless it shares the memory with others.
BATCH_BYTES: Final = 16 << 20
# More rows in a batch gain nothing, however narrow they are, unless the batch has very many columns.
MAX_ROWS: Final = 1 << 16
_MANY_COLUMNS: Final = 1000
# The least budget of an option: batches themselves would use up less.
MIN_BYTES: Final = 16 << 10
# Memory that a process may take beside its budget.
SPARE_BYTES: Final = 256 << 20
_GROWTH: Final = 16


def rows_within(budget_bytes: int, row_bytes: float, most_rows: int = MAX_ROWS) -> int:
    """Return how many rows of this width stay within a budget: at least one, and at most most_rows."""
    return max(1, min(most_rows, int(budget_bytes / max(row_bytes, 1.0))))


def most_rows_of(columns: int) -> int:
    """Return the most rows of a batch with so many columns. Arrow takes about a microsecond for each column of a batch,
    however few rows it has and however little they hold.
    """
    return MAX_ROWS * max(1, columns // _MANY_COLUMNS)


def check_row(row_bytes: float, budget_bytes: int, what: str) -> None:
    """Raise InvalidError, which names the required budget, for a row that does not fit: a row is never divided, and the
    process would be killed otherwise. budget_bytes: option `write-buffer-size`.
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
    """Return the bytes of rows in memory; where an old Arrow cannot compute them for views, those of all buffers."""
    try:
        return int(rows.nbytes)
    except pa.ArrowTypeError:
        return int(rows.get_total_buffer_size())


def row_bytes(rows: pa.RecordBatch | pa.Table) -> float:
    """Return the average bytes of a row in memory."""
    count: int = rows.num_rows
    return memory_bytes(rows) / max(count, 1)


def pieces(
    rows: pa.RecordBatch, budget_bytes: int, most_rows: int = MAX_ROWS
) -> Iterator[pa.RecordBatch]:
    """Cut a batch into slices that stay within a budget.

    Parameters
    ----------
    rows : pyarrow.RecordBatch
        The batch.
    budget_bytes : int
        The bytes of a slice.
    most_rows : int, default 65536
        The rows of a slice.

    Yields
    ------
    pyarrow.RecordBatch
        A slice; the slices come in order.
    """
    count = rows_within(budget_bytes, row_bytes(rows), most_rows)
    return (rows.slice(start, count) for start in range(0, rows.num_rows, count))


class RowBudget:
    """A budget for rows whose width is measured on the way: the widest batch so far counts.

    first_rows: while the width is unknown; each piece may be larger than the last by a factor, up to most_rows.

    Use one for each stream of rows, over its whole length: it remembers the largest width, so that
    wide rows that come later are not read by thousands. Not thread-safe.
    """

    def __init__(
        self, budget_bytes: int, first_rows: int = MAX_ROWS, most_rows: int = MAX_ROWS
    ) -> None:
        self.budget_bytes: Final = budget_bytes
        self._row_bytes = 0.0
        self._most_rows = first_rows
        self.most_rows: Final = most_rows

    @property
    def rows(self) -> int:
        """The number of rows of the next piece."""
        return rows_within(self.budget_bytes, self._row_bytes, self._most_rows)

    def expect(self, row_bytes: float) -> None:
        """Assume rows of this width until a piece was measured."""
        if not self._row_bytes:
            self._most_rows = rows_within(self.budget_bytes, row_bytes, self.most_rows)

    def saw(self, rows: pa.RecordBatch | pa.Table, count: int | None = None) -> None:
        """Measure a piece. count: the number of units, where these are not rows."""
        if rows.num_rows:
            self.saw_bytes(memory_bytes(rows), rows.num_rows if count is None else count)
        self._most_rows = min(self.most_rows, self._most_rows * _GROWTH)

    def saw_bytes(self, total_bytes: int, count: int) -> None:
        """Record that so many rows took so much memory together."""
        self._row_bytes = max(self._row_bytes, total_bytes / max(count, 1))
