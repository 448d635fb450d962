"""Random append tables, both ways: pypaimon, by its native engine and by its Python, and widetable write to one table,
widetable deletes, updates, compacts and sorts it, both alter it, and all read the rows that a list in Python has.

Its Python does not read vectors of 64 bits, which are left to Paimon's Java (test_java_append).

WIDETABLE_INTEROP_APPEND_TABLES: how many tables of each kind (default 1). The seed in the head of a run repeats it.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

import widetable as wt
from tests.interop.alter_steps import alter_steps
from tests.interop.append.histories import KINDS, AppendHistory, Other
from tests.interop.append.model import Where
from tests.interop.conftest import NATIVE, PypaimonProcess, _written
from tests.interop.random_histories import table_folder
from tests.support.models.plain_rows import row_texts

pytestmark = pytest.mark.interop

TABLES: Final = int(os.environ.get("WIDETABLE_INTEROP_APPEND_TABLES", "1"))
STEPS: Final = int(os.environ.get("WIDETABLE_INTEROP_APPEND_STEPS", "8"))
_METHODS: Final = {
    "equal": "equal",
    "in": "is_in",
    "isNull": "is_null",
    "lessThan": "less_than",
    "greaterOrEqual": "greater_or_equal",
    "startsWith": "startswith",
}


@dataclass(frozen=True)
class PypaimonReader:
    """options: those of an engine."""

    process: PypaimonProcess
    folder: Path
    options: Mapping[str, str] = field(default_factory=dict)

    def read(self, table: wt.Table, where: Where | None, snapshot: int | None) -> list[str]:
        how: dict[str, Any] = {"options": dict(self.options), "exact": True}
        if snapshot is not None:
            how["snapshot"] = snapshot
        if where is not None:
            values = pa.table({"v": where.column.array(where.values)})
            file = _written(self.folder, values)
            how["where"] = [_METHODS[where.method], where.column.name, file]
        return row_texts(self.process.ask(table, **how))

    def changes(self, table: wt.Table, last: int) -> list[tuple[int, str, str]]:
        how = {"options": dict(self.options), "exact": True}
        return [
            (id, kind, row_texts([row])[0])
            for id, kind, row in self.process.ask(table, changes=[1, last], **how)
        ]


def pypaimon(process: PypaimonProcess, folder: Path, rng: random.Random) -> Other:
    """How pypaimon is the other master of a table; each write is by one of its engines."""

    def write(table: wt.Table, rows: pa.Table) -> None:
        options = rng.choice([{}, NATIVE])
        process.ask(table, write=_written(folder, rows), options=options)

    def alter(table: wt.Table, change: dict[str, Any]) -> None:
        process.ask(table, alter=alter_steps(change, table.schema.names))

    readers = PypaimonReader(process, folder), PypaimonReader(process, folder, NATIVE)
    return Other(readers, write, alter=alter, absent=["TIMESTAMP(0)"], has_null_places=False)


@pytest.mark.parametrize("attempt", range(TABLES))
@pytest.mark.parametrize("kind", [kind for kind in KINDS if "64" not in kind])
def test_all_read_the_rows_that_were_written(
    tmp_path: Path, pypaimon_process: PypaimonProcess, rng: random.Random, kind: str, attempt: int
) -> None:
    with table_folder() as folder:
        other = pypaimon(pypaimon_process, tmp_path, rng)
        AppendHistory.made(folder, rng, kind, other).go(STEPS)


@pytest.mark.parametrize("padding", [0, 101])
def test_files_that_lack_a_column_of_a_condition(
    tmp_path: Path, pypaimon_process: PypaimonProcess, padding: int
) -> None:
    """Only a table of more than a hundred columns has such files: its Python fails on them, its native engine does
    not.
    """
    columns = {"a": "INT", "b": "INT", **{f"c{at}": "INT" for at in range(padding)}}
    options = {"widetable.fsync": "false"}
    table = wt.Catalog(str(tmp_path)).create_table("db.t", columns, options=options)
    table.write([{"a": 1}])
    table.write([{"a": 2, "b": 5}])
    (row,) = pypaimon_process.ask(table, filter=["b", 5], options=NATIVE)
    assert (row["a"], row["b"]) == (2, 5)
    if padding:
        with pytest.raises(AssertionError, match="No match for FieldRef"):
            pypaimon_process.ask(table, filter=["b", 5])
    else:
        assert pypaimon_process.ask(table, filter=["b", 5]) == [row]
