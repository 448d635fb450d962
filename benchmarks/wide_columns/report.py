"""What came out of a task of the workload `wide_columns`: a table with a line for each width and measure, and rows.

A ratio to 20 columns is the median over the rounds of the paired ratios, which stand beside it. So is the ratio of
Java's measure to ours. A row's ratio to 20 columns is the largest of those of its measures; a row against Java has the
ratio of the median calls.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from benchmarks.harness import Row
from benchmarks.wide_columns.sides import JAVA, WideSide
from benchmarks.wide_columns.sizes import NARROW, TARGET

_GOAL: Final = f"<= {TARGET}"
_HEADER: Final = (
    "columns",
    "measure",
    "ours",
    f"to {NARROW} columns",
    "of the rounds",
    "goal",
    "",
    JAVA,
    "Java to ours",
)


@dataclass(frozen=True)
class WideTask:
    """A task that was run at all widths: `ours` by width, 20 columns first, and `java` where it takes part."""

    name: str
    ours: dict[int, WideSide]
    java: dict[int, WideSide]
    is_judged: bool

    @property
    def narrow(self) -> WideSide:
        return self.ours[NARROW]

    def growth(self, columns: int) -> dict[str, list[float]]:
        """By measure, the ratio to 20 columns in each round. Empty for 20 columns, and where one of both failed."""
        if columns == NARROW:
            return {}
        return paired_ratios(self.ours[columns], self.narrow)

    def verdict(self, ratio: float | None) -> bool | None:
        return None if not self.is_judged else ratio is not None and ratio <= TARGET


def paired_ratios(side: WideSide, other: WideSide) -> dict[str, list[float]]:
    """By measure, the first to the second in each round that both have. Empty where one of them failed."""
    if side.failure is not None or other.failure is not None:
        return {}
    pairs = list(zip(side.measures, other.measures, strict=False))
    return {name: [one[name] / two[name] for one, two in pairs] for name in pairs[0][0]}


def rows_of(done: WideTask) -> Iterator[Row]:
    """A row for each width beside 20 columns, and one for each width beside Java."""
    for columns, side in done.ours.items():
        if columns != NARROW:
            yield _row(done, side)
        if columns in done.java:
            yield _row_beside_java(side, done.java[columns])


def _row(done: WideTask, side: WideSide) -> Row:
    ratios = {name: statistics.median(each) for name, each in done.growth(side.columns).items()}
    ratio = max(ratios.values()) if ratios else None
    return Row(
        f"{side.task}, {side.columns:,} columns",
        _text(side, ratios),
        f"{NARROW} columns: {_text(done.narrow, {})}",
        ratio,
        _GOAL,
        done.verdict(ratio),
        {"ratios": ratios, "wide": side.measures, "narrow": done.narrow.measures},
    )


def _row_beside_java(side: WideSide, java: WideSide) -> Row:
    ratios = paired_ratios(java, side)
    return Row(
        f"{side.task}, {side.columns:,} columns, beside Java",
        _text(side, {}),
        f"{JAVA}: {_text(java, {})}",
        statistics.median(ratios["median"]) if ratios else None,
        details={"ratios": ratios, "ours": side.measures, "java": java.measures},
    )


def _text(side: WideSide, ratios: dict[str, float]) -> str:
    if side.failure is not None:
        return side.failure
    return ", ".join(
        f"{name} {_value(side, name)}" + (f" ({ratios[name]:.2f}x)" if name in ratios else "")
        for name in side.measures[0]
    )


def _value(side: WideSide, name: str) -> str:
    value = side.median(name)
    return f"{value:.2f} GiB" if name == "peak" else f"{value:.3g} s"


def print_task(done: WideTask) -> None:
    """The table of one task. Columns that Java has no part in are left out."""
    lines: list[tuple[str, ...]] = [_HEADER]
    for columns in done.ours:
        lines += _lines(done, columns)
    shown = [line if done.java else line[:7] for line in lines]
    widths = [max(map(len, cells)) for cells in zip(*shown, strict=True)]
    for line in shown:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        print("  ".join(cells).rstrip(), flush=True)


def _lines(done: WideTask, columns: int) -> Iterator[tuple[str, ...]]:
    """A line for each measure, or one that says why there are none."""
    side, java = done.ours[columns], done.java.get(columns)
    growth = done.growth(columns)
    beside = paired_ratios(java, side) if java is not None else {}
    names = list(side.measures[0]) if side.failure is None else [""]
    for number, name in enumerate(names):
        rounds = growth.get(name, [])
        ratio = statistics.median(rounds) if rounds else None
        has_goal = columns != NARROW
        verdict = done.verdict(ratio) if has_goal else None
        yield (
            f"{columns:,}",
            name,
            side.failure or _value(side, name),
            "" if ratio is None else f"{ratio:.2f}",
            " ".join(f"{each:.2f}" for each in rounds),
            _GOAL if has_goal else "",
            {None: "", True: "reached", False: "NOT reached"}[verdict],
            _java_value(java, name, is_first=number == 0),
            f"{statistics.median(beside[name]):.1f}" if name in beside else "",
        )


def _java_value(java: WideSide | None, name: str, *, is_first: bool) -> str:
    if java is None:
        return ""
    if java.failure is not None:
        return java.failure if is_first else ""
    return _value(java, name) if name in java.measures[0] else ""
