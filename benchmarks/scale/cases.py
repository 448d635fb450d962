"""The loads of docs/scale.md: three that go to an extreme in one thing, all of it in one table, and ways out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from benchmarks.scale.needs import TableLoad

_BILLION: Final = 1e9

KEYS: Final = TableLoad("17 billion keys", 17 * _BILLION, _BILLION, 10)
ROWS: Final = TableLoad("100 billion rows a day", _BILLION, 100 * _BILLION, 20)
JOBS: Final = TableLoad("700 jobs", _BILLION, _BILLION, 700)
ALL: Final = TableLoad("all of it", 17 * _BILLION, 100 * _BILLION, 700)
CASES: Final = (KEYS, ROWS, JOBS, ALL)


@dataclass(frozen=True)
class Mitigation:
    """A load that is carried otherwise."""

    case: TableLoad
    text: str
    load: TableLoad


def _way(case: TableLoad, text: str, **changes: float) -> Mitigation:
    return Mitigation(case, text, replace(case, **changes))  # type: ignore[arg-type]


MITIGATIONS: Final = (
    _way(KEYS, "as it is"),
    _way(KEYS, "commits and rounds every 10 minutes", commit_s=600, round_s=600),
    _way(ROWS, "as it is"),
    _way(ROWS, "commits and rounds every 10 minutes", commit_s=600, round_s=600),
    _way(JOBS, "as it is"),
    _way(JOBS, "commits every 10 minutes", commit_s=600),
    _way(JOBS, "70 queries, each of ten streams", jobs=70),
    _way(JOBS, "the same, commits every 5 minutes", jobs=70, commit_s=300, round_s=300),
    _way(ALL, "as it is"),
    _way(ALL, "commits and rounds every 10 minutes", commit_s=600, round_s=600),
    _way(ALL, "the same, 70 queries", jobs=70, commit_s=600, round_s=600),
    _way(ALL, "the same, in ten tables", jobs=70, commit_s=600, round_s=600, tables=10),
)
