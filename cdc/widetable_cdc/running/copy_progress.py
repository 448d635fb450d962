"""How far the copy of a table is, as the end of a log line. Pure: the clock is an argument.

    3 of 12 chunks, 1500000 rows, 210.0 MiB, 77000 rows/s, 58 s left

Rows and bytes are those that this process has copied; chunks that an earlier one copied are among the first number
alone. Bytes are those of Arrow columns in memory. What is left is estimated from the chunks: they have about equally
many rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from widetable.connector import counted, duration_text, size_text


@dataclass
class CopyProgress:
    """What a process has copied of one table since `began_seconds`, a time of the same clock as `text` takes."""

    began_seconds: float
    _chunks: int = field(default=0, init=False)
    _rows: int = field(default=0, init=False)
    _bytes: int = field(default=0, init=False)

    def add(self, rows: int, bytes: int) -> None:
        """Add a chunk."""
        self._chunks += 1
        self._rows += rows
        self._bytes += bytes

    def text(self, done: int, chunks: int, now_seconds: float) -> str:
        """Write how far the copy is. done: chunks that are in the table, of `chunks`."""
        seconds = max(now_seconds - self.began_seconds, 1e-3)
        parts = [
            f"{done} of {counted(chunks, 'chunk')}",
            counted(self._rows, "row"),
            size_text(self._bytes),
            f"{counted(round(self._rows / seconds), 'row')}/s",
        ]
        if done < chunks:
            left_seconds = round(seconds / max(self._chunks, 1) * (chunks - done))
            parts.append(f"{duration_text(left_seconds * 1000)} left")
        return ", ".join(parts)
