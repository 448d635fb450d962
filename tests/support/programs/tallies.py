"""What campaigns have done, in counts: tests note them, and one line per campaign (a test file) ends the run.

A note travels with the report of its test, so it is there whichever process ran that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pytest

Note = Callable[..., None]
PROPERTY = "tally"


def note_of(record: Callable[[str, object], None]) -> Note:
    """record: pytest's record_property, of the test that notes."""

    def note(**counts: int) -> None:
        record(PROPERTY, counts)

    return note


def lines(reports: Iterable[pytest.TestReport], seed: int) -> list[str]:
    """Of test files that noted something: tests, counts, seconds, and how many tests failed."""
    counts: dict[str, Counter[str]] = {}
    seconds: Counter[str] = Counter()
    for report in reports:
        name = report.nodeid.partition("::")[0].removeprefix("tests/").removesuffix(".py")
        noted: list[Any] = [value for key, value in report.user_properties if key == PROPERTY]
        if report.when != "call" or not noted:
            continue
        of_file = counts.setdefault(name, Counter())
        of_file.update(tests=1, failed=int(report.failed))
        for each in noted:
            of_file.update(each)
        seconds[name] += round(report.duration)
    return [
        f"campaign {name}: {_text(of_file)}, {seconds[name]} s, seed {seed}"
        for name, of_file in sorted(counts.items())
    ]


def _text(counts: Counter[str]) -> str:
    return ", ".join(
        f"{number} {name}" for name, number in counts.items() if number or name == "failed"
    )
