"""Days as year, month and day, for years that Python's `date` does not hold. Pure."""

from __future__ import annotations

import numpy as np


def civil(day: int) -> tuple[int, int, int]:
    """Year, month and day of a day since 1970, in the proleptic Gregorian calendar."""
    date = np.datetime64(day, "D")
    months = int(date.astype("M8[M]").astype(np.int64))
    return 1970 + months // 12, 1 + months % 12, 1 + int((date - date.astype("M8[M]")).astype(int))


def signed_year(year: int) -> str:
    """As Java's LocalDate prints it: +12024 after 9999, -0044 before 0."""
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}"
