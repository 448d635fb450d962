"""Changes of ranges of snapshots: what they hold, in which order, and which ranges there are."""

from __future__ import annotations

import itertools
import json
import pickle
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.faults.counting_file_io import CountingFileIO
from tests.support.models.plain_rows import plain
from widetable.read.stream_plan import Piece

FIXTURES = Path(__file__).resolve().parent.parent.parent / "fixtures"
TABLES = {
    f"{each['warehouse']}/{each['table']}": each
    for each in json.loads((FIXTURES / "fixtures.json").read_text(encoding="utf-8"))["tables"]
}
READABLE = sorted(TABLES)

KEY = pa.field("k", pa.int64(), nullable=False)
COLUMNS = [KEY, pa.field("a", pa.int64()), pa.field("b", pa.string())]
Change = tuple[str, dict[str, Any]]


def create(folder: Path, options: Mapping[str, str] | None = None, **how: Any) -> wt.Table:
    return wt.Catalog(str(folder)).create_table(
        "db.t",
        pa.schema(how.pop("columns", COLUMNS)),
        primary_key=how.pop("key", ["k"]),
        options={"widetable.fsync": "false", "write-only": "true", **(options or {})},
        **how,
    )


def keyed(keys: Sequence[int] | range, **columns: Any) -> pa.Table:
    return pa.table({"k": pa.array(list(keys), pa.int64()), **columns})


def emitted(changes: pa.Table) -> list[Change]:
    return [(row.pop("_row_kind"), plain(row)) for row in changes.to_pylist()]


def emitted_keys(changes: pa.Table) -> list[tuple[str, int]]:
    return [(kind, row["k"]) for kind, row in emitted(changes)]


# What other clients wrote


def fixture_table(name: str) -> wt.Table:
    warehouse, _, table = name.partition("/")
    return wt.Catalog(str(FIXTURES / warehouse)).table(table)


def fixture_changes(name: str) -> dict[int, list[Change]]:
    """By snapshot, as pypaimon gave them, or Java where pypaimon refuses the table."""
    expected = TABLES[name]
    if "changelog" not in expected:
        found = expected["java_changelog"]
    else:
        found = [(one["snapshot"], one["op"], one["row"]) for one in expected["changelog"]]
    if name == "wh_java/fx.all_types":  # pypaimon loses the nanoseconds of changes, Java does not
        (java,) = (row for _, _, row in expected["java_changelog"] if row["k"] == 1)
        found = [
            (at, kind, {**row, "c_ts9": java["c_ts9"]} if row["k"] == 1 else row)
            for at, kind, row in found
        ]
    changes: dict[int, list[Change]] = {}
    for snapshot, kind, row in found:
        changes.setdefault(snapshot, []).append((kind, row))
    return changes


def by_key(changes: Sequence[Change], key: Sequence[str]) -> dict[str, list[Change]]:
    found: dict[str, list[Change]] = {}
    for kind, row in changes:
        found.setdefault(json.dumps([row[name] for name in key]), []).append((kind, row))
    return found


@pytest.mark.parametrize("name", READABLE)
def test_changelogs_of_other_clients(name: str) -> None:
    table, expected = fixture_table(name), fixture_changes(name)
    key = table.schema.primary_keys
    for snapshot in table.snapshots():
        changes = emitted(table.changes(snapshot.id - 1, snapshot.id))
        # Those clients give buckets in no order.
        assert by_key(changes, key) == by_key(expected.get(snapshot.id, []), key)


# With their commits


def test_changes_say_in_which_commit_they_came(tmp_path: Path) -> None:
    table = create(tmp_path, {"changelog-producer": "lookup", "write-only": "false"})
    for number in range(3):
        table.write(keyed([1, 2 + number], a=[number, number]))
    last = table.snapshots()[-1].id
    plain_changes = table.changes(0, last, ["k", "a"])
    found = table.changes(0, last, ["k", "a"], commit_columns=True)
    assert found.column_names == ["k", "a", "_row_kind", "_snapshot_id", "_commit_time"]
    assert found.drop_columns(["_snapshot_id", "_commit_time"]).equals(plain_changes)
    times = {snapshot.id: snapshot.time_millis for snapshot in table.snapshots()}
    pairs = zip(
        found["_snapshot_id"].to_pylist(),
        found["_commit_time"].cast(pa.int64()).to_pylist(),
        strict=True,
    )
    assert all(times[id] == millis for id, millis in pairs)
    by_range = [
        (id, change)
        for id in range(1, last + 1)
        for change in emitted(table.changes(id - 1, id, ["k", "a"]))
    ]
    assert (
        list(zip(found["_snapshot_id"].to_pylist(), emitted(plain_changes), strict=True))
        == by_range
    )
    assert table.changes(1, 1, commit_columns=True).num_rows == 0


def test_a_column_of_the_name_of_a_commit_column(tmp_path: Path) -> None:
    table = create(tmp_path, columns=[KEY, pa.field("_snapshot_id", pa.int64())])
    table.write(keyed([1]))
    assert table.changes(0, 1, ["k"], commit_columns=True)["_snapshot_id"].to_pylist() == [1]
    with pytest.raises(wt.InvalidError, match="_snapshot_id"):
        table.changes(0, 1, commit_columns=True)


# Without a producer


def test_without_a_producer_appends_are_emitted_as_they_were_written(tmp_path: Path) -> None:
    table = create(tmp_path, {"merge-engine": "partial-update", "ignore-delete": "true"})
    table.write(keyed([2, 1], a=[2, 1]))
    table.write(keyed([2], b=["x"]))
    assert emitted(table.changes(0, 2)) == [
        ("+I", {"k": 1, "a": 1, "b": None}),
        ("+I", {"k": 2, "a": 2, "b": None}),
        ("+I", {"k": 2, "a": None, "b": "x"}),
    ]


def test_row_kinds_come_with_the_rows(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.write(
        keyed([1, 2, 3, 4], a=[1, 2, 3, 4], b=list("abcd"), _row_kind=["+I", "-U", "+U", "-D"])
    )
    changes = table.changes(0, 1)
    assert emitted_keys(changes) == [("+I", 1), ("-U", 2), ("+U", 3), ("-D", 4)]
    assert changes.schema == table.arrow_schema.append(
        pa.field("_row_kind", pa.string(), nullable=False)
    )


def test_compactions_and_overwrites_emit_nothing(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.write(keyed([1], a=[1], b=["x"]))
    table.write(keyed([1], a=[2], b=["y"]))
    table.compact(full=True)
    table.overwrite(keyed([5], a=[5], b=["z"]))
    table.write(keyed([6], a=[6], b=["w"]))
    assert [s.commit_kind for s in table.snapshots()] == [
        "APPEND",
        "APPEND",
        "COMPACT",
        "OVERWRITE",
        "APPEND",
    ]
    assert emitted_keys(table.changes(0, 5)) == [("+I", 1), ("+I", 1), ("+I", 6)]


def test_a_new_producer_changes_nothing_of_what_is_past(tmp_path: Path) -> None:
    table = create(tmp_path, {"write-only": "false"})
    table.write(keyed([1], a=[1], b=["x"]))
    table.compact(full=True)
    wt.Catalog(str(tmp_path)).alter_table("db.t", set_options={"changelog-producer": "lookup"})
    table.write(keyed([1], a=[2], b=["y"]))
    last = table.snapshots()[-1].id
    assert [(kind, row["a"]) for kind, row in emitted(table.changes(0, last))] == [
        ("+I", 1),
        ("-U", 1),
        ("+U", 2),
    ]
    wt.Catalog(str(tmp_path)).alter_table("db.t", set_options={"changelog-producer": "none"})
    table.write(keyed([1], a=[3], b=["z"]))
    assert [(kind, row["a"]) for kind, row in emitted(table.changes(0, last + 1))] == [
        ("+I", 1),
        ("-U", 1),
        ("+U", 2),
        ("+I", 3),
    ]


# Order


def write_in_tasks(table: wt.Table, parts: Sequence[pa.Table]) -> None:
    """One commit by as many tasks as there are parts; the messages come in the reverse order."""
    base = table.sequence_base()
    messages = []
    for task, part in enumerate(parts):
        with table.new_writer(
            part.schema.names, task=task, tasks=len(parts), sequence_base=base
        ) as writer:
            writer.write(part)
            messages.append(writer.finish())
    table.commit_append([message for found in reversed(messages) for message in found])


@pytest.mark.parametrize("tasks", [1, 2, 7])
def test_order_does_not_depend_on_the_number_of_tasks(tmp_path: Path, tasks: int) -> None:
    table = create(tmp_path, {"bucket": "2"})
    keys = list(range(1000))
    random.Random(7).shuffle(keys)
    write_in_tasks(
        table,
        [
            keyed(keys[i::tasks], a=keys[i::tasks], b=["x"] * len(keys[i::tasks]))
            for i in range(tasks)
        ],
    )
    changes = table.changes(0, 1)
    found = changes["k"].to_pylist()
    assert sorted(found) == list(range(1000))
    # Two ascending runs: one per bucket.
    assert sum(after < before for before, after in itertools.pairwise(found)) == 1
    one_task = create(tmp_path / "one", {"bucket": "2"})
    write_in_tasks(one_task, [keyed(keys, a=keys, b=["x"] * len(keys))])
    assert changes.equals(one_task.changes(0, 1))


def test_rows_of_one_key_come_in_the_order_of_sequence_numbers(tmp_path: Path) -> None:
    table = create(tmp_path)
    parts = [
        keyed(
            range(0, 50, step),
            a=[step] * len(range(0, 50, step)),
            b=[str(step)] * len(range(0, 50, step)),
        )
        for step in (1, 2, 5)
    ]
    write_in_tasks(table, parts)
    found = [(row["k"], row["a"]) for _, row in emitted(table.changes(0, 1))]
    assert found == sorted(
        ((k, step) for step in (1, 2, 5) for k in range(0, 50, step)),
    )


def test_order_is_snapshot_then_partition_then_key(tmp_path: Path) -> None:
    table = create(
        tmp_path,
        columns=[pa.field("day", pa.date32(), nullable=False), *COLUMNS],
        key=["day", "k"],
        partition_by=["day"],
    )
    days = pa.array([19000, 18000, -5, 18000], pa.int32()).cast(pa.date32())
    for _ in range(2):
        table.write(keyed([1, 9, 4, 2], day=days, a=[0] * 4, b=["x"] * 4))
    one = [(-5, 4), (18000, 2), (18000, 9), (19000, 1)]
    found = table.changes(0, 2)
    assert (
        list(zip(found["day"].cast(pa.int32()).to_pylist(), found["k"].to_pylist(), strict=True))
        == one * 2
    )


def test_any_cut_of_a_range_gives_the_same(tmp_path: Path, rng: random.Random) -> None:
    table = create(tmp_path, {"bucket": "2", "write-only": "false"})
    for commit in range(7):
        keys = rng.sample(range(30), 10)
        table.write(keyed(keys, a=[commit] * 10, b=["x"] * 10))
    last = table.snapshots()[-1].id
    whole = table.changes(0, last)
    for _ in range(5):
        cuts = sorted({0, last, *(rng.randint(0, last) for _ in range(3))})
        parts = [table.changes(start, end) for start, end in itertools.pairwise(cuts)]
        assert pa.concat_tables(parts).equals(whole)


# Columns


def test_columns_come_as_asked_for(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.write(keyed([1, 2], a=[1, 2], b=["x", "y"]))
    assert table.changes(0, 1, columns=["b", "k"]).to_pydict() == {
        "b": ["x", "y"],
        "k": [1, 2],
        "_row_kind": ["+I", "+I"],
    }
    assert table.changes(0, 1, columns=[]).to_pydict() == {"_row_kind": ["+I", "+I"]}
    with pytest.raises(wt.NotFoundError, match="nope"):
        table.changes(0, 1, columns=["nope"])


def test_a_column_with_the_name_of_row_kinds_is_left_out_or_refused(tmp_path: Path) -> None:
    """Of a table that another client made."""
    table = create(tmp_path, columns=[*COLUMNS, pa.field("kinds", pa.string())])
    path = Path(table.path, "schema/schema-0")
    path.write_text(path.read_text().replace('"kinds"', '"_row_kind"'))
    table = wt.Table.open(table.path)
    table.write(keyed([1], a=[1], b=["x"], _row_kind=["-D"]), row_kind="kind")
    with pytest.raises(wt.InvalidError, match="_row_kind"):
        table.changes(0, 1)
    assert table.changes(0, 1, columns=["k"]).to_pydict() == {"k": [1], "_row_kind": ["+I"]}


def test_rows_come_in_the_columns_of_today(tmp_path: Path) -> None:
    table = create(tmp_path, columns=[KEY, pa.field("a", pa.int32()), pa.field("b", pa.string())])
    catalog = wt.Catalog(str(tmp_path))
    table.write(keyed([1], a=pa.array([1], pa.int32()), b=["x"]))
    catalog.alter_table("db.t", rename_columns={"b": "c"})
    catalog.alter_table("db.t", add_columns=[pa.field("b", pa.float64())])
    catalog.alter_table("db.t", change_types={"a": pa.int64()})
    table.write(keyed([2], a=pa.array([2**40]), c=["y"], b=[0.5]))
    assert emitted(table.changes(0, 2)) == [
        ("+I", {"k": 1, "a": 1, "c": "x", "b": None}),
        ("+I", {"k": 2, "a": 2**40, "c": "y", "b": 0.5}),
    ]


# Ranges


@pytest.fixture
def five(tmp_path: Path) -> wt.Table:
    table = create(tmp_path, {"snapshot.num-retained.min": "1"})
    for k in range(5):
        table.write(keyed([k], a=[k], b=["x"]))
    return table


def test_start_is_exclusive_and_end_inclusive(five: wt.Table) -> None:
    assert emitted_keys(five.changes(1, 3)) == [("+I", 1), ("+I", 2)]
    assert five.changes(3, 3).num_rows == 0
    assert five.changes(3, 3).schema == five.changes(0, 5).schema


def test_nothing_of_an_empty_table(tmp_path: Path) -> None:
    table = create(tmp_path)
    assert table.changes(0, 0).num_rows == 0
    with pytest.raises(wt.NotFoundError, match="it has none yet"):
        table.changes(0, 1)


@pytest.mark.parametrize(
    ("start", "end", "message"),
    [
        (3, 2, "end: found 2 of type int; expected 3, the start"),
        (-1, 2, "start: found -1"),
        (0, True, "end: found True"),
        ("0", 2, "start: found the text '0', and no tag has this name"),
    ],
)
def test_a_range_that_is_none_is_refused(
    five: wt.Table, start: Any, end: Any, message: str
) -> None:
    with pytest.raises(wt.InvalidError, match=message):
        five.changes(start, end)


def test_a_range_outside_says_what_is_there(five: wt.Table) -> None:
    with pytest.raises(wt.NotFoundError, match="expected a start from 0 and an end up to 5"):
        five.changes(2, 6)
    # The call itself raises, not only the reading.
    with pytest.raises(wt.NotFoundError, match="expected a start from 0 and an end up to 5"):
        five.change_batches(2, 6)


def test_a_large_range_is_read_batch_by_batch(five: wt.Table) -> None:
    file_io = CountingFileIO()
    batches = wt.Table.open(five.path, file_io=file_io).change_batches(0, 5)
    assert file_io.opened == []
    for read in range(1, 4):
        next(batches)
        assert len(file_io.opened) == read


def test_only_the_columns_asked_for_are_decoded_by_a_reader_that_travels(five: wt.Table) -> None:
    source = five.change_source(["a"])
    step = source.step(2, False)
    (read,) = source.reads(Piece(step, 0, 1))
    (batch,) = pickle.loads(pickle.dumps(read)).to_batches()
    assert batch.to_pydict() == {"a": [1], "_row_kind": ["+I"]}
