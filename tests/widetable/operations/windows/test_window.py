"""`widetable.window`: lengths as they are written, and functions that are refused by name."""

from __future__ import annotations

import pickle
from datetime import timedelta
from typing import Any

import pytest

import widetable as wt


@pytest.mark.parametrize(
    ("length", "millis"),
    [
        ("1 h", 3_600_000),
        ("5min", 300_000),
        ("7 D", 7 * 86_400_000),
        ("250 ms", 250),
        (timedelta(days=30), 30 * 86_400_000),
    ],
)
def test_lengths(length: Any, millis: int) -> None:
    assert wt.window("clicks", "sum", length).length_millis == millis


@pytest.mark.parametrize(
    "length",
    [
        *("", "0 h", "-1 h", "1.5 h", "90", "1500 µs", "3 ns", "1 week", "99999999 d", 3600, None),
        *(timedelta(0), timedelta(microseconds=1500), timedelta(hours=-1)),
    ],
)
def test_lengths_that_are_none(length: Any) -> None:
    with pytest.raises(wt.InvalidError, match="length of the window"):
        wt.window("clicks", "sum", length)


def test_functions_are_refused_by_name() -> None:
    for name in ("last_value", "first_non_null_value", "product", "collect"):
        with pytest.raises(wt.UnsupportedError, match=f"function '{name}' of a window.*sum, count"):
            wt.window("clicks", name, "1 h")
    for name in ("avg", "SUM", ""):
        with pytest.raises(wt.InvalidError, match=f"function '{name}' of a window"):
            wt.window("clicks", name, "1 h")
    wrong: Any = 3
    with pytest.raises(wt.InvalidError, match="function of a window"):
        wt.window("clicks", wrong, "1 h")


def test_a_window_is_a_value() -> None:
    window = wt.window("clicks", "sum", "60 min")
    assert window == wt.window("clicks", "sum", "1 h")
    assert len({window, wt.window("clicks", "sum", "1 h")}) == 1
    assert pickle.loads(pickle.dumps(window)) == window
