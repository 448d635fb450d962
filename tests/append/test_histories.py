"""Random histories of append tables: after each step the table has the rows of a list in Python, bit by bit, and at the
end every law of the audit holds and the changes are what was appended.

WIDETABLE_APPEND_HISTORIES: how many histories of each kind (default 3).
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

import widetable as wt
from tests.append.model import KINDS, Model, check, frozen, made, rows_of
from tests.append.steps import STEPS

HISTORIES = int(os.environ.get("WIDETABLE_APPEND_HISTORIES", "3"))


@pytest.mark.parametrize("attempt", range(HISTORIES))
@pytest.mark.parametrize("kind", KINDS)
def test_a_table_has_the_rows_of_its_history(
    tmp_path: Path, rng: random.Random, kind: str, attempt: int
) -> None:
    tiny = {"target-file-size": "4 kb"} if attempt % 2 else {}
    table = made(tmp_path, kind, parts=rng.random() < 0.5, **tiny)
    model = Model(rng)
    for _ in range(30):
        step = rng.choice(STEPS)
        step(table, model)
        check(table, model, kind)
    assert table.audit().findings == ()
    if model.appended:
        _check_changes(table, model)


def _check_changes(table: wt.Table, model: Model) -> None:
    """Every append is in the changes once, by the columns that are still there."""
    expected = [
        frozen({name: row.get(name) for name in model.names})
        for rows in model.appended.values()
        for row in rows
    ]
    changes = table.changes(0, table.snapshots()[-1].id, mode="delta")
    assert set(changes.column("_row_kind").to_pylist()) <= {"+I"}
    actual = [frozen(row) for row in rows_of(changes.drop_columns(["_row_kind"]))]
    assert sorted(actual) == sorted(expected)
