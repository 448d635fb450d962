"""A transaction leaves a table of the source empty if it ends with a truncate: a source logs what is done to it."""

from __future__ import annotations

import random

from tests.cdc.applying.written_changes import LoggingSource, batches, relation
from widetable_cdc.evolution.emptied import emptied_by


def test_transactions_that_truncate_and_leave_no_row(rng: random.Random) -> None:
    """Others cannot write in between, so a table is empty at the end of a transaction that truncated it if it has no
    row then. Deletes of all rows do not count: the files are as they were.
    """
    source = LoggingSource(relation("id", "name"), {"0": {"id": "0", "name": "x"}})
    empty, key = set(), 0
    for xid in range(900, 960):
        source.xid = xid
        has_truncated = False
        for _ in range(rng.randint(1, 4)):
            what = rng.choice(["insert", "truncate", "add"])
            if what == "truncate":
                source.truncate()
                has_truncated = True
            elif what == "insert":
                key += 1
                source.insert({"id": str(key), "name": "y"})
            elif len(source.form.columns) < 6:
                source.add_column(f"c{key}_{len(source.form.columns)}", None)
        if has_truncated and not source.rows:
            empty.add(xid)
    assert emptied_by(batches(source.changes)) == empty


def test_without_a_truncate_none_does() -> None:
    source = LoggingSource(relation("id"), {})
    assert emptied_by([]) == frozenset()
    source.insert({"id": "1"})
    source.delete("1")
    assert emptied_by(batches(source.changes)) == frozenset()
