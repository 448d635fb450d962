"""Convert days to year, month and day, for years that Python's `date` does not hold. Pure.

Days since 1970, in the calendar, and their years as printed:

    19,782          2024-02-29         2024
    3,670,000       12018-02-13        +12018
    -719,529        -1-12-31           -0001        the day before the year 0
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def civil(day: int) -> tuple[int, int, int]:
    """Return year, month and day of a day since 1970, in the proleptic Gregorian calendar."""
    date = np.datetime64(day, "D")
    months = int(date.astype("M8[M]").astype(np.int64))
    return 1970 + months // 12, 1 + months % 12, 1 + int((date - date.astype("M8[M]")).astype(int))


def days_of(
    years: npt.NDArray[np.int64], months: npt.NDArray[np.int64], days: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return for many dates the days since 1970, and whether the calendar has them. Years have up to nine digits."""
    firsts = 12 * (years - 1970) + months - 1
    starts, ends = (
        first.astype("M8[M]").astype("M8[D]").astype(np.int64) for first in (firsts, firsts + 1)
    )
    is_day = (months >= 1) & (months <= 12) & (days >= 1) & (days <= ends - starts)
    return starts + days - 1, is_day


def signed_year(year: int) -> str:
    """Print a year like Java's LocalDate: +12024 after 9999, -0044 before 0."""
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}"
