"""How much the workload `wide_columns` does at each size: widths, rows, rounds, bounds, and where Java takes part.

A whole run of the full size is meant to take at most 25 minutes on two quiet cores: about five minutes for our tasks in
Python, six for Java, eight for Spark and two for the command line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from benchmarks.bounded_process import Bounds
from benchmarks.engine.wide_columns_process import TASKS
from benchmarks.harness import Size

NARROW: Final = 20
TARGET: Final = 1.3
# A process of these starts Spark, or a call of them starts Python.
SLOW: Final = ("spark read", "spark read of one column", "spark write", "inspect", "explain")
# A task that writes and one that reads: tests/benchmarks and tests/spark do all of them without a process for each.
_TINY: Final = ("write-only", "explain")


@dataclass(frozen=True)
class JavaPart:
    """columns: of the widest table that Java is given, 0 for none. rounds: it takes part in so many of the first. why:
    it gets no wider table.
    """

    columns: int
    rounds: int
    why: str = "the task takes Java minutes there"

    @property
    def refusal(self) -> str:
        """What stands where a wider table's numbers would."""
        return f"not run above {self.columns:,} columns: {self.why}" if self.columns else self.why


# A commit of 200 columns with a lookup changelog takes Java ten seconds.
_JAVA: Final = {
    "write-only": JavaPart(200, 2),
    "inline compaction": JavaPart(200, 2),
    "lookup changelog": JavaPart(200, 1),
}
_JAVA_IN_SHORT: Final = dict.fromkeys(_JAVA, JavaPart(NARROW, 1, "the full size does that"))
_NO_JAVA: Final = dict.fromkeys(_JAVA, JavaPart(0, 0, "not run at this size"))
_JAVA_BOUNDS: Final = Bounds(250, 8 << 30)


@dataclass(frozen=True)
class WideShape:
    """widths: declared columns, each held against 20. slow_calls, slow_rounds: of SLOW tasks. java: by task; a task
    that is not there is not Java's.
    """

    widths: tuple[int, ...]
    rows: int
    keys: int
    calls: int
    slow_calls: int
    rounds: int
    slow_rounds: int
    bounds: Bounds
    java: Mapping[str, JavaPart]
    java_bounds: Bounds = _JAVA_BOUNDS
    tasks: tuple[str, ...] = tuple(TASKS)

    def rounds_of(self, task: str) -> int:
        return self.slow_rounds if task in SLOW else self.rounds

    def java_rounds_of(self, task: str) -> int:
        return self.java[task].rounds if task in self.java else 0

    def calls_of(self, task: str) -> int:
        return self.slow_calls if task in SLOW else self.calls


SHAPES: Final = {
    Size.FULL: WideShape(
        widths=(200, 1_000, 5_000),
        rows=100_000,
        keys=200_000,
        calls=8,
        slow_calls=3,
        rounds=3,
        slow_rounds=2,
        bounds=Bounds(250, 6 << 30),
        java=_JAVA,
    ),
    Size.SHORT: WideShape(
        widths=(1_000,),
        rows=20_000,
        keys=40_000,
        calls=6,
        slow_calls=2,
        rounds=1,
        slow_rounds=1,
        bounds=Bounds(100, 4 << 30),
        java=_JAVA_IN_SHORT,
    ),
    Size.TINY: WideShape(
        widths=(40,),
        rows=200,
        keys=400,
        calls=2,
        slow_calls=2,
        rounds=1,
        slow_rounds=1,
        bounds=Bounds(120, 2 << 30),
        java=_NO_JAVA,
        tasks=_TINY,
    ),
}
