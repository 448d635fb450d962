"""Tables whose columns have fields, altered by pypaimon and by us in turn: both read the same rows."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import widetable as wt
from tests.interop.alter_steps import alter_steps
from tests.interop.conftest import PypaimonProcess
from tests.interop.test_pypaimon import ours
from tests.support.models.nested_columns import (
    arrow_rows,
    by_key,
    drawn,
    drawn_change,
    new_table,
    plain,
)
from tests.support.models.plain_rows import row_texts
from tests.support.programs.tallies import Note

pytestmark = pytest.mark.interop

KEYS = range(6)


@pytest.mark.parametrize("round_", range(6))
def test_both_read_what_both_altered(
    tmp_path: Path,
    pypaimon_process: PypaimonProcess,
    rng: random.Random,
    round_: int,
    tally: Note,
) -> None:
    columns = new_table(rng)
    catalog = wt.Catalog(str(tmp_path))
    table = catalog.create_table(
        "db.t",
        arrow_rows([], [], columns.parts).schema,
        primary_key=["k"],
        options={"widetable.fsync": "false", "write-only": "true"},
    )
    rows: dict[int, dict[int, object]] = {}
    for step in range(10):
        what = rng.choice(["write", "alter", "alter", "compact"]) if step else "write"
        if what == "write":
            keys = rng.sample(KEYS, rng.randint(1, len(KEYS)))
            records = [{part.number: drawn(rng, part) for part in columns.parts} for _ in keys]
            table.write(arrow_rows(keys, records, columns.parts))
            rows.update(zip(keys, records, strict=True))
        elif what == "compact":
            table.compact(full=rng.random() < 0.5)
        else:
            theirs = rng.random() < 0.5
            change = drawn_change(rng, columns, moves_fields=not theirs, keeps_oldest=True)
            if not theirs:
                catalog.alter_table("db.t", **change.alter)
            elif "move_columns" in change.alter or len(change.alter.get("rename_columns", ())) > 1:
                continue  # neither is one step there
            else:
                steps = alter_steps(change.alter, table.schema.names)
                pypaimon_process.ask(table, alter=steps)
            columns = change.table
        wanted = [
            {"k": key, **{p.name: plain(row.get(p.number), p) for p in columns.parts}}
            for key, row in rows.items()
        ]
        assert by_key(table.scan().to_arrow().to_pylist()) == by_key(wanted)
        assert row_texts(pypaimon_process.ask(table)) == ours(table)
    tally(tables=1, steps=10)
