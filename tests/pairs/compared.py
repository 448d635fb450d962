"""Rows of a reader, held against those of the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence


def check_rows(reader: str, found: Sequence[str], expected: Sequence[str]) -> None:
    """Raises AssertionError with what differs; of a plain assertion pytest takes a minute to show two such lists."""
    if found != expected:
        wrong, missing = (
            Counter(a) - Counter(b) for a, b in ((found, expected), (expected, found))
        )
        raise AssertionError(f"{reader}: found {list(wrong)}, expected {list(missing)}")
