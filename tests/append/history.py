"""A random history of an append table: after each step the table has the rows of a list in Python, bit by bit.

At the end every law of the audit holds, and the changes are what was appended.
"""

from __future__ import annotations

import random

import widetable as wt
from tests.append.model import Model, check, frozen, rows_of
from tests.append.steps import STEPS


def run_history(table: wt.Table, rng: random.Random, kind: str, steps: int) -> None:
    """Take random steps from an empty table of a kind, wherever it lies."""
    model = Model(rng)
    for _ in range(steps):
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
