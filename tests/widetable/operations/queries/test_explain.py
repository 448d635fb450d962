"""`Table.explain`: what it says of a key is what a scan gives, and each of its reasons is true of the records."""

from __future__ import annotations

import json
import pickle
from datetime import datetime, timezone
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import widetable as wt
from tests.support.models.model import compare
from tests.support.models.random_table import data_of, make, stamped_commits, table_specs
from widetable.format.printed_value import printed_rows
from widetable.schema.table_schema import TableSchema

SCHEMA = pa.schema(
    [pa.field("k", pa.int64(), False)]
    + [(name, pa.int64()) for name in ("clicks", "ts", "score", "rank")]
)
GROUPED = {"merge-engine": "partial-update", "fields.ts.sequence-group": "score,rank"}


def create(folder: Path, **options: str) -> wt.Table:
    given = {"bucket": "2", "write-only": "true", "merge-engine": "partial-update"}
    return wt.Catalog(str(folder)).create_table(
        "db.t",
        SCHEMA,
        primary_key=["k"],
        options=given | options,
    )


def write(table: wt.Table, kind: str = "+I", **values: int | None) -> None:
    row = {name: pa.array([value], pa.int64()) for name, value in values.items()}
    table.write(pa.table({**row, "_row_kind": [kind]}))


def said(table: wt.Table, column: str, **how: Any) -> list[str]:
    """The value of key 7, and what each record did to it, the oldest first."""
    explained = next(c for c in table.explain(7, **how).columns if c.name == column)
    events = [f"{event.effect}: {event.why}" for event in explained.events]
    return [f"{explained.value} from {explained.record}", *events]


def test_what_stands_alone_takes_its_last_value(tmp_path: Path) -> None:
    table = create(tmp_path)
    write(table, k=7, ts=1)
    write(table, k=7, clicks=4)
    write(table, k=7, clicks=5)
    write(table, k=7, clicks=None)
    assert said(table, "clicks") == [
        "5 from 3",
        "leaves: written without this column",
        "takes: the last value that is not null",
        "takes: the last value that is not null",
        "leaves: null keeps the value",
    ]
    assert said(table, "rank") == ["None from None", *["leaves: written without this column"] * 4]


def test_a_sequence_group_says_what_was_late(tmp_path: Path) -> None:
    table = create(tmp_path, **GROUPED)
    write(table, k=7, ts=5, score=1, rank=1)
    write(table, k=7, ts=3, score=2, rank=2)
    write(table, k=7, ts=None, score=3, rank=3)
    write(table, k=7, ts=5, score=None, rank=4)
    write(table, "-D", k=7, ts=6, score=None, rank=None)
    assert said(table, "score", as_of=4) == [
        "None from 4",
        "takes: ts = 5 is the first",
        "leaves: late: ts = 3 is below ts = 5 of #1",
        "leaves: ts = null: the group is skipped",
        "takes: ts = 5 is not below ts = 5 of #1",
    ]
    assert said(table, "rank")[0::5] == [
        "None from None",
        "clears: -D with ts = 6 clears the group",
    ]
    assert said(table, "ts")[0::5] == ["6 from 5", "takes: ts = 6 is not below ts = 5 of #4"]
    assert table.explain(7).is_there


def test_a_delete_removes_the_row(tmp_path: Path) -> None:
    table = create(tmp_path, **{"partial-update.remove-record-on-delete": "true"})
    write(table, k=7, clicks=4, rank=1)
    write(table, "-D", k=7)
    assert said(table, "clicks") == [
        "None from None",
        "takes: the last value that is not null",
        "clears: -D removes the row",
    ]
    found = table.explain(7)
    assert pickle.loads(pickle.dumps(found)) == found
    assert not found.is_there
    assert [record.is_there for record in found.records] == [True, False]
    write(table, k=7, clicks=6)
    assert said(table, "clicks")[0] == "6 from 3"
    assert said(table, "rank") == [
        "None from None",
        "takes: the last value that is not null",
        "clears: -D removes the row",
        "leaves: written without this column",
    ]


def test_deduplicate_takes_the_last_record_as_a_whole(tmp_path: Path) -> None:
    table = create(tmp_path, **{"merge-engine": "deduplicate", "sequence.field": "ts"})
    write(table, k=7, clicks=4, ts=2)
    write(table, k=7, clicks=5, ts=1)
    write(table, k=7, ts=2, rank=1)
    taken = "takes: +I wins as a whole, as the last record"
    assert said(table, "clicks") == [
        "None from None",
        taken,
        taken,
        "clears: +I wins as a whole, and was written without this column",
    ]
    assert [r.values["ts"] for r in table.explain(7).records] == [1, 2, 2]


def test_a_retraction_that_is_ignored_says_so(tmp_path: Path) -> None:
    catalog = wt.Catalog(str(tmp_path))
    table = create(tmp_path, **{"merge-engine": "deduplicate"})
    write(table, k=7, clicks=4)
    write(table, "-D", k=7, clicks=4)
    assert not table.explain(7).is_there
    table = catalog.alter_table("db.t", set_options={"ignore-delete": "true"})
    assert said(table, "clicks")[::2] == [
        "4 from 1",
        "leaves: -D is skipped: 'ignore-delete' is set",
    ]


def test_records_say_who_wrote_them_through_compactions(tmp_path: Path) -> None:
    table = create(tmp_path)
    for number in range(3):
        write(table, k=7, clicks=number)
    table.compact(full=True)
    write(table, k=7, rank=1)
    users = [snapshot.commit_user for snapshot in table.snapshots()]
    merged, last = table.explain(7).records
    assert [(each.snapshot_id, each.user) for each in merged.commits] == list(
        zip([1, 2, 3], users[:3], strict=True)
    )
    assert merged.commits_are_complete
    assert (merged.level > 0, last.level) == (True, 0)
    assert [each.user for each in last.commits] == [users[4]]
    assert {name: value for name, value in merged.values.items() if value is not None} == {
        "k": 7,
        "clicks": 2,
    }
    table.create_tag("before", 3)
    assert len(table.explain(7, as_of="before").records) == 3
    assert len(table.explain(7, as_of=2).records) == 2
    when = datetime.fromtimestamp(table.snapshots()[0].time_millis / 1000, timezone.utc)
    assert table.explain(7, as_of=when).snapshot_id in (1, 2, 3, 4, 5)
    table.expire_snapshots(1, 1, 0)
    merged, _ = table.explain(7).records
    assert not merged.commits_are_complete


def test_a_rollback_did_not_write_what_it_brought_back(tmp_path: Path) -> None:
    table = create(tmp_path)
    for number in range(3):
        write(table, k=7, clicks=number)
    table.compact(full=True)
    table.rollback(3)
    commits = [[each.snapshot_id for each in record.commits] for record in table.explain(7).records]
    assert commits == [[1], [2], [3]]
    assert all(record.commits_are_complete for record in table.explain(7).records)


def test_a_row_that_comes_back_says_whose_sequence_was_kept(tmp_path: Path) -> None:
    table = create(tmp_path, **GROUPED, **{"partial-update.remove-record-on-sequence-group": "ts"})
    write(table, k=7, ts=5, score=1, rank=1)
    write(table, "-D", k=7, ts=6, score=None, rank=None)
    write(table, k=7, ts=3, score=8, rank=8)
    assert said(table, "ts")[0::2] == [
        "6 from 2",
        "clears: -D removes the row, and its ts = 6 is kept",
    ]
    assert said(table, "ts")[3] == "restores: the row exists again, with the value of #2"
    assert said(table, "score")[3] == "leaves: late: ts = 3 is below ts = 6 of #2"


def test_texts_are_printed_as_json(tmp_path: Path) -> None:
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.s",
        pa.schema([pa.field("k", pa.string(), False), ("v", pa.string())]),
        primary_key=["k"],
        options={"bucket": "1"},
    )
    table.write({"k": ["x\nv = 5"], "v": ["null"]})
    lines = str(table.explain("x\nv = 5")).splitlines()
    assert lines[0].startswith('k = "x\\nv = 5" in snapshot 1')
    assert 'v = "null" from #1' in lines


def test_a_key_that_nobody_wrote_is_not_there(tmp_path: Path) -> None:
    table = create(tmp_path)
    empty = table.explain(7)
    assert (empty.snapshot_id, empty.is_there, empty.records) == (None, False, ())
    write(table, k=8, clicks=1)
    found = table.explain(7)
    assert (found.snapshot_id, found.is_there, found.records) == (1, False, ())
    assert [(c.name, c.value, c.events) for c in found.columns] == [
        (name, None, ()) for name in SCHEMA.names[1:]
    ]


@pytest.mark.parametrize(
    "key", [None, (), (1, 2), {"k": None}, {"a": 1}, {}, "x", [1, 2], pa.table({"k": [1, 2]})]
)
def test_a_wrong_key_is_refused(tmp_path: Path, key: object) -> None:
    with pytest.raises(wt.InvalidError, match="k"):
        create(tmp_path).explain(key)


@pytest.mark.parametrize(
    "as_of", ["nope", 99, datetime(1999, 1, 1, tzinfo=timezone.utc), 1.5, True]
)
def test_a_wrong_time_is_refused(tmp_path: Path, as_of: Any) -> None:
    table = create(tmp_path)
    write(table, k=7, clicks=1)
    with pytest.raises((wt.NotFoundError, wt.InvalidError)):
        table.explain(7, as_of=as_of)


def test_it_prints_and_is_json(tmp_path: Path) -> None:
    table = create(tmp_path)
    write(table, k=7, clicks=4)
    found = table.explain({"k": 7})
    assert str(found).splitlines()[0] == f"k = 7 in snapshot 1 of {table.path}: there"
    assert "clicks = 4 from #1" in str(found).splitlines()
    assert json.loads(json.dumps(found.to_dict()))["columns"][0]["value"] == 4


# Random tables


def replayed(column: Any) -> int | None:
    """Which record a column is from, as its events say."""
    source: int | None = None
    for event in column.events:
        if event.effect in ("takes", "makes"):
            source = event.record
        elif event.effect == "clears":
            source = None
        elif event.effect == "restores":
            source = int(event.why.partition("#")[2].split()[0])
    return source


def check_reason(
    schema: TableSchema, found: wt.Explanation, name: str, number: int, effect: str, why: str
) -> None:
    """That the reason is true of the records."""
    record = found.records[number - 1]
    group = next((g for g in schema.sequence_groups if name in g.columns), None)
    names = (name,) if group is None else group.columns
    sequence = None if group is None else [record.values.get(n) for n in group.sequence]
    if why == "written without this column":
        assert set(names).isdisjoint(record.values)
    elif why == "null keeps the value":
        assert group is None
        assert record.values[name] is None
    elif why == "the last value that is not null":
        assert record.values[name] is not None
    elif "is skipped: 'ignore-delete'" in why:
        assert record.kind in ("-U", "-D")
        assert schema.options["ignore-delete"] == "true"
    elif "the group is skipped" in why:
        assert sequence == [None] * len(sequence or ())
    elif why.startswith("late: ") or " is not below " in why:
        assert group is not None
        assert sequence is not None
        other = found.records[int(why.rpartition("#")[2]) - 1]
        stored = [other.values.get(n) for n in group.sequence]
        if all(isinstance(value, int | None) for value in (*sequence, *stored)):
            assert (compare(sequence, stored) < 0) == why.startswith("late: ")
    elif "removes the row" in why:
        kinds = ("-D", "-U") if schema.options["merge-engine"] == "deduplicate" else ("-D",)
        assert record.kind in kinds
        assert not record.is_there
    elif why.endswith("as a NOT NULL column has a value"):
        assert not schema.field(name).type.nullable
    elif why.endswith("clears the group: it was empty"):
        assert record.kind in ("-U", "-D")
    elif " wins as a whole" in why:
        assert schema.options["merge-engine"] != "partial-update"
    elif ", and the key has no row" in why:
        assert not record.is_there
    elif why.endswith("clears the group"):
        assert record.kind in ("-U", "-D")
    elif " merges " in why or " retracts " in why:
        assert effect in ("makes", "clears", "leaves")
    assert effect in ("takes", "clears", "leaves", "restores", "makes")


@settings(max_examples=max(5, settings().max_examples // 2))
@given(st.data())
def test_an_explanation_agrees_with_the_table(data: st.DataObject) -> None:
    spec = data.draw(table_specs(), "table")
    with TemporaryDirectory() as folder:
        table = make(folder, spec)
        for _ in range(data.draw(st.integers(0, 5), "commits")):
            commit = data.draw(stamped_commits(spec.schema, spec.keys))
            table.write(data_of(spec.schema, commit))
            if data.draw(st.integers(0, 3), "compact") == 0:
                table.compact(full=data.draw(st.booleans()))
        schema = table.schema
        rows = {
            json.dumps([row[name] for name in spec.primary_key]): row
            for row in printed_rows(table.scan().to_arrow())
        }
        fields = [spec.schema.arrow_schema([name]).field(0) for name in spec.primary_key]
        for key in spec.keys:
            arrays = [pa.array([key[field.name]], field.type) for field in fields]
            found = table.explain(pa.table(arrays, names=spec.primary_key))
            row = rows.get(json.dumps([found.key[name] for name in spec.primary_key]))
            assert found.is_there == (row is not None)
            for column in found.columns:
                assert json.dumps(column.value) == json.dumps(row and row[column.name])
                assert [event.record for event in column.events] == list(
                    range(1, len(found.records) + 1)
                )
                made = {event.record for event in column.events if event.effect == "makes"}
                if column.record is not None and column.record not in made:
                    source = found.records[column.record - 1].values
                    assert json.dumps(source.get(column.name)) == json.dumps(column.value)
                assert replayed(column) == column.record
                for event in column.events:
                    check_reason(schema, found, column.name, event.record, event.effect, event.why)
