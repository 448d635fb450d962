"""One scenario carried out: a row of the covering array is lived through, and read as it says after each step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Final

from tests.pairs.compared import check_rows
from tests.pairs.dimensions import FOLLOWERS, OF_SPARK
from tests.pairs.drawn_rows import KEY, KEYS, condition_on_values
from tests.pairs.environments import in_a_new_process, of_life, read_in
from tests.pairs.followed import Followed
from tests.pairs.life import Life
from tests.pairs.other_clients import NOBODY, Others
from tests.pairs.reading import CONDITION, Request
from tests.pairs.steps import due
from tests.support.models.model import Row
from tests.support.models.random_table import texts

_SPARK_READS: Final = 0.3


def play(row: Row, rng: Random, folder: Path, others: Others = NOBODY) -> None:
    """Raises AssertionError for a reader that says something else than the model, with the steps until then."""
    with of_life(row["environment"], folder, others.server) as warehouse:
        life = Life(row, rng, warehouse, others)
        with _told(life):
            life.create()
            _live(life, Followed(life) if row["reader"] in FOLLOWERS else None, due(life))


def _live(life: Life, followed: Followed | None, steps: Sequence[Callable[[], None]]) -> None:
    """All of them, and the end."""
    for number, step in enumerate(steps, 1):
        step()
        # A process for each reading takes its time.
        if life.row["environment"] != "optimised":
            check(life, followed)
        if life.row["environment"] == "restart":
            in_a_new_process(lambda: _go_on(life, followed, steps[number:]))  # noqa: B023
            return
    life.end()
    check(life, followed, at_end=True)
    if followed is not None:
        followed.check()


def _go_on(life: Life, followed: Followed | None, steps: Sequence[Callable[[], None]]) -> None:
    """In another process."""
    with _told(life):
        life.open()
        _live(life, followed, steps)


def check(life: Life, followed: Followed | None, *, at_end: bool = False) -> None:
    """What the scenario's reader is given, and what a plain scan is."""
    row, its_reader = life.row, _due(life, at_end=at_end)
    if followed is None:
        at_barrier = ["barrier"] if life.at_barriers else []
        for reader in dict.fromkeys(["scan", *its_reader, *at_barrier]):
            request, expected = _asked(life, reader)
            theirs = life.others.readers.get(reader)
            rows = texts(theirs(request)) if theirs else read_in(row["environment"], request)
            check_rows(reader, rows, texts(expected))
    elif its_reader:
        followed.look()


def _due(life: Life, *, at_end: bool) -> list[str]:
    """The scenario's reader, where it reads now. Spark takes its time: it reads behind some of the steps."""
    reader, row = life.row["reader"], life.row
    if reader in OF_SPARK["reader"]:
        is_due = life.rng.random() < _SPARK_READS
    else:
        # It passes over level 0 there, as Java does (test_pypaimon_differs).
        waits = row["engine"] == "first-row" or row["vectors"] != "none"
        is_due = reader != "pypaimon" or not waits
    return [reader] if is_due or at_end else []


def _asked(life: Life, reader: str) -> tuple[Request, list[Row]]:
    """What the reader is asked for, and what it must say."""
    table, rows = life.table, life.model.rows()
    columns, snapshot, barrier, condition = ["k", "c", "a"], None, None, CONDITION
    if reader in ("columns and condition", "spark condition"):
        rows = [{name: row[name] for name in columns} for row in rows if row["k"] == 1]
    elif reader == "condition on values":
        condition, rows = condition_on_values(life.rng, life.names, rows)
    elif reader == "time travel" or (reader == "spark source" and life.rng.random() < 0.5):
        snapshot = life.rng.choice([one.id for one in table.snapshots()])
        rows = life.past[snapshot].then.rows()
    elif reader == "barrier":
        kept = {one.id for one in table.snapshots()}
        barrier = life.rng.choice([b for b, (id, _) in life.at_barriers.items() if id in kept])
        rows = life.at_barriers[barrier][1].rows()
    path = table._paths.shared_root
    keys = [{name: key[name] for name in KEY} for key in KEYS]
    return Request(reader, path, table.branch, keys, columns, snapshot, barrier, condition), rows


@contextmanager
def _told(life: Life) -> Iterator[None]:
    """An error says what was done before it."""
    try:
        yield
    except Exception as error:
        plain = {name: value for name, value in life.row.items() if value not in ("none", "plain")}
        error.add_note(f"{plain}\nsteps: {', '.join(life.steps)}")
        raise
