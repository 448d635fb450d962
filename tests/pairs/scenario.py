"""One scenario carried out: a row of the covering array is lived through, and read as it says after each step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from tests.model import Row
from tests.pairs.drawn_rows import KEY, KEYS
from tests.pairs.environments import of_life, read_in
from tests.pairs.followed import Followed
from tests.pairs.life import Life, TheirWrite
from tests.pairs.reading import Request
from tests.random_table import texts


def play(row: Row, rng: Random, folder: Path, theirs: TheirWrite | None = None) -> None:
    """Raises AssertionError for a reader that says something else than the model, with the steps until then."""
    life = Life(row, rng, folder, theirs)
    with of_life(row["environment"]), _told(life):
        life.create()
        followed = Followed(life) if row["reader"] == "follow" else None
        for step in life.due():
            step()
            # A process for each reading takes its time.
            if row["environment"] != "optimised":
                check(life, followed)
        life.end()
        check(life, followed)
        if followed is not None:
            followed.check()


def check(life: Life, followed: Followed | None) -> None:
    """What the scenario's reader is given, and what a plain scan is."""
    row = life.row
    if followed is not None:
        followed.look()
    else:
        at_barrier = ["barrier"] if life.barrier else []
        for reader in dict.fromkeys(["scan", row["reader"], *at_barrier]):
            request, expected = _asked(life, reader)
            assert read_in(row["environment"], request) == texts(expected), reader


def _asked(life: Life, reader: str) -> tuple[Request, list[Row]]:
    """What the reader is asked for, and what it must say."""
    table, rows = life.table, life.model.rows()
    columns, snapshot, barrier = ["k", "c", "a"], None, None
    if reader == "columns and condition":
        rows = [{name: row[name] for name in columns} for row in rows if row["k"] == 1]
    elif reader == "time travel":
        snapshot = life.rng.choice([one.id for one in table.snapshots()])
        rows = life.past[snapshot].then.rows()
    elif reader == "barrier":
        assert life.at_barrier is not None
        barrier, rows = life.barrier, life.at_barrier.rows()
    path = table._paths.shared_root
    keys = [{name: key[name] for name in KEY} for key in KEYS]
    return Request(reader, path, table.branch, keys, columns, snapshot, barrier), rows


@contextmanager
def _told(life: Life) -> Iterator[None]:
    """An error says what was done before it."""
    try:
        yield
    except Exception as error:
        plain = {name: value for name, value in life.row.items() if value not in ("none", "plain")}
        error.add_note(f"{plain}\nsteps: {', '.join(life.steps)}")
        raise
