"""Where tables and jobs stand in the drawing: from left to right, nothing on anything else, all within its size."""

from __future__ import annotations

import random
from itertools import combinations

import widetable as wt
from widetable_meta.drawing import JOB_WIDTH, MAX_WRITERS, TABLE_WIDTH, drawing_of

Box = tuple[int, int, int, int]


def table(name: str, layer: int, writers: int = 1) -> wt.TableProgress:
    waited = tuple(wt.WaitedWriter(f"w{at}", "root", 10, True, at == 0) for at in range(writers))
    return wt.TableProgress(name, layer, "Root", 10, 10, None, 5, waited)


def job(name: str, sources: list[str], sinks: list[str]) -> wt.Job:
    kind = "derived" if sources else "root"
    of = tuple(wt.JobSink(sink, None) for sink in sinks)
    return wt.Job(name, kind, "running", tuple(sources), of, "1")


def delay(name: str, share: int | None, cost: int | None = None) -> wt.JobDelay:
    wait = None if cost is None or share is None else share - cost
    return wt.JobDelay(10, name, "x", None, 100, wait, cost, share)


def overlap(one: Box, other: Box) -> bool:
    (x, y, width, height), (x2, y2, width2, height2) = one, other
    return x < x2 + width2 and x2 < x + width and y < y2 + height2 and y2 < y + height


def test_nothing_stands_on_anything_else(rng: random.Random) -> None:
    for _ in range(50):
        layers = [
            [f"t{at}.{n}" for n in range(rng.randint(1, 5))] for at in range(rng.randint(1, 4))
        ]
        tables = [
            table(name, at, rng.randint(0, 8)) for at, names in enumerate(layers) for name in names
        ]
        jobs = [job(f"root {at}", [], rng.sample(layers[0], 1)) for at in range(rng.randint(0, 5))]
        for at, names in enumerate(layers[1:]):
            jobs += [job(f"to {name}", rng.sample(layers[at], 1), [name]) for name in names]
        drawing = drawing_of(tables, jobs, {})
        boxes = [(one.x, one.y, TABLE_WIDTH, one.height) for one in drawing.tables]
        boxes += [(one.x, one.y, JOB_WIDTH, one.height) for one in drawing.jobs]
        assert len(boxes) == len(tables) + len(jobs)
        assert [pair for pair in combinations(boxes, 2) if overlap(*pair)] == []
        assert all(x >= 0 and y >= 0 for x, y, _, _ in boxes)
        assert all(x + width <= drawing.width for x, _, width, _ in boxes)
        assert all(y + height <= drawing.height for _, y, _, height in boxes)
        left = {one.progress.table: one.x for one in drawing.tables}
        for drawn in drawing.jobs:
            assert all(left[source] < drawn.x for source in drawn.job.sources)
            assert all(left[sink] > drawn.x for sink in drawn.job.tables)


def test_a_table_may_have_any_name() -> None:
    tables = [table(name, 0) for name in ("aa.x", "into a.b")]
    tables += [table(f"a.{name}", 1) for name in "bcd"]
    jobs = [job(f"j{name}", ["aa.x"], [f"a.{name}"]) for name in "bcd"]
    at = {one.progress.table: one.y for one in drawing_of(tables, jobs, {}).tables}
    assert sorted(("a.d", "a.c", "a.b"), key=lambda name: at[name]) == ["a.b", "a.c", "a.d"]


def test_the_slowest_job_is_marked_with_its_lines() -> None:
    tables = [table("x", 0), table("y", 1), table("z", 1)]
    jobs = [job("q", ["x"], ["y"]), job("r", ["x"], ["z"]), job("clicks", [], ["x"])]
    drawing = drawing_of(tables, jobs, {"q": delay("q", 1500, 1400), "r": delay("r", 4100)})
    told = {one.job.name: (one.said, one.is_slowest) for one in drawing.jobs}
    assert told == {
        "q": ("1.4 s, waited 100 ms", False),
        "r": ("took 4.1 s", True),
        "clicks": ("running", False),
    }
    assert [line.is_slowest for line in drawing.lines].count(True) == 2
    assert len(drawing.lines) == 5


def test_those_who_are_missing_come_first_and_many_are_counted() -> None:
    (drawn,) = drawing_of([table("x", 0, MAX_WRITERS + 3)], [], {}).tables
    assert (drawn.writers[0].name, drawn.writers[0].is_missing) == ("w0", True)
    assert (len(drawn.writers), drawn.more) == (MAX_WRITERS, 3)


def test_what_jobs_name_and_is_not_there_is_left_out() -> None:
    gone = [job("q", ["gone"], ["x"]), job("r", ["x"], ["gone"])]
    drawing = drawing_of([table("x", 1)], gone, {})
    assert [one.job.name for one in drawing.jobs] == ["q"]
    assert len(drawing.lines) == 1
    assert drawing_of([], [], {}).tables == ()
