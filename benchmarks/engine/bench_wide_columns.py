"""What declared columns cost that nobody writes: ten columns are written of 20, and of 200, 1,000 and 5,000.

A task of wide_columns_process.py is run at all widths in each round, each time in a fresh process, and the rounds go
up and down the widths in turn. Each width is held against 20 columns of the same round; the ratio of a measure is the
median of its rounds. Measures are the median and the worst of a task's calls (commits, reads), the peak of anonymous
memory of the process and all its children, and a scan of two columns afterwards. Tasks that read have the table that
the first round of a writing task left.

Paimon's Java does the tasks that write without Spark (rival/WideColumns.java), with the same rows and measures, up to
the width above which a task takes it minutes: right after us in each of its rounds, or right before.

A process that takes too long or too much memory is killed. Its row says when, and its side is not tried again; rows
that need its table say so.

`python -m benchmarks.engine.bench_wide_columns` is the same with numbers of one's own:
widths, rows, calls, rounds, tasks.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace

from benchmarks.engine.wide_columns_process import TASKS
from benchmarks.harness import Row, Size, machine, report, scratch
from benchmarks.wide_columns.report import WideTask, print_task, rows_of
from benchmarks.wide_columns.sides import JavaTasks, OurTasks, WideSide
from benchmarks.wide_columns.sizes import NARROW, SHAPES, JavaPart, WideShape


def run(size: Size = Size.FULL) -> list[Row]:
    return run_shape(SHAPES[size], is_judged=size is Size.FULL)


def run_shape(shape: WideShape, *, is_judged: bool = False) -> list[Row]:
    """is_judged: whether rows say if the goal is reached."""
    with scratch("wide_columns") as work:
        ours = OurTasks(shape, work)
        java = JavaTasks(ours)
        rows: list[Row] = []
        for task in shape.tasks:
            done = _run_task(task, ours, java, is_judged=is_judged)
            print_task(done)
            rows += rows_of(done)
        return rows


def _run_task(task: str, ours: OurTasks, java: JavaTasks, *, is_judged: bool) -> WideTask:
    shape, widths = ours.shape, (NARROW, *ours.shape.widths)
    mine = {columns: ours.side(task, columns) for columns in widths}
    rivals = {columns: java.side(task, columns) for columns in widths}
    theirs = {columns: side for columns, side in rivals.items() if side is not None}
    rounds, java_rounds = shape.rounds_of(task), shape.java_rounds_of(task)
    takes_part = any(side.failure is None for side in theirs.values())
    print(
        f"-- {task}: {shape.calls_of(task)} calls, {shape.rows:,} rows a batch; rounds: {rounds}"
        + (f", {java_rounds} of Java" if takes_part else ""),
        flush=True,
    )
    for number in range(rounds):
        beside = theirs if number < java_rounds else {}
        in_turn = [side for columns in widths for side in _both(mine, beside, columns)]
        # The second of a pair finds warmer page caches.
        for side in in_turn if number % 2 == 0 else reversed(in_turn):
            side.run()
    return WideTask(task, mine, theirs, is_judged)


def _both(
    mine: dict[int, WideSide], theirs: dict[int, WideSide], columns: int
) -> Iterator[WideSide]:
    yield mine[columns]
    if columns in theirs:
        yield theirs[columns]


def main(arguments: list[str]) -> int:
    shape, is_judged = _asked(arguments)
    print(f"machine: {machine()}", flush=True)
    rows = run_shape(shape, is_judged=is_judged)
    report(rows)
    return 0


def _asked(arguments: list[str]) -> tuple[WideShape, bool]:
    """The full size with the numbers that are given instead; whether none is."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.engine.bench_wide_columns",
        description="Numbers that are not given are those of the full size.",
    )
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), metavar="TASK")
    parser.add_argument("--widths", nargs="+", type=int, metavar="COLUMNS")
    for name in ("rows", "keys", "calls", "rounds"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--seconds", type=float, help="a process may take, ours or Java's")
    parser.add_argument(
        "--java-columns", type=int, help="of the widest table that Java is given; 0: no Java"
    )
    asked = parser.parse_args(arguments)
    is_full = all(value is None for value in vars(asked).values())
    return SHAPES[Size.FULL] if is_full else _shape_of(asked), is_full


def _shape_of(asked: argparse.Namespace) -> WideShape:
    """The full size's, but what was asked. Keys are twice the rows of a batch."""
    full = SHAPES[Size.FULL]
    rows, seconds = asked.rows or full.rows, asked.seconds or full.bounds.seconds
    return replace(
        full,
        tasks=tuple(asked.tasks or full.tasks),
        widths=tuple(asked.widths or full.widths),
        rows=rows,
        keys=asked.keys or 2 * rows,
        calls=asked.calls or full.calls,
        slow_calls=min(asked.calls or full.slow_calls, full.slow_calls),
        rounds=asked.rounds or full.rounds,
        slow_rounds=asked.rounds or full.slow_rounds,
        bounds=replace(full.bounds, seconds=seconds),
        java_bounds=replace(full.java_bounds, seconds=seconds),
        java=_java_parts(full, asked.java_columns, asked.rounds),
    )


def _java_parts(full: WideShape, columns: int | None, rounds: int | None) -> dict[str, JavaPart]:
    """columns: of the widest table that Java is given, where that was asked."""
    parts = {
        task: replace(part, rounds=min(part.rounds, rounds or part.rounds))
        for task, part in full.java.items()
    }
    if columns is None:
        return parts
    why = "no more was asked for" if columns else "not run: it was not asked for"
    return {task: replace(part, columns=columns, why=why) for task, part in parts.items()}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
