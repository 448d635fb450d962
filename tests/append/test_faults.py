"""Append tables on a storage that fails: a step is done or not done as reported, and repeated it counts once."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

import widetable as wt
from tests.append.model import KINDS, Model, check, made
from tests.support.faults.faults import FaultyFileIO
from widetable.commit.snapshots.manifest_cache import MANIFEST_CACHE
from widetable.storage.local import LocalFileIO

ROUNDS = 25


@pytest.mark.parametrize("kind", KINDS)
def test_each_step_is_done_once_whatever_fails(
    tmp_path: Path, rng: random.Random, kind: str
) -> None:
    made(tmp_path, kind, parts=True)
    faulty = FaultyFileIO(LocalFileIO(fsync=False), seed=rng.getrandbits(32), rate=0.05)
    faulty.rate = 0.0
    table = wt.Table.open(tmp_path / "db.db/t", file_io=faulty)
    model, failed = Model(rng), 0
    for identifier in range(ROUNDS):
        faulty.rate = rng.choice([0.02, 0.1, 0.3])
        step = rng.choice([_write, _write, _delete, _update, _compact])
        do, change = step(model, identifier)
        try:
            do(table)
        except wt.WidetableError:
            failed += 1
        faulty.rate = 0.0
        faulty.heal()
        MANIFEST_CACHE.clear()
        clean = wt.Table.open(table.path)
        # Repeated under the same identifier it is done, if it was not; and no row is there twice.
        do(clean)
        change()
        check(clean, model, kind)
    assert failed
    assert clean.audit().findings == ()
    clean.remove_orphan_files(older_than_millis=0)
    check(wt.Table.open(table.path), model, kind)


Call = tuple[Callable[[wt.Table], object], Callable[[], None]]


def _write(model: Model, identifier: int) -> Call:
    rows = [model.whole(row) for row in model.drawn_rows(model.names)]
    return (
        lambda table: table.write(rows, "user", identifier),
        lambda: model.rows.extend(rows),
    )


def _delete(model: Model, identifier: int) -> Call:
    condition = model.condition()

    def change() -> None:
        model.rows = [row for row in model.rows if not condition[1](row)]

    return lambda table: table.delete(condition[0], "user", identifier), change


def _update(model: Model, identifier: int) -> Call:
    condition = model.condition()

    def change() -> None:
        model.rows = [row | {"d": 2.5} if condition[1](row) else row for row in model.rows]

    return lambda table: table.update(condition[0], {"d": 2.5}, "user", identifier), change


def _compact(model: Model, identifier: int) -> Call:
    def do(table: wt.Table) -> None:
        if table.schema.has_free_rows and identifier % 2:
            table.sort_compact(["n", "s"])
        else:
            table.compact(full=True)

    return do, lambda: None
