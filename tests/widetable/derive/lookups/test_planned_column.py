"""Lookup joins that were planned before fields of the joined columns changed, or pin a snapshot from before that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from widetable.derive.lookups.join_plan import JoinArguments
from widetable.derive.lookups.joined_tables import LookupJoin, new_lookup_join
from widetable.derive.lookups.pinned_join import PinnedJoin

LEFT = pa.table({"id": pa.array([10], pa.int64()), "k": pa.array([1], pa.int64())})
ROW = {"a": 1, "b": 2}


@pytest.fixture
def nested(tmp_path: Path) -> wt.Table:
    columns = {"k": "INT", "v": "ROW<a INT, b INT>", "l": "ARRAY<ROW<a INT, b INT>>"}
    columns |= {"m": "MAP<STRING, ROW<a INT, b INT>>"}
    table = wt.Catalog(tmp_path).create_table("db.nested", columns, primary_key=["k"])
    row = {"k": 1, "v": ROW, "l": [ROW, None], "m": [("x", ROW)]}
    table.write(pa.Table.from_pylist([row], table.arrow_schema))
    return table


def nested_change(**changes: Any) -> dict[str, Any]:
    """The same of all columns; a name or a change of a name that begins with `.`."""
    outer = ("v", "l.element", "m.value")
    found: dict[str, Any] = {}
    for what, given in changes.items():
        if isinstance(given, dict):
            found[what] = {f"{each}.{name}": new for each in outer for name, new in given.items()}
        else:
            found[what] = [f"{each}.{name}" for each in outer for name in given]
    return found


def joined_nested(planned: LookupJoin) -> dict[str, Any]:
    (rows,) = PinnedJoin(planned, planned.newest().pin).joined(LEFT.to_batches())
    (row,) = rows.to_pylist()
    return {name: row[name] for name in ("v", "l", "m")}


def values_of(row: dict[str, Any]) -> dict[str, Any]:
    return {"v": row, "l": [row, None], "m": [("x", row)]}


def planned_nested(table: wt.Table) -> LookupJoin:
    return new_lookup_join(LEFT.schema, table.path, JoinArguments(["k"]))


def rewrite(table: wt.Table) -> None:
    """A snapshot with the schema of now."""
    table.compact(full=True)
    table.write(table.scan().to_arrow())


def test_fields_are_followed_to_new_names(tmp_path: Path, nested: wt.Table) -> None:
    planned = planned_nested(nested)
    change = nested_change(rename_columns={"a": "b", "b": "a"}, change_types={"a": pa.int64()})
    wt.Catalog(tmp_path).alter_table("db.nested", **change, move_columns={"v.b": "first"})
    later = planned_nested(nested)  # which pins a snapshot of before
    assert joined_nested(later) == values_of({"b": 1, "a": 2})
    rewrite(nested)
    assert joined_nested(planned) == values_of(ROW)


def test_a_field_that_was_made_again_is_not_the_one_of_before(
    tmp_path: Path, nested: wt.Table
) -> None:
    planned = planned_nested(nested)
    catalog = wt.Catalog(tmp_path)
    catalog.alter_table("db.nested", **nested_change(drop_columns=["b"]))
    added = [pa.field(f"{each}.b", pa.int32()) for each in ("v", "l.element", "m.value")]
    catalog.alter_table("db.nested", add_columns=added)
    assert joined_nested(planned_nested(nested)) == values_of({"a": 1, "b": None})
    rewrite(nested)
    with pytest.raises(wt.NotFoundError, match=r"'v\.b' of the joined table.*no such field"):
        joined_nested(planned)
