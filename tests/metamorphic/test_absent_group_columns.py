"""With `widetable.absent-group-columns=null` a group's column that a batch does not have is null in it: rows and
changelog are those of a table to which everybody writes these nulls, whatever else happens to the tables.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt

ABSENT = "widetable.absent-group-columns"
COLUMNS = pa.schema(
    {"k": pa.int64(), "s": pa.int64(), "a": pa.int64(), "t": pa.int64(), "b": pa.int64()}
)
BEFORE = {"fields.s.sequence-group": "a", "fields.t.sequence-group": "b"}
AFTER = {"fields.s.sequence-group": "a,new,newer"}
PLAIN = {"merge-engine": "partial-update", "widetable.fsync": "false", **BEFORE}


def create(folder: Path, options: dict[str, str], name: str = "db.t") -> wt.Table:
    return wt.Catalog(folder).create_table(
        name, COLUMNS, primary_key=["k"], options={**PLAIN, **options}
    )


def alter(folder: Path, name: str = "db.t", **options: str) -> wt.Table:
    return wt.Catalog(folder).alter_table(
        name,
        add_columns={"new": pa.int64(), "newer": pa.string()},
        set_options={**AFTER, **options},
    )


def rows_of(rng: random.Random, table: wt.Table) -> pa.Table:
    """Some columns of one group or both, the sequences among them, and kinds now and then. A -D has a sequence: others
    are refused.
    """
    count = rng.randint(1, 12)
    numbers = [*range(6), None]
    has_sequence = [False] * count
    columns: dict[str, Any] = {"k": [rng.randrange(8) for _ in range(count)]}
    for group in rng.sample(table.schema.sequence_groups, rng.randint(1, 2)):
        protected = [name for name in group.columns if name not in group.sequence]
        for name in (*group.sequence, *rng.sample(protected, rng.randint(0, len(protected)))):
            kind = table.arrow_schema.field(name).type
            values = rng.choices(numbers, k=count)
            columns[name] = pa.array(values).cast(kind)
            if name in group.sequence:
                has_sequence = [
                    a or b is not None for a, b in zip(has_sequence, values, strict=True)
                ]
    if rng.random() < 0.3:
        columns["_row_kind"] = [
            rng.choice(["+I", "+U", "-U", "-D" if has else "-U"]) for has in has_sequence
        ]
    return pa.table(columns)


def with_nulls(rows: pa.Table, table: wt.Table) -> pa.Table:
    """The same with every column of the groups that the rows have a column of."""
    for group in table.schema.sequence_groups:
        missing = [name for name in group.columns if name not in rows.column_names]
        for name in missing if len(missing) < len(group.columns) else ():
            kind = table.arrow_schema.field(name).type
            rows = rows.append_column(name, pa.nulls(len(rows), kind))
    return rows


@pytest.mark.parametrize("producer", ["none", "input", "lookup"])
@pytest.mark.parametrize("number", range(2))
def test_absent_is_as_if_null_was_written(
    tmp_path: Path, producer: str, number: int, rng: random.Random
) -> None:
    options = {
        "changelog-producer": producer,
        "widetable.level0-columns": rng.choice(["written", "all"]),
    }
    if rng.random() < 0.5:
        options["partial-update.remove-record-on-sequence-group"] = "s"
    absent = create(tmp_path, {**options, ABSENT: "null"})
    explicit = create(tmp_path, options, "db.explicit")
    altered = rng.randrange(12)
    for step in range(12):
        if step == altered:
            alter(tmp_path)
            alter(tmp_path, "db.explicit")
        rows = rows_of(rng, absent)
        absent.write(rows)
        explicit.write(with_nulls(rows, explicit))
        for table in (absent, explicit):
            if rng.random() < 0.3:
                table.compact(full=rng.random() < 0.5)
    assert changes_of(absent) == changes_of(explicit)
    for _ in range(2):
        found, expected = absent.scan().to_arrow(), explicit.scan().to_arrow()
        assert found.sort_by("k") == expected.sort_by("k")
        absent.compact(full=True)
    assert absent.audit().ok


def changes_of(table: wt.Table) -> list[Any]:
    """By key, in their order."""
    if table.schema.options["changelog-producer"] == "none":
        return []
    changes = table.changes(0, table.snapshots()[-1].id).to_pylist()
    return sorted(changes, key=lambda row: row["k"])


def test_a_running_writer_goes_on_after_a_column_joined_its_group(tmp_path: Path) -> None:
    table = create(tmp_path, {"changelog-producer": "lookup"})
    rows = pa.table({"k": [1, 2], "s": [1, 1], "a": [10, 20]})
    table.write(rows)
    running = table.new_writer(rows.column_names)
    running.write(rows.set_column(1, "s", [[2, 2]]))
    alter(tmp_path, **{ABSENT: "null"})
    newer = pa.table({"k": [1, 2], "s": [2, 3], "a": [11, 21], "new": [5, 6], "newer": ["x", "y"]})
    table.write(newer)
    table.commit_append(running.finish())  # its record of key 1 is the later one of two equals
    table.write(pa.table({"k": [2], "s": [4], "a": [22]}))  # the nulls win with their record
    expected = [
        {"k": 1, "s": 2, "a": 10, "new": None, "newer": None},
        {"k": 2, "s": 4, "a": 22, "new": None, "newer": None},
    ]
    columns = ["k", "s", "a", "new", "newer"]
    assert table.scan(columns=columns).to_arrow().sort_by("k").to_pylist() == expected
    folded = {row["k"]: row for row in changes_of(table) if row["_row_kind"] in ("+I", "+U")}
    assert [{name: folded[k][name] for name in columns} for k in (1, 2)] == expected


@pytest.mark.parametrize("option", ["error", "null"])
def test_a_batch_that_would_change_nothing_is_refused(tmp_path: Path, option: str) -> None:
    """Without the group's sequence, whose columns all count."""
    catalog = wt.Catalog(tmp_path)
    options = {"merge-engine": "partial-update", "fields.s,t.sequence-group": "a,b", ABSENT: option}
    table = catalog.create_table("db.t", COLUMNS, primary_key=["k"], options=options)
    for columns in ("a", "b", "s a", "t a b"):
        missing = "'t'" if "s" in columns else "'s'"
        with pytest.raises(wt.InvalidError, match=missing):
            table.write({name: [1] for name in ["k", *columns.split()]})
    assert table.snapshots() == []


def test_without_the_option_a_batch_must_have_the_whole_group(tmp_path: Path) -> None:
    """The message names the option."""
    table = create(tmp_path, {})
    rows = pa.table({"k": [1], "s": [1], "a": [1]})
    table.write(rows)
    alter(tmp_path)
    with pytest.raises(wt.InvalidError, match=f"'new', 'newer'.*{ABSENT}"):
        table.write(rows)
