"""Catalogs: making, finding, dropping tables, and changing their schemas."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.models.plain_rows import row_texts
from tests.widetable.operations.history.test_killed_branches import DyingFileIO, is_killed

KEY = pa.field("k", pa.int64(), nullable=False)
SCHEMA = pa.schema([KEY, pa.field("a", pa.int32()), pa.field("b", pa.string())])
FAST = {"widetable.fsync": "false"}
ORDERED = {"merge-engine": "partial-update", "sequence.field": "a"}
IGNORED = "changelog-producer.row-deduplicate-ignore-fields"


@pytest.fixture
def catalog(tmp_path: Path) -> wt.Catalog:
    return wt.Catalog(str(tmp_path / "warehouse"))


def create(catalog: wt.Catalog, name: str = "db.t", **how: Any) -> wt.Table:
    how = {"primary_key": ["k"], "options": FAST, **how}
    return catalog.create_table(name, how.pop("schema", SCHEMA), **how)


def keyed(keys: list[int], **columns: Any) -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int64()), **columns})


def rows(table: wt.Table, **how: Any) -> list[str]:
    return row_texts(table.scan(**how).to_arrow().to_pylist())


# Tables


def test_a_table_lies_where_paimon_looks_for_it(catalog: wt.Catalog) -> None:
    table = create(catalog, comment="flights", options={**FAST, "bucket": "4"})
    assert table.path == f"{catalog.warehouse}/db.db/t"
    schema = json.loads(Path(table.path, "schema/schema-0").read_text(encoding="utf-8"))
    assert schema["version"] == 3
    assert [field["type"] for field in schema["fields"]] == ["BIGINT NOT NULL", "INT", "STRING"]
    assert schema["primaryKeys"] == ["k"]
    assert schema["options"] == {**FAST, "bucket": "4"}
    assert schema["comment"] == "flights"


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (pa.float64(), {}),
        (pa.float32(), {"partition.legacy-name": "false"}),
        (pa.binary(), {}),
        (pa.binary(4), {}),
        (pa.time32("ms"), {"partition.legacy-name": "false"}),
        (pa.timestamp("us", tz="UTC"), {"partition.legacy-name": "false"}),
    ],
    ids=str,
)
def test_a_partition_column_whose_values_have_no_directory_is_refused_at_once(
    catalog: wt.Catalog, kind: pa.DataType, options: dict[str, str]
) -> None:
    """And not at the first write, when the table is there."""
    with pytest.raises(wt.UnsupportedError, match=r"partition column 'p'.*of another type"):
        create(
            catalog,
            schema=pa.schema([KEY, ("p", kind)]),
            primary_key=["k", "p"],
            partition_by=["p"],
            options=FAST | options,
        )
    assert catalog.list_tables() == []


def test_key_columns_become_not_null(catalog: wt.Catalog) -> None:
    table = create(catalog, schema=pa.schema([("k", pa.int64()), ("v", pa.int64())]))
    assert table.arrow_schema == pa.schema([KEY, pa.field("v", pa.int64())])


def test_tables_are_listed_by_name(catalog: wt.Catalog) -> None:
    assert catalog.list_tables() == []
    for name in ("db.t", "db.a", "other.t"):
        create(catalog, name)
    Path(catalog.warehouse, "db.db/no_table").mkdir()
    Path(catalog.warehouse, "no_database").mkdir()
    assert catalog.list_tables() == ["db.a", "db.t", "other.t"]
    assert catalog.list_tables("other") == ["other.t"]
    assert catalog.list_tables("nope") == []


def test_a_table_is_made_once(catalog: wt.Catalog) -> None:
    create(catalog).write(keyed([1]))
    with pytest.raises(wt.InvalidError, match=r"db\.t"):
        create(catalog)
    again = create(catalog, schema=pa.schema([KEY]), if_not_exists=True)
    assert again.arrow_schema == SCHEMA
    assert len(rows(again)) == 1


def test_one_of_many_creators_wins(catalog: wt.Catalog) -> None:
    outcomes: list[str] = []

    def make() -> None:
        try:
            create(catalog)
            outcomes.append("made")
        except wt.InvalidError:
            outcomes.append("there")

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["made"] + ["there"] * 7


def test_a_missing_table_says_which_there_are(catalog: wt.Catalog) -> None:
    create(catalog, "db.there")
    for call in (catalog.table, catalog.drop_table, catalog.alter_table):
        with pytest.raises(wt.NotFoundError, match=r"db\.there"):
            call("db.nope")


def test_a_dropped_table_is_gone_and_its_name_free(catalog: wt.Catalog) -> None:
    create(catalog).write(keyed([1]))
    catalog.drop_table("db.t")
    assert catalog.list_tables() == []
    catalog.drop_table("db.t", if_exists=True)
    assert rows(create(catalog)) == []


@pytest.mark.parametrize(
    "name", ["t", "", "db.", ".t", "a.b.c", "db/x.t", "db.t/x", "db...", "db.t$snapshots", "../x.t"]
)
def test_names_that_no_table_may_have(catalog: wt.Catalog, name: str) -> None:
    for call in (catalog.table, catalog.drop_table, lambda name: create(catalog, name)):
        with pytest.raises(wt.InvalidError, match="table name"):
            call(name)
    assert catalog.list_tables() == []


REFUSED: list[tuple[dict[str, Any], type[wt.WidetableError], str]] = [
    ({"primary_key": []}, wt.InvalidError, "primary_key"),
    ({"primary_key": ["nope"]}, wt.InvalidError, "nope"),
    ({"primary_key": ["k", "k"]}, wt.InvalidError, "twice"),
    ({"partition_by": ["nope"]}, wt.InvalidError, "nope"),
    ({"partition_by": ["a"]}, wt.UnsupportedError, "partition"),
    ({"options": {"buckets": "3"}}, wt.UnsupportedError, "buckets"),
    ({"options": {"bucket": "-3"}}, wt.WidetableError, "bucket"),
    ({"options": {"bucket": "x"}}, wt.InvalidError, "bucket"),
    ({"options": {"merge-engine": "nope"}}, wt.InvalidError, "merge-engine"),
    (
        {"options": ORDERED | {"changelog-producer": "lookup"}},
        wt.UnsupportedError,
        "sequence.field",
    ),
    ({"options": ORDERED | {"changelog-producer": "full-compaction"}}, wt.UnsupportedError, "sequ"),
    ({"options": {IGNORED: "nope"}}, wt.InvalidError, "nope"),
    ({"options": {"row-tracking.enabled": "true"}}, wt.UnsupportedError, "row-tracking"),
    ({"options": {"file.format": "orc"}}, wt.InvalidError, "file.format"),
    ({"options": {"fields.nope.sequence-group": "a"}}, wt.InvalidError, "nope"),
    ({"options": {"sequence.field": "nope"}}, wt.InvalidError, "nope"),
    ({"schema": pa.schema([KEY, ("v", pa.uint64())])}, wt.UnsupportedError, "uint64"),
    ({"schema": pa.schema([KEY, ("_LEVEL", pa.int8())])}, wt.InvalidError, "_LEVEL"),
    ({"schema": pa.schema([KEY, ("v", pa.int8()), ("v", pa.int8())])}, wt.InvalidError, "'v'"),
]


@pytest.mark.parametrize(
    ("how", "error", "says"), REFUSED, ids=[str(i) for i in range(len(REFUSED))]
)
def test_what_no_table_may_have_is_refused_by_name(
    catalog: wt.Catalog, how: Mapping[str, Any], error: type[wt.WidetableError], says: str
) -> None:
    with pytest.raises(error, match=says):
        create(catalog, **how)
    assert catalog.list_tables() == []


# Changes of the schema


def test_columns_are_added_dropped_renamed_and_widened(catalog: wt.Catalog) -> None:
    table = create(catalog)
    table.write(keyed([1, 2], a=pa.array([1, 2], pa.int32()), b=["x", "y"]))
    catalog.alter_table(
        "db.t",
        add_columns=[pa.field("c", pa.float64())],
        drop_columns=["b"],
        rename_columns={"a": "a2"},
        change_types={"a": pa.int64()},
    )
    assert table.arrow_schema == pa.schema(
        [KEY, pa.field("a2", pa.int64()), pa.field("c", pa.float64())]
    )
    assert rows(table) == row_texts([{"k": 1, "a2": 1, "c": None}, {"k": 2, "a2": 2, "c": None}])
    table.write(keyed([2], a2=[2**40], c=[0.5]))
    expected = row_texts([{"k": 1, "a2": 1, "c": None}, {"k": 2, "a2": 2**40, "c": 0.5}])
    assert rows(table) == expected
    assert rows(table, filter="a2 = 1") == expected[:1]
    table.compact(full=True)
    assert rows(table) == expected
    assert rows(table, snapshot_id=1) == row_texts(
        [{"k": 1, "a": 1, "b": "x"}, {"k": 2, "a": 2, "b": "y"}]
    )


def test_a_dropped_name_comes_back_empty(catalog: wt.Catalog) -> None:
    table = create(catalog)
    table.write(keyed([1], b=["old"]))
    catalog.alter_table("db.t", drop_columns=["b"])
    catalog.alter_table("db.t", add_columns=pa.schema([("b", pa.string())]))
    assert rows(table) == row_texts([{"k": 1, "a": None, "b": None}])
    table.compact(full=True)
    assert rows(table) == row_texts([{"k": 1, "a": None, "b": None}])
    assert table.schema.field("b").id == 3


def test_names_may_be_swapped(catalog: wt.Catalog) -> None:
    table = create(catalog, schema=pa.schema([KEY, ("a", pa.int64()), ("b", pa.int64())]))
    table.write(keyed([1], a=[1], b=[2]))
    catalog.alter_table("db.t", rename_columns={"a": "b", "b": "a"})
    assert rows(table) == row_texts([{"k": 1, "b": 1, "a": 2}])


def test_nested_columns_take_ids_of_their_own(catalog: wt.Catalog) -> None:
    table = create(catalog)
    nested = pa.struct([("x", pa.int32()), ("y", pa.list_(pa.struct([("z", pa.int32())])))])
    catalog.alter_table("db.t", add_columns=[pa.field("n", nested), pa.field("m", pa.int8())])
    assert [field.id for field in table.schema.fields] == [0, 1, 2, 3, 7]
    assert table.schema.highest_field_id == 7
    table.write(keyed([1], n=pa.array([{"x": 1, "y": [{"z": 2}]}], nested)))
    assert '"z": 2' in rows(table)[0]


def test_options_are_set_and_removed(catalog: wt.Catalog) -> None:
    table = create(catalog)
    catalog.alter_table("db.t", set_options={"target-file-size": "1 mb", "write-only": "true"})
    made = {**FAST, "bucket": "1"}
    assert table.schema.options == {**made, "target-file-size": "1 mb", "write-only": "true"}
    catalog.alter_table("db.t", remove_options=["write-only"])
    assert table.schema.options == {**made, "target-file-size": "1 mb"}


def test_options_follow_a_renamed_column(catalog: wt.Catalog) -> None:
    fields = [KEY, *(pa.field(name, pa.int64()) for name in ("g", "h", "a", "b"))]
    options = {**FAST, "merge-engine": "partial-update", "fields.g,h.sequence-group": "a,b"}
    table = create(catalog, schema=pa.schema(fields), options=options)
    table.write(keyed([1], g=[5], h=[5], a=[1], b=[1]))
    catalog.alter_table("db.t", rename_columns={"h": "h2", "a": "a2"})
    assert table.schema.options["fields.g,h2.sequence-group"] == "a2,b"
    table.write(keyed([1], g=[5], h2=[4], a2=[9], b=[9]))
    assert rows(table) == row_texts([{"k": 1, "g": 5, "h2": 5, "a2": 1, "b": 1}])
    ordered = create(catalog, "db.ordered", options={**FAST, "sequence.field": "a, b"})
    catalog.alter_table("db.ordered", rename_columns={"b": "b2"})
    assert ordered.schema.sequence_fields == ("a", "b2")


PARTIAL = {**FAST, "merge-engine": "partial-update"}
GROUPED = {
    **FAST,
    "merge-engine": "partial-update",
    "fields.a.sequence-group": "b",
    "partial-update.remove-record-on-sequence-group": "a",
}
NOT_ALLOWED: list[tuple[dict[str, str], dict[str, Any], type[wt.WidetableError], str]] = [
    (FAST, {"drop_columns": ["k"]}, wt.InvalidError, "'k'"),
    (FAST, {"rename_columns": {"k": "x"}}, wt.InvalidError, "'k'"),
    (FAST, {"change_types": {"k": pa.string()}}, wt.InvalidError, "'k'"),
    (FAST, {"drop_columns": ["nope"]}, wt.NotFoundError, "nope"),
    (FAST, {"rename_columns": {"nope": "x"}}, wt.NotFoundError, "nope"),
    (FAST, {"rename_columns": {"a": "b"}}, wt.InvalidError, "'b'"),
    (FAST, {"add_columns": [pa.field("a", pa.int8())]}, wt.InvalidError, "'a'"),
    (FAST, {"add_columns": [pa.field("c", pa.int8(), False)]}, wt.InvalidError, "'c'"),
    (FAST, {"change_types": {"a": pa.int16()}}, wt.UnsupportedError, "'a'"),
    (FAST, {"change_types": {"b": pa.int32()}}, wt.UnsupportedError, "'b'"),
    (ORDERED, {"change_types": {"a": pa.string()}, "rename_columns": {"a": "c"}}, wt.InvalidError, "'c'"),
    (ORDERED, {"change_types": {"a": pa.string()}}, wt.InvalidError, "'a'"),
    (ORDERED, {"change_types": {"a": pa.float32()}}, wt.InvalidError, "'a'"),
    (GROUPED, {"change_types": {"a": pa.string()}}, wt.InvalidError, "'a'"),
    (FAST, {"change_types": {"a": pa.list_(pa.int32())}}, wt.InvalidError, "'a'"),
    (FAST, {"drop_columns": ["a"], "rename_columns": {"a": "x"}}, wt.InvalidError, "'a'"),
    (FAST, {"set_options": {"bucket": "2"}}, wt.InvalidError, "bucket"),
    (FAST, {"set_options": {"merge-engine": "partial-update"}}, wt.InvalidError, "merge-engine"),
    (FAST, {"set_options": {"nope": "1"}}, wt.UnsupportedError, "nope"),
    (FAST, {"set_options": {"write-only": "true"}, "remove_options": ["write-only"]}, wt.InvalidError, "write-only"),
    (FAST, {"set_options": {"target-file-size": "big"}}, wt.InvalidError, "target-file-size"),
    (FAST | ORDERED, {"set_options": {"changelog-producer": "lookup"}}, wt.UnsupportedError, "changelog"),
    ({**FAST, "ignore-delete": "true"}, {"set_options": {"ignore-delete": "false"}},
     wt.InvalidError, "ignore-delete"),
    ({**FAST, "sequence.field": "a"}, {"drop_columns": ["a"]}, wt.InvalidError, "sequence.field"),
    ({**FAST, "rowkind.field": "b"}, {"rename_columns": {"b": "x"}}, wt.InvalidError, "rowkind"),
    (GROUPED, {"drop_columns": ["b"]}, wt.InvalidError, "sequence-group"),
    (PARTIAL, {"set_options": {"fields.a.sequence-group": "b"}}, wt.InvalidError, "'a'.*group"),
    (PARTIAL, {"add_columns": [pa.field("s", pa.int64())], "set_options": {"fields.s.sequence-group": "b"}},
     wt.InvalidError, "'b'.*group"),
    (PARTIAL, {"add_columns": [pa.field("n", pa.int64())], "set_options": {"fields.a.sequence-group": "n"}},
     wt.InvalidError, "'a'.*group"),
    (GROUPED, {"add_columns": [pa.field("s", pa.int64())], "remove_options": ["fields.a.sequence-group"],
               "set_options": {"fields.a,s.sequence-group": "b"}}, wt.InvalidError, "'a'.*group"),
    ({**PARTIAL, "fields.a.sequence-group": "b"}, {"remove_options": ["fields.a.sequence-group"]},
     wt.InvalidError, "'a'.*group"),
    (GROUPED, {"drop_columns": ["a"]}, wt.InvalidError, "fields.a"),
    (GROUPED, {"rename_columns": {"a": "x"}}, wt.InvalidError, "remove-record"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "change", "error", "says"),
    NOT_ALLOWED,
    ids=[str(i) for i in range(len(NOT_ALLOWED))],
)
def test_changes_that_would_break_a_table_are_refused(
    catalog: wt.Catalog,
    options: dict[str, str],
    change: dict[str, Any],
    error: type[wt.WidetableError],
    says: str,
) -> None:
    table = create(catalog, options=options)
    before = table.schema
    with pytest.raises(error, match=says):
        catalog.alter_table("db.t", **change)
    assert table.schema == before


def test_new_columns_make_a_group_or_join_one(catalog: wt.Catalog) -> None:
    table = create(catalog, options={**PARTIAL, "fields.a.sequence-group": "b"})
    table.write(keyed([1], a=[5], b=["x"]))
    catalog.alter_table(
        "db.t",
        add_columns=[pa.field(name, pa.int64()) for name in ("s", "n", "m")],
        set_options={"fields.a.sequence-group": "b2,m", "fields.s.sequence-group": "n"},
        rename_columns={"b": "b2"},
    )
    table.write(keyed([1], a=[4], b2=["y"], m=[4], s=[1], n=[1]))
    assert rows(table) == row_texts([{"k": 1, "a": 5, "b2": "x", "s": 1, "n": 1, "m": None}])


def test_groups_without_a_meaning_may_stay_and_be_removed(
    catalog: wt.Catalog, tmp_path: Path
) -> None:
    """Of another client: those of another engine, and those that no scan takes."""
    for name, options, group in (("db.whole", FAST, "a"), ("db.broken", PARTIAL, "zz")):
        table = create(catalog, name, options=options)
        schema, key = Path(table.path, "schema/schema-0"), f"fields.{group}.sequence-group"
        schema.write_text(schema.read_text().replace('"options": {', f'"options": {{"{key}": "b",'))
        catalog.alter_table(name, remove_options=[key])
        assert rows(table) == []


@pytest.mark.parametrize("set_again", [{}, {"write-only": "true"}])
def test_an_option_goes_by_the_name_before_where_its_column_is_renamed(
    catalog: wt.Catalog, set_again: dict[str, str]
) -> None:
    """As they stand in the schema that the caller sees; one that is not set may be removed."""
    removed = ["fields.b.ignore-retract", "fields.a.ignore-retract", "fields.z.ignore-retract"]
    schema = Path(create(catalog, options=FAST).path, "schema/schema-0")
    of_others = "".join(f'"{key}": "true",' for key in removed[:2])
    schema.write_text(schema.read_text().replace('"options": {', f'"options": {{{of_others}'))
    table = catalog.alter_table(
        "db.t", rename_columns={"a": "d", "b": "c"}, remove_options=removed, set_options=set_again
    )
    assert not any(key.startswith("fields.") for key in table.schema.options)
    assert set_again.items() <= table.schema.options.items()


def test_changes_at_once_are_all_made(catalog: wt.Catalog) -> None:
    table = create(catalog)
    names = [f"c{i}" for i in range(12)]
    threads = [
        threading.Thread(
            target=lambda name=name: catalog.alter_table(
                "db.t", add_columns=[pa.field(name, pa.int8())]
            )
        )
        for name in names
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(table.schema.names) == {"k", "a", "b", *names}
    assert table.schema.id == 12
    assert len({field.id for field in table.schema.fields}) == 15


def lived_in(catalog: wt.Catalog) -> wt.Table:
    """With something in each of its directories."""
    table = create(catalog)
    for value in range(3):
        table.write(keyed([1], a=pa.array([value], pa.int32())))
    table.create_tag("kept")
    table.create_branch("tried", tag="kept")
    return table


@pytest.mark.parametrize("left", ["snapshot", "tag", "branch", "manifest", "service", "bucket-0"])
def test_no_table_is_made_over_what_is_left_of_a_former_one(catalog: wt.Catalog, left: str) -> None:
    """Somebody wrote while it was dropped, or the drop was killed. Data files that nobody names are orphans."""
    table = lived_in(catalog)
    for entry in Path(table.path).iterdir():
        if entry.name != left:
            shutil.rmtree(entry)
    assert catalog.list_tables() == []
    if left in ("snapshot", "tag", "branch", "manifest"):
        with pytest.raises(wt.InvalidError, match=r"no schema, but .*Drop it once more"):
            create(catalog)
        catalog.drop_table("db.t")
        assert not Path(table.path).exists()
    made = create(catalog)
    assert rows(made) == []
    assert made.branches() == []
    assert made.audit().ok


def test_a_drop_that_is_killed_is_done_by_another_one(tmp_path: Path) -> None:
    for steps in range(200):
        catalog = wt.Catalog(tmp_path / str(steps))
        table = lived_in(catalog)
        dying = wt.Catalog(catalog.warehouse, file_io=DyingFileIO(steps))
        killed = is_killed(partial(dying.drop_table, "db.t"))
        catalog.drop_table("db.t", if_exists=True)
        assert [path for path in Path(table.path).rglob("*") if path.is_file()] == []
        assert rows(create(catalog)) == []
        if not killed:
            break
    assert 20 < steps < 199


def test_a_drop_leaves_what_a_foreign_link_leads_to(tmp_path: Path, catalog: wt.Catalog) -> None:
    (tmp_path / "elsewhere").mkdir()
    table = lived_in(catalog)
    Path(table.path, "notes").symlink_to(tmp_path / "elsewhere")
    catalog.drop_table("db.t")
    assert not Path(table.path).exists()
    assert (tmp_path / "elsewhere").is_dir()
