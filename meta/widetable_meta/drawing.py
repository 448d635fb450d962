"""Positions of tables and jobs in the drawing of a topology: columns from left to right. Pure.

    roots | tables of layer 0 | jobs | tables of layer 1 | jobs | ..

A job stands before the first layer that it writes into. Within a column, items follow the order of the items that they
are derived from. All sizes are pixels. Raises nothing.

clicks writes a, j1 derives b from a, j2 derives c from a and b:

    column    0        1      2       3      4       5
              clicks   a      j1      b      j2      c
    x         12       174    426     588    840     1,002     width 1,238

k1 derives p from z, k2 derives q from y:      y   k2   q
                                               z   k1   p         sorted by name, k1 and p would be above: lines cross

Rows are chosen once, from left to right: a job stands at the mean of its sources, a table where the first job that
writes it stands. Some crossings may be left; there is no search for the fewest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from widetable import Job, JobDelay, TableProgress
from widetable.connector import duration_text, last_seen_text, time_text

TABLE_WIDTH: Final = 236
JOB_WIDTH: Final = 134
GAP_X: Final = 28
GAP_Y: Final = 20
MARGIN: Final = 12
_LINE: Final = 18
_JOB_HEIGHT: Final = 56
# The lines of a table: its name, barrier and freshness, common barrier; then writers.
_TABLE_HEIGHT: Final = 92
MAX_WRITERS: Final = 5


@dataclass(frozen=True)
class WriterLine:
    """A line about a writer. name: the writer. said: how far it is. is_missing: the table waits for it. is_alive: its
    process renews it.
    """

    name: str
    said: str
    is_missing: bool
    is_alive: bool


@dataclass(frozen=True)
class DrawnTable:
    """A table in the drawing. more: the number of writers without a line."""

    progress: TableProgress
    x: int
    y: int
    height: int
    writers: tuple[WriterLine, ...]
    more: int

    @property
    def middle(self) -> int:
        return self.y + self.height // 2


@dataclass(frozen=True)
class DrawnJob:
    """A job in the drawing. said: cost and wait, from `delay`. is_slowest: no drawn job has a larger share."""

    job: Job
    x: int
    y: int
    said: str
    is_slowest: bool
    height: int = _JOB_HEIGHT

    @property
    def middle(self) -> int:
        return self.y + self.height // 2


@dataclass(frozen=True)
class Line:
    """An SVG path from a table to a job, or from a job to a table."""

    path: str
    is_slowest: bool


@dataclass(frozen=True)
class Drawing:
    """The whole drawing. width, height: its size."""

    width: int
    height: int
    tables: tuple[DrawnTable, ...]
    jobs: tuple[DrawnJob, ...]
    lines: tuple[Line, ...]


def drawing_of(
    tables: Sequence[TableProgress], jobs: Iterable[Job], delays: Mapping[str, JobDelay]
) -> Drawing:
    """Place tables and jobs. delays: those of one barrier, for each job that has one."""
    layers = {one.table: one.layer for one in tables}
    shown = [job for job in jobs if any(table in layers for table in job.tables)]
    before = {
        job.name: min(layers[table] for table in job.tables if table in layers) for job in shown
    }
    heights = {one.table: _table_height(one) for one in tables}
    columns: dict[int, list[str | Job]] = {}
    for one in tables:
        columns.setdefault(2 * one.layer + 1, []).append(one.table)
    for job in shown:
        columns.setdefault(2 * before[job.name], []).append(job)
    ordered = _ordered(columns)
    tops, height = _tops(ordered, heights)
    lefts, width = _lefts(ordered)
    slowest = _slowest(delays)
    drawn_tables = {
        one.table: _table(one, lefts[2 * one.layer + 1], tops[one.table], heights[one.table])
        for one in tables
    }
    drawn_jobs = tuple(
        DrawnJob(
            job,
            lefts[2 * before[job.name]],
            tops[("job", job.name)],
            job_text(job, delays.get(job.name)),
            job.name == slowest,
        )
        for job in shown
    )
    lines = [line for job in drawn_jobs for line in _lines(job, drawn_tables)]
    return Drawing(width, height, tuple(drawn_tables.values()), drawn_jobs, tuple(lines))


def job_text(job: Job, delay: JobDelay | None) -> str:
    """Return what a job took of the shown barrier: cost and wait, or their sum where only that is known."""
    if job.silent_millis is not None:
        return last_seen_text(job.silent_millis)
    if delay is None:
        return job.state if not job.sources else "no barrier yet"
    if delay.cost_millis is None or delay.wait_millis is None:
        share = delay.share_millis
        return "took -" if share is None else f"took {duration_text(share)}"
    return f"{duration_text(delay.cost_millis)}, waited {duration_text(delay.wait_millis)}"


def _slowest(delays: Mapping[str, JobDelay]) -> str | None:
    shares = {
        name: one.share_millis for name, one in delays.items() if one.share_millis is not None
    }
    return max(sorted(shares), key=lambda name: shares[name], default=None)


def _table_height(one: TableProgress) -> int:
    lines = min(len(one.writers), MAX_WRITERS) + (len(one.writers) > MAX_WRITERS)
    return _TABLE_HEIGHT + _LINE * lines + (12 if lines else 0)


def _table(one: TableProgress, x: int, y: int, height: int) -> DrawnTable:
    first = sorted(one.writers, key=lambda writer: not writer.is_missing)[:MAX_WRITERS]
    lines = tuple(
        WriterLine(
            writer.name,
            _behind(writer.barrier, one.barrier)
            if writer.silent_millis is None
            else last_seen_text(writer.silent_millis),
            writer.is_missing,
            writer.alive,
        )
        for writer in first
    )
    return DrawnTable(one, x, y, height, lines, len(one.writers) - len(lines))


def _behind(barrier: int, of_table: int | None) -> str:
    if not barrier:
        return "none yet"
    ahead = barrier - (of_table or barrier)
    return f"+{duration_text(ahead)}" if ahead > 0 else time_text(barrier)[11:19]


def _key(item: str | Job) -> str | tuple[str, str]:
    return ("job", item.name) if isinstance(item, Job) else item


def _ordered(columns: Mapping[int, list[str | Job]]) -> dict[int, list[str | Job]]:
    """Order each column by the positions of what feeds its items.

    place: of a table, from 0 at the top to nearly 1. fed_at: of the first job that writes into a table.
    """
    place: dict[str, float] = {}
    fed_at: dict[str, float] = {}
    ordered: dict[int, list[str | Job]] = {}
    for at in sorted(columns):

        def feeds(item: str | Job) -> tuple[float, str]:
            if isinstance(item, Job):
                places = [place[table] for table in item.sources if table in place]
                return (sum(places) / len(places) if places else 0.0, item.name)
            return (fed_at.get(item, 0.0), item)

        ordered[at] = sorted(columns[at], key=feeds)
        for row, item in enumerate(ordered[at]):
            if isinstance(item, Job):
                for table in item.tables:
                    fed_at.setdefault(table, row / len(ordered[at]))
            else:
                place[item] = row / len(ordered[at])
    return ordered


def _tops(
    columns: Mapping[int, Sequence[str | Job]], heights: Mapping[str, int]
) -> tuple[dict[str | tuple[str, str], int], int]:
    """Return the top of each item, and the height of the drawing. Lower columns stand in the middle."""
    tall = {
        at: sum(_height(item, heights) for item in items) + GAP_Y * (len(items) - 1)
        for at, items in columns.items()
    }
    most = max(tall.values(), default=0)
    tops = {}
    for at, items in columns.items():
        y = MARGIN + (most - tall[at]) // 2
        for item in items:
            tops[_key(item)] = y
            y += _height(item, heights) + GAP_Y
    return tops, most + 2 * MARGIN


def _height(item: str | Job, heights: Mapping[str, int]) -> int:
    return _JOB_HEIGHT if isinstance(item, Job) else heights[item]


def _lefts(columns: Mapping[int, object]) -> tuple[dict[int, int], int]:
    """Return the left edge of each column, and the width of the drawing."""
    lefts, x = {}, MARGIN
    for at in sorted(columns):
        lefts[at] = x
        x += (TABLE_WIDTH if at % 2 else JOB_WIDTH) + GAP_X
    return lefts, max(x - GAP_X, MARGIN) + MARGIN


def _lines(job: DrawnJob, tables: Mapping[str, DrawnTable]) -> Iterable[Line]:
    for name in job.job.sources:
        if name in tables:
            source = tables[name]
            start, end = (source.x + TABLE_WIDTH, source.middle), (job.x, job.middle)
            yield Line(_curve(start, end), job.is_slowest)
    for name in job.job.tables:
        if name in tables:
            sink = tables[name]
            start, end = (job.x + JOB_WIDTH, job.middle), (sink.x, sink.middle)
            yield Line(_curve(start, end), job.is_slowest)


def _curve(start: tuple[int, int], end: tuple[int, int]) -> str:
    bend = max((end[0] - start[0]) // 2, GAP_X // 2)
    return (
        f"M{start[0]},{start[1]} C{start[0] + bend},{start[1]} {end[0] - bend},{end[1]} "
        f"{end[0]},{end[1]}"
    )
