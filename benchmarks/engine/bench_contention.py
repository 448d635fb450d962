"""Many writer processes on one table with a lookup changelog: small appends as fast as they go.

The same rows in all, by 1, 8 and 32 writers, each a process of its own that is warm before it begins. Once into a
`write-only` table with a maintainer beside, once with changelogs made by the writers themselves (12 of them). The ratio
is rows a second of many writers to those of one, taken per round; medians over the rounds. A commit is a whole
`table.write`, its data file and, inline, its changelog included.

A last row has 8 writers of one partial-update table: those that all write the same two columns, against those that have
two columns each. The former overtake each other, and write their files again with later numbers; the latter do not.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np

import widetable as wt
from benchmarks.engine.contention_process import PAIRS, SCHEMA, WIDE_SCHEMA, open_table
from benchmarks.harness import ROOT, Row, Size, scratch

SHARE, SPREAD, SHARED = 0.8, 5.0, 1.3
_MODULE: Final = "benchmarks.engine.contention_process"
_ROWS: Final = 100

# commits in all, writers beside a maintainer, writers with changelogs of their own, rounds
SHAPES = {
    Size.FULL: (960, (1, 8, 32), (1, 12), 5),
    Size.SHORT: (192, (1, 8, 32), (1, 12), 1),
    Size.TINY: (12, (1, 2), (1, 2), 1),
}


@dataclass(frozen=True)
class Measured:
    """Of one run. millis: of each commit, sorted. lost: races of each. gap_s: the longest time without a changelog.
    cpu_millis: of the writers, a commit.
    """

    rows_s: float
    millis: tuple[float, ...]
    lost: tuple[int, ...]
    failed: tuple[str, ...]
    gap_s: float
    cpu_millis: float

    def percentile(self, of: float) -> float:
        return float(np.percentile(self.millis, of))


def run(size: Size = Size.FULL) -> list[Row]:
    commits, maintained, inline, rounds = SHAPES[size]
    runs: dict[tuple[bool, int], list[Measured]] = {}
    for _ in range(rounds):
        for is_inline, counts in ((False, maintained), (True, inline)):
            for writers in counts:
                found = _measured(writers, commits // writers, is_inline=is_inline)
                runs.setdefault((is_inline, writers), []).append(found)
    overtaking = [
        [_overtaking(role, commits) for role in ("sharer", "owner")] for _ in range(rounds)
    ]
    return [*(_row(runs, *which, size) for which in runs), _overtaking_row(overtaking, size)]


def _overtaking_row(runs: list[list[Measured]], size: Size) -> Row:
    shared, own = ([pair[which] for pair in runs] for which in (0, 1))
    pairs = list(zip(shared, own, strict=True))
    ratio = statistics.median(b.rows_s / a.rows_s for a, b in pairs)
    cpu = statistics.median(a.cpu_millis / b.cpu_millis for a, b in pairs)
    failed = [text for each in (*shared, *own) for text in each.failed]
    return Row(
        f"{PAIRS} writers of the same columns",
        f"{_median(shared, 'rows_s'):,.0f} rows/s; commit p50 {_of(shared, 50):.0f} ms, p99 {_of(shared, 99):.0f} ms; "
        f"{_median(shared, 'cpu_millis'):.0f} ms CPU; lost races {sum(sum(e.lost) for e in shared)}",
        f"own columns {_median(own, 'rows_s'):,.0f} rows/s, {_median(own, 'cpu_millis'):.0f} ms CPU",
        ratio,
        f"<= {SHARED} of the time (CPU is {cpu:.2f})",
        ratio <= SHARED and not failed if size is Size.FULL else None,
        {"failed": failed, "runs": [[vars(each) for each in pair] for pair in runs]},
    )


def _overtaking(role: str, commits: int) -> Measured:
    """Writers of one partial-update table, a maintainer beside."""
    with scratch("contention") as work:
        options = {"bucket": "1", "merge-engine": "partial-update", "write-only": "true"}
        wt.Catalog(str(work)).create_table(
            "bench.contention", WIDE_SCHEMA, primary_key=["k"], options=options
        )
        with _process("maintainer", work):
            told = _written(work, PAIRS, max(1, commits // PAIRS), role)
        return _of_printed(work, told)


def _row(
    runs: dict[tuple[bool, int], list[Measured]], is_inline: bool, writers: int, size: Size
) -> Row:
    found, one = runs[is_inline, writers], runs[is_inline, 1]
    ratio = statistics.median(a.rows_s / b.rows_s for a, b in zip(found, one, strict=True))
    spread = statistics.median(each.percentile(99) / each.percentile(50) for each in found)
    failed = [text for each in found for text in each.failed]
    ok = not failed and (writers == 1 or (ratio >= SHARE and spread <= SPREAD))
    way = "changelogs inline" if is_inline else "a maintainer beside"
    return Row(
        f"{writers} writers, {way}",
        f"{_median(found, 'rows_s'):,.0f} rows/s; commit p50 {_of(found, 50):.0f} ms, p99 {_of(found, 99):.0f} ms, "
        f"worst {_of(found, 100):.0f} ms; lost races {sum(sum(each.lost) for each in found)}, most of a commit "
        f"{max(max(each.lost, default=0) for each in found)}; failed {len(failed)}; "
        f"{_median(found, 'gap_s'):.1f} s without a changelog",
        f"1 writer {_median(one, 'rows_s'):,.0f} rows/s",
        ratio,
        f">= {SHARE}, p99 <= {SPREAD:.0f} x p50 (is {spread:.1f})",
        ok if size is Size.FULL and writers > 1 else None,
        {"failed": failed, "runs": [vars(each) for each in found]},
    )


def _median(found: Sequence[Measured], name: str) -> float:
    return float(statistics.median(getattr(each, name) for each in found))


def _of(found: Sequence[Measured], percentile: float) -> float:
    return statistics.median(each.percentile(percentile) for each in found)


def _measured(writers: int, commits: int, *, is_inline: bool) -> Measured:
    with scratch("contention") as work:
        options = {"bucket": "1", "changelog-producer": "lookup"}
        options |= {} if is_inline else {"write-only": "true"}
        wt.Catalog(str(work)).create_table(
            "bench.contention", SCHEMA, primary_key=["k"], options=options
        )
        with _process("maintainer", work) if not is_inline else _nothing():
            told = _written(work, writers, commits)
        return _of_printed(work, told)


def _of_printed(work: Path, told: list[dict[str, Any]]) -> Measured:
    spans = sorted(span for each in told for span in each["spans"])
    seconds = max(end for _, end in spans) - spans[0][0]
    return Measured(
        rows_s=len(spans) * _ROWS / seconds,
        millis=tuple(sorted((end - began) * 1000 for began, end in spans)),
        lost=tuple(lost for each in told for lost in each["lost"]),
        failed=tuple(text for each in told for text in each["failed"]),
        gap_s=_longest_gap_s(open_table(str(work)), spans[0][0]),
        cpu_millis=sum(each["cpu_s"] for each in told) / len(spans) * 1000,
    )


def _written(work: Path, writers: int, commits: int, role: str = "writer") -> list[dict[str, Any]]:
    """What the writers say, which begin together."""
    started = [_started(role, work, number, commits, _ROWS) for number in range(writers)]
    for process in started:
        assert _line(process) == "ready\n"
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    told = [json.loads(_line(process)) for process in started]
    for process in started:
        process.communicate()
        assert process.returncode == 0
    return told


def _longest_gap_s(table: wt.Table, began_s: float) -> float:
    """The longest time in which the table got no changelog, from the first commit on."""
    times = [each.time_millis / 1000 for each in table.snapshots() if each.commit_kind == "COMPACT"]
    return max((b - a for a, b in pairwise([began_s, *times])), default=0.0)


@contextmanager
def _process(role: str, work: Path) -> Iterator[None]:
    process = _started(role, work)
    assert _line(process) == "ready\n"
    yield
    process.communicate()
    assert process.returncode == 0


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def _started(role: str, work: Path, *arguments: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", _MODULE, role, str(work), *map(str, arguments)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()
