"""Every rejection of Paimon's rules (semantics.md section 10) at the moment it names: when a table is made, when rows
are written, or when they are merged. What the column or option is called stands in the message.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import widetable as wt
from widetable.merge.aggregate_function import COLUMN_OPTIONS
from widetable.schema.field_options import FIELD_WORDS

COLUMNS: dict[str, Any] = {
    "k": "BIGINT",
    "p": "INT",
    "a": "INT",
    "b": "INT",
    "g": "INT",
    "h": "INT",
    "s": "STRING",
    "n": "VARCHAR(5)",
    "l": "ARRAY<INT>",
    "m": "MAP<STRING, INT>",
    "r": "ARRAY<ROW<x INT, y INT>>",
    "t": "MAP<STRING, ROW<v INT, ts STRING>>",
    "u": "MAP<STRING, ROW<v INT, ts INT>>",
}
PARTIAL = {"merge-engine": "partial-update"}
GROUP = {**PARTIAL, "fields.g.sequence-group": "a"}
FOLDS = {"merge-engine": "aggregation"}
FIRST = {"merge-engine": "first-row"}


def of(column: str, function: str, **options: str) -> dict[str, str]:
    more = {f"fields.{column}.{key.replace('_', '-')}": value for key, value in options.items()}
    return {**FOLDS, f"fields.{column}.aggregate-function": function, **more}


# Options, and what the message names.
AT_CREATION: list[tuple[str, dict[str, str], str]] = [
    ("unknown sequence column", {**PARTIAL, "fields.q.sequence-group": "a"}, "'q'"),
    ("unknown protected column", {**PARTIAL, "fields.g.sequence-group": "q"}, "'q'"),
    ("protected twice", {**GROUP, "fields.h.sequence-group": "a"}, "'a'"),
    ("protected twice, composite", {**GROUP, "fields.h,b.sequence-group": "a"}, "'a'"),
    ("key as sequence", {**PARTIAL, "fields.k.sequence-group": "a"}, "'k'"),
    ("key as protected", {**PARTIAL, "fields.g.sequence-group": "k"}, "'k'"),
    ("function without group", {**PARTIAL, "fields.a.aggregate-function": "sum"}, "fields.a"),
    ("default without group", {**PARTIAL, "fields.default-aggregate-function": "max"}, "default"),
    (
        "ignored deletes that remove",
        {**PARTIAL, "ignore-delete": "true", "partial-update.remove-record-on-delete": "true"},
        "ignore-delete",
    ),
    (
        "ignored deletes that remove by group",
        {**GROUP, "ignore-delete": "true", "partial-update.remove-record-on-sequence-group": "g"},
        "ignore-delete",
    ),
    (
        "groups and removal on delete",
        {**GROUP, "partial-update.remove-record-on-delete": "true"},
        "remove-record-on-delete",
    ),
    (
        "removal by no sequence",
        {**GROUP, "partial-update.remove-record-on-sequence-group": "a"},
        "'a'",
    ),
    ("option of an unknown column", {"fields.q.ignore-retract": "true"}, "'q'"),
    ("unknown function, aggregation", of("a", "median"), "median"),
    (
        "unknown function, partial-update",
        {**GROUP, "fields.a.aggregate-function": "median"},
        "median",
    ),
    ("unknown sequence.field", {"sequence.field": "q"}, "'q'"),
    ("repeated sequence.field", {"sequence.field": "g,g"}, "sequence.field"),
    (
        "sequence.field with a function",
        {**of("g", "sum"), "sequence.field": "g"},
        "sequence.field",
    ),
    ("sequence.field of first-row", {**FIRST, "sequence.field": "g"}, "sequence.field"),
    ("input of first-row", {**FIRST, "changelog-producer": "input"}, "changelog-producer"),
    ("full of first-row", {**FIRST, "changelog-producer": "full-compaction"}, "changelog-producer"),
    ("unknown rowkind.field", {"rowkind.field": "q"}, "'q'"),
    ("rowkind.field that is no text", {"rowkind.field": "a"}, "'a'"),
    ("unknown engine", {"merge-engine": "q"}, "merge-engine"),
    ("unknown producer", {"changelog-producer": "q"}, "changelog-producer"),
    ("unknown order", {"sequence.field": "g", "sequence.field.sort-order": "q"}, "sort-order"),
    ("sum of texts", of("s", "sum"), "'s'"),
    ("product of booleans", of("l", "product"), "'l'"),
    ("max of lists", of("l", "max"), "'l'"),
    ("min of maps", of("m", "min"), "'m'"),
    ("bool_and of numbers", of("a", "bool_and"), "'a'"),
    ("bool_or of texts", of("s", "bool_or"), "'s'"),
    ("listagg of numbers", of("a", "listagg"), "'a'"),
    ("listagg of texts with a length", of("n", "listagg"), "'n'"),
    ("collect of no list", of("m", "collect"), "'m'"),
    ("merge_map of no map", of("l", "merge_map"), "'l'"),
    ("merge_map_with_keytime of a map of numbers", of("m", "merge_map_with_keytime"), "'m'"),
    ("a time that is no text", of("u", "merge_map_with_keytime"), "'u'"),
    ("an unknown ts-field", of("t", "merge_map_with_keytime", ts_field="q"), "'q'"),
    ("nested_update of numbers", of("l", "nested_update"), "'l'"),
    ("an unknown nested-key", of("r", "nested_update", nested_key="x,q"), "'q'"),
    (
        "an unknown nested-sequence-field",
        of("r", "nested_update", nested_key="x", nested_sequence_field="q"),
        "'q'",
    ),
    ("nested order without key", of("r", "nested_update", nested_sequence_field="y"), "'fields.r"),
    (
        "null strategy without key",
        of("r", "nested_update", nested_key_null_strategy="error"),
        "'fields.r",
    ),
    (
        "unknown null strategy",
        of("r", "nested_update", nested_key="x", nested_key_null_strategy="q"),
        "null-strategy",
    ),
    ("nested_partial_update without key", of("r", "nested_partial_update"), "nested-key"),
    (
        "ignored retractions and removals",
        {**of("a", "sum", ignore_retract="true"), "aggregation.remove-record-on-delete": "true"},
        "remove-record-on-delete",
    ),
    ("a limit that is no number", of("r", "nested_update", count_limit="q"), "count-limit"),
]


@pytest.mark.parametrize(
    ("options", "said"), [row[1:] for row in AT_CREATION], ids=[row[0] for row in AT_CREATION]
)
def test_rejected_when_the_table_is_made(
    tmp_path: Path, options: dict[str, str], said: str
) -> None:
    catalog = wt.Catalog(tmp_path)
    with pytest.raises(wt.InvalidError) as raised:
        catalog.create_table("db.t", COLUMNS, primary_key=["k"], options=options)
    assert said in str(raised.value)
    assert catalog.list_tables() == []


@pytest.mark.parametrize("kind", ["ARRAY<INT>", "MAP<INT, INT>", "ROW<x INT>"])
@pytest.mark.parametrize("role", ["primary_key", "partition_by"])
def test_nested_types_are_no_keys(tmp_path: Path, kind: str, role: str) -> None:
    keys: dict[str, Any] = {"primary_key": ["k", "c"]}
    keys |= {"partition_by": ["c"]} if role == "partition_by" else {}
    with pytest.raises(wt.InvalidError, match="'c'"):
        wt.Catalog(tmp_path).create_table("db.t", {"k": "INT", "c": kind}, **keys)


PLAIN = (
    *("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(38, 2)"),
    *("CHAR(3)", "STRING", "BINARY(3)", "BYTES", "DATE", "TIME(3)", "TIMESTAMP(9)"),
    "TIMESTAMP(3) WITH LOCAL TIME ZONE",
)
NESTED = ("ARRAY<INT>", "MAP<INT, INT>", "MULTISET<INT>", "ROW<x INT>")
# By the option that lets the column c, or the field c of the rows in r, order records: the other options.
ORDERING: dict[str, list[dict[str, str]]] = {
    "sequence.field": [{"sequence.field": "c"} | more for more in ({}, PARTIAL, FOLDS)],
    "fields.c.sequence-group": [{**PARTIAL, "fields.c.sequence-group": "a"}],
    "fields.a,c.sequence-group": [{**PARTIAL, "fields.a,c.sequence-group": "r"}],
    "fields.r.nested-sequence-field": [
        of("r", "nested_update", nested_key="a", nested_sequence_field="c")
    ],
}


@pytest.mark.parametrize("kind", [*PLAIN, *NESTED])
@pytest.mark.parametrize("option", ORDERING)
def test_records_are_ordered_by_what_has_an_order(tmp_path: Path, option: str, kind: str) -> None:
    columns = {"k": "INT", "a": "INT", "c": kind, "r": f"ARRAY<ROW<a INT, c {kind}>>"}
    for number, options in enumerate(ORDERING[option]):
        catalog, name = wt.Catalog(tmp_path), f"db.t{number}"
        options = {"bucket": "1", "widetable.fsync": "false", **options}
        if kind in NESTED:
            refusal = wt.UnsupportedError if kind.startswith("ARRAY") else wt.InvalidError
            with pytest.raises(refusal) as raised:
                catalog.create_table(name, columns, primary_key=["k"], options=options)
            assert repr(option) in str(raised.value)
            assert catalog.list_tables() == []
        else:
            table = catalog.create_table(name, columns, primary_key=["k"], options=options)
            rows = {"k": [1, 1], "a": [1, 2], "c": [None, None], "r": [[{"a": 1, "c": None}]] * 2}
            table.write(rows)
            assert table.scan().count() == 1


def test_a_table_of_others_that_lists_order_is_read_where_nothing_is_to_be_ordered(
    tmp_path: Path,
) -> None:
    columns = {"k": "INT", "c": "ARRAY<INT>"}
    table = wt.Catalog(tmp_path).create_table("db.t", columns, primary_key=["k"])
    table.write({"k": [1, 2], "c": [[1], [2]]})
    table.compact(full=True)
    schema = Path(table.path, "schema", "schema-0")
    body = json.loads(schema.read_text())
    body["options"]["sequence.field"] = "c"
    schema.write_text(json.dumps(body))
    table = wt.Table.open(table.path)
    assert table.scan().count() == 2
    assert table.lookup([2])["c"].to_pylist() == [[2]]
    with pytest.raises(wt.UnsupportedError, match=r"sequence\.field"):
        table.write({"k": [1], "c": [[0]]})


@pytest.mark.parametrize("option", ["sequence.field", "fields.z.sequence-group"])
def test_an_order_by_lists_is_not_given_later(tmp_path: Path, option: str) -> None:
    catalog = wt.Catalog(tmp_path)
    catalog.create_table("db.t", COLUMNS, primary_key=["k"], options=PARTIAL)
    added = [pa.field("z", pa.list_(pa.int32())), pa.field("y", pa.int32())]
    value = "z" if option == "sequence.field" else "y"
    with pytest.raises(wt.UnsupportedError, match=option):
        catalog.alter_table("db.t", add_columns=added, set_options={option: value})


# The options of what cannot be made here at all: refused by name, whether Paimon allows it or not.
REFUSED: list[dict[str, str]] = [
    {"changelog-producer": "lookup", "full-compaction.delta-commits": "2"},
    {"changelog-producer": "lookup", "streaming-read-overwrite": "true"},
    {**FIRST, "deletion-vectors.enabled": "true"},
    {"changelog-producer": "full-compaction", "deletion-vectors.enabled": "true"},
]


@pytest.mark.parametrize("options", REFUSED, ids=str)
def test_refused_by_name(tmp_path: Path, options: dict[str, str]) -> None:
    with pytest.raises((wt.InvalidError, wt.UnsupportedError)) as raised:
        wt.Catalog(tmp_path).create_table("db.t", COLUMNS, primary_key=["k"], options=options)
    assert list(options)[-1] in str(raised.value)


def test_a_producer_needs_a_primary_key(tmp_path: Path) -> None:
    with pytest.raises(wt.InvalidError, match="primary_key"):
        wt.Catalog(tmp_path).create_table(
            "db.t", COLUMNS, primary_key=[], options={"changelog-producer": "lookup"}
        )


def test_sequence_field_needs_the_partition_columns_in_the_key(tmp_path: Path) -> None:
    with pytest.raises(wt.WidetableError, match="p"):
        wt.Catalog(tmp_path).create_table(
            "db.t", COLUMNS, primary_key=["k"], partition_by=["p"], options={"sequence.field": "g"}
        )


ROWKIND = {"rowkind.field": "s"}
AT_WRITE: list[tuple[str, dict[str, str], dict[str, list[Any]], str]] = [
    ("null in the key", {}, {"k": [None]}, "'k'"),
    ("null in a NOT NULL column", {}, {"k": [1], "z": [None]}, "'z'"),
    ("null in the key of a -D", ROWKIND, {"k": [None], "s": ["-D"], "z": [1]}, "'k'"),
    ("null in NOT NULL of a -D", ROWKIND, {"k": [1], "s": ["-D"], "z": [None]}, "'z'"),
    ("null as a kind", ROWKIND, {"k": [1], "s": [None], "z": [1]}, "'s'"),
    ("unknown kind", ROWKIND, {"k": [1], "s": ["-X"], "z": [1]}, "-X"),
]


@pytest.mark.parametrize(
    ("options", "rows", "said"), [row[1:] for row in AT_WRITE], ids=[row[0] for row in AT_WRITE]
)
def test_rejected_when_it_is_written(
    tmp_path: Path, options: dict[str, str], rows: dict[str, list[Any]], said: str
) -> None:
    columns = {"k": "BIGINT", "s": "STRING", "z": "INT NOT NULL"}
    table = wt.Catalog(tmp_path).create_table("db.t", columns, primary_key=["k"], options=options)
    given = {"z": [1], **rows} if "z" not in rows else rows
    with pytest.raises(wt.InvalidError) as raised:
        table.write(given)
    assert said in str(raised.value)
    assert table.snapshots() == []


DELETES = {"rowkind.field": "s"}
AT_MERGE: list[tuple[str, dict[str, str], dict[str, list[Any]]]] = [
    ("partial-update", {**PARTIAL, **DELETES}, {"s": ["-D"]}),
    ("first-row", {**FIRST, **DELETES}, {"s": ["-U"]}),
    ("max", {**of("a", "max"), **DELETES}, {"s": ["-D"], "a": [1]}),
    ("min", {**of("a", "min"), **DELETES}, {"s": ["-D"], "a": [1]}),
    ("first_value", {**of("a", "first_value"), **DELETES}, {"s": ["-D"], "a": [1]}),
    (
        "first_non_null_value",
        {**of("a", "first_non_null_value"), **DELETES},
        {"s": ["-D"], "a": [1]},
    ),
    ("listagg", {**of("c", "listagg"), **DELETES}, {"s": ["-D"], "c": ["x"]}),
    ("sum that overflows", of("a", "sum"), {"a": [2**31 - 1]}),
    ("product that overflows", of("a", "product"), {"a": [2**30]}),
    ("division by zero", {**of("a", "product"), **DELETES}, {"s": ["-D"], "a": [0]}),
]


@pytest.mark.parametrize(
    ("options", "later"), [row[1:] for row in AT_MERGE], ids=[row[0] for row in AT_MERGE]
)
def test_rejected_when_it_is_merged_at_the_latest(
    tmp_path: Path, options: dict[str, str], later: dict[str, list[Any]]
) -> None:
    """Retractions without a meaning as soon as they are written, as far as the table says so. The key is named."""
    columns = {"k": "BIGINT", "a": "INT", "c": "STRING", "s": "STRING"}
    table = wt.Catalog(tmp_path).create_table(
        "db.t", columns, primary_key=["k"], options={**options, "write-only": "true"}
    )
    table.write(pa.table({"k": [77], "a": pa.array([5], pa.int32()), "c": ["y"], "s": ["+I"]}))
    with pytest.raises(wt.InvalidError, match="k=77"):
        write_and_read(table, {"a": [5], "c": ["y"], "s": ["+I"], **later, "k": [77]})


def write_and_read(table: wt.Table, rows: dict[str, list[Any]]) -> None:
    table.write(rows)
    table.scan().to_arrow()


def test_what_is_accepted_although_it_is_odd(tmp_path: Path) -> None:
    catalog = wt.Catalog(tmp_path)
    odd: list[tuple[str, dict[str, Any], dict[str, str]]] = [
        ("FLOAT", {"primary_key": ["f"]}, {}),
        ("DOUBLE", {"primary_key": ["f"]}, {}),
        ("INT", {"primary_key": ["f"]}, {"sequence.field": "f"}),
        (
            "INT",
            {"primary_key": ["f"]},
            {**FOLDS, "ignore-delete": "true", "aggregation.remove-record-on-delete": "true"},
        ),
    ]
    for number, (kind, keys, options) in enumerate(odd):
        table = catalog.create_table(
            f"db.t{number}", {"f": kind, "v": "INT"}, options=options, **keys
        )
        table.write({"f": [2], "v": [1]})
        assert table.scan().count() == 1


# Found by a review: values were silently those of other rules.
MISTYPED = [
    {**FOLDS, "fields.a.aggregation-function": "sum"},
    {**FOLDS, "fields.a.agg": "sum"},
    {**FOLDS, "fields.a.ignore-retracts": "true"},
    {**PARTIAL, "fields.g.sequence-groups": "a"},
    {**PARTIAL, "fields.g.Sequence-Group": "a"},
]
UNUSED = [
    {**engine, **option}
    for engine in ({}, FIRST)
    for option in (
        {"fields.g.sequence-group": "a"},
        {"fields.a.aggregate-function": "sum"},
        {"fields.default-aggregate-function": "sum"},
    )
]


@pytest.mark.parametrize("options", [*MISTYPED, *UNUSED], ids=str)
def test_options_of_columns_that_would_have_no_effect_are_refused(
    tmp_path: Path, options: dict[str, str]
) -> None:
    catalog, (*others, key) = wt.Catalog(tmp_path), options
    refused = wt.InvalidError if options in UNUSED else wt.UnsupportedError
    with pytest.raises(refused, match=key):
        catalog.create_table("db.t", COLUMNS, primary_key=["k"], options=options)
    engine = {other: options[other] for other in others}
    catalog.create_table("db.t", COLUMNS, primary_key=["k"], options=engine)
    with pytest.raises(refused, match=key):
        catalog.alter_table("db.t", set_options={key: options[key]})
    assert catalog.table("db.t").schema.id == 0


@pytest.mark.parametrize("options", [*MISTYPED, *UNUSED], ids=str)
def test_in_a_table_of_another_client_they_stay_without_effect(
    tmp_path: Path, options: dict[str, str]
) -> None:
    catalog, given = wt.Catalog(tmp_path), dict(options)
    key = list(given)[-1]
    value = given.pop(key)
    made = catalog.create_table("db.t", COLUMNS, primary_key=["k"], options=given)
    path = Path(made.path, "schema/schema-0")
    schema = json.loads(path.read_bytes())
    path.write_text(json.dumps({**schema, "options": {**schema["options"], key: value}}))
    table = catalog.table("db.t")
    table.write({"k": [1], "a": [1]})
    assert table.scan(["a"]).to_arrow().to_pylist() == [{"a": 1}]
    catalog.alter_table("db.t", set_options={"write-only": "true"})


def test_what_options_of_columns_may_say_is_what_is_read() -> None:
    assert {"sequence-group", "aggregate-function", *(o.key for o in COLUMN_OPTIONS)} == FIELD_WORDS


def test_another_number_of_buckets_is_given_by_rescaling(tmp_path: Path) -> None:
    catalog = wt.Catalog(tmp_path)
    catalog.create_table("db.t", COLUMNS, primary_key=["k"], options={"bucket": "1"})
    with pytest.raises(wt.InvalidError, match="widetable rescale"):
        catalog.alter_table("db.t", set_options={"bucket": "4"})
    with pytest.raises(wt.UnsupportedError, match=r"'bucket': found 0; .*Set one of"):
        catalog.create_table("db.n", COLUMNS, primary_key=["k"], options={"bucket": "0"})


def test_a_frame_is_no_schema_and_a_text_no_map(tmp_path: Path) -> None:
    catalog = wt.Catalog(tmp_path)
    for frame in (pd.DataFrame({"id": [1]}), ["id", "ab"]):
        with pytest.raises(wt.InvalidError, match="schema"):
            catalog.create_table("db.t", frame, primary_key=["id"])
    table = catalog.create_table("db.t", COLUMNS, primary_key=["k"])
    for text in ("", b"", "ab"):
        with pytest.raises(wt.InvalidError, match="'m'"):
            table.write({"k": [1], "m": [text]})
    table.write({"k": [1, 2], "m": [{}, [("x", 1)]]})
    assert table.scan(["m"]).to_arrow()["m"].to_pylist() == [[], [("x", 1)]]
