"""Writers that were overtaken: commits of others, and compactions of them, between their start and their commit.

A writer that owns its columns never loses an update (docs/decisions/0007-numbers-of-merged-rows.md).
"""

from __future__ import annotations

import random
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import widetable as wt

SCHEMA = pa.schema([("k", pa.int64()), ("a", pa.int64()), ("b", pa.int64())])
PARTIAL = {"merge-engine": "partial-update", "write-only": "true"}
WRITERS, KEYS = 3, 4


def _late_commit(
    path: Path, options: dict[str, str], overtaking: dict[str, Any], compacts: bool
) -> list[Any]:
    """A writer of a=1 starts after a=0 is in, is overtaken by a commit and maybe a compaction, and commits."""
    table = wt.Catalog(str(path)).create_table("db.t", SCHEMA, primary_key=["k"], options=options)
    table.write(pa.Table.from_pylist([{"k": 1, "a": 0}]))
    late = table.new_writer(["k", "a"])
    late.write(pa.Table.from_pylist([{"k": 1, "a": 1}]))
    table.write(pa.Table.from_pylist([{"k": 1, **overtaking}]))
    if compacts:
        table.compact(full=True)
    table.commit_append(late.finish())
    rows: list[Any] = table.scan().to_arrow().to_pylist()
    return rows


@pytest.mark.parametrize("compacts", [False, True])
def test_an_overtaken_update_of_own_columns_is_not_lost(tmp_path: Path, compacts: bool) -> None:
    assert _late_commit(tmp_path, PARTIAL, {"b": 5}, compacts) == [{"k": 1, "a": 1, "b": 5}]


@pytest.mark.parametrize("grouped", [False, True])
@settings(max_examples=settings().max_examples // 3)
@given(seed=st.integers(0, 2**32 - 1))
def test_writers_of_own_columns_see_all_their_updates(grouped: bool, seed: int) -> None:
    """Each writer commits in the order in which it starts; starts, commits and compactions of all interleave.

    The table must be what each writer's own last values say. Sequences of groups are all equal: only the order counts.
    """
    rng = random.Random(seed)
    columns = [("k", pa.int64()), ("pad", pa.binary())]
    columns += [(f"{c}{w}", pa.int64()) for w in range(WRITERS) for c in "sv"]
    schema = pa.schema(columns)
    options = PARTIAL | {"num-sorted-run.compaction-trigger": "2", "num-levels": "6"}
    if grouped:
        options |= {f"fields.s{w}.sequence-group": f"v{w}" for w in range(WRITERS)}
    expected: dict[int, dict[str, Any]] = {}
    started: dict[int, tuple[Any, list[dict[str, Any]]]] = {}
    with TemporaryDirectory() as folder:
        table = wt.Catalog(folder).create_table("db.t", schema, primary_key=["k"], options=options)
        # A base too large to be picked along with what comes: compactions merge the newer runs by themselves.
        for key in range(KEYS):
            expected[key] = dict.fromkeys(schema.names) | {"k": key, "pad": rng.randbytes(20_000)}
        table.write(
            pa.Table.from_pylist(list(expected.values()), schema=schema).select(["k", "pad"])
        )
        table.compact(full=True)
        for step in range(40):
            writer = rng.randrange(WRITERS)
            if rng.random() < 0.3:
                table.compact(full=rng.random() < 0.1)
            elif writer in started:
                late, rows = started.pop(writer)
                table.commit_append(late.finish())
                for row in rows:
                    expected[row["k"]].update(row)
                _check(table, expected)
            else:
                keys = rng.sample(range(KEYS), rng.randint(1, KEYS))
                rows = [{"k": k, f"s{writer}": 1, f"v{writer}": step} for k in keys]
                late = table.new_writer(["k", f"s{writer}", f"v{writer}"])
                late.write(
                    pa.Table.from_pylist(rows, schema=pa.schema([schema.field(n) for n in rows[0]]))
                )
                started[writer] = late, rows
        for late, _ in started.values():
            late.abort()
        table.compact(full=True)
        _check(table, expected)


def _check(table: wt.Table, expected: dict[int, dict[str, Any]]) -> None:
    rows = {row["k"]: row for row in table.scan().to_arrow().to_pylist()}
    assert rows == expected
