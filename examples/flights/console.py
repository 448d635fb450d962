"""What the demo prints: numbered steps with their time, a line of progress, small tables.

On a terminal the progress line is rewritten in place; elsewhere a new line comes every few seconds.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

_QUIET_SECONDS = 10.0
_BAR_WIDTH = 10


class Console:
    """Prints to standard output. `seconds` is the time since it was made."""

    def __init__(self, step_count: int) -> None:
        self._step_count = step_count
        self._step = 0
        self._started = time.monotonic()
        self._last_progress = float("-inf")
        self._live = sys.stdout.isatty()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    def step(self, text: str) -> None:
        """Announce the next step."""
        self._step += 1
        self.line(f"[{self._step}/{self._step_count}] {self.seconds:6.1f} s  {text}")

    def note(self, text: str) -> None:
        """Something that the current step found out."""
        self.line(f"                {text}")

    def line(self, text: str = "") -> None:
        if self._live:
            sys.stdout.write("\r\033[K")
        print(text, flush=True)

    def progress(self, shares: dict[str, float]) -> None:
        """How far each of several things is: shares from 0 to 1."""
        done = all(share >= 1 for share in shares.values())
        if not self._live and not done and self.seconds - self._last_progress < _QUIET_SECONDS:
            return
        self._last_progress = self.seconds
        parts = [f"{name} {_bar(share)} {share:4.0%}" for name, share in shares.items()]
        text = f"      {self.seconds:6.1f} s  {'   '.join(parts)}"
        if self._live:
            sys.stdout.write(f"\r\033[K{text}")
            sys.stdout.flush()
        else:
            print(text, flush=True)

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Columns aligned, the first to the left, the others to the right."""
        widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
        for row in [head, *rows]:
            cells = [
                cell.ljust(width) if column == 0 else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            ]
            self.line("  " + "  ".join(cells))


def _bar(share: float) -> str:
    full = min(int(share * _BAR_WIDTH), _BAR_WIDTH)
    return "█" * full + "░" * (_BAR_WIDTH - full)
