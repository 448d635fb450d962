"""What is refused, and when: each check refuses alone, for each of its uses, and nothing else calls a check."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

import widetable as wt
from tests.support.programs.pages import ROOT
from tests.support.programs.parsed_source import parsed
from tests.test_style import PACKAGES, sources
from widetable.acceptance.acceptance import CHECKS, Case, Check, Use, accept
from widetable.acceptance.refusals_doc import render
from widetable.merge.engine import engine_of
from widetable.schema.new_schema import arrow_schema, new_schema
from widetable.schema.table_schema import TableSchema
from widetable.schema.tag_options import PROCESS_TIME_ZONE

COLUMNS = {"k": "BIGINT", "p": "STRING", "a": "INT", "b": "INT", "s": "INT", "l": "ARRAY<INT>"}
PARTIAL = {"merge-engine": "partial-update"}
SUMS = {"merge-engine": "aggregation", "sequence.field": "s"} | {
    f"fields.{name}.aggregate-function": "sum" for name in ("a", "b")
}
VECTORS = {"deletion-vectors.enabled": "true"}
# The hash of a bucket lies below the list.
EXEMPT = {("widetable/format/bucket_hash.py", "check_fixed_buckets")}


def table(
    options: Mapping[str, str] = MappingProxyType({}),
    columns: Mapping[str, str] = MappingProxyType({}),
    **keys: Any,
) -> TableSchema:
    """A table of COLUMNS and more, with options, and with other keys than k and p."""
    schema = new_schema(
        arrow_schema({**COLUMNS, **columns}, "schema"),
        primary_key=["k", "p"],
        partition_by=["p"],
    )
    return replace(schema, **keys, options={**schema.options, **options})


GOOD = table()
DYNAMIC = table({"bucket": "-1"})
BARRIERS = table({"widetable.barrier-interval": "1 s"})
# By the check's name: the table, and the one before where an alteration is refused.
REFUSED: dict[str, tuple[TableSchema, TableSchema] | TableSchema] = {
    "check_alter": (table({"bucket": "3"}), GOOD),
    "check_texts": replace(GOOD, comment="\ud800"),
    "check_names": table(columns={"": "INT"}),
    "check_reserved": (table(columns={"_SEQUENCE_NUMBER": "INT"}), GOOD),
    "check_keys": table(primary_keys=("p",)),
    "check_rows_are_read": table({"branch": "b"}),
    "check_buckets_are_read": table({"bucket": "0"}),
    "check_has_key": table(primary_keys=(), partition_keys=()),
    "check_append": table({"bucket": "-1", "merge-engine": "partial-update"}, primary_keys=()),
    "check_key_has_partition": table(primary_keys=("k",)),
    "check_values": table({"write-buffer-size": "q"}),
    "check_zone": table(
        {"tag.automatic-creation": "process-time", PROCESS_TIME_ZONE.key: "Mars/North"}
    ),
    "check_file_indexes": table({"file-index.bitmap.columns": "q"}),
    "check_field_options": table({**PARTIAL, "fields.q.ignore-retract": "true"}),
    "check_partition_times": table({"partition.timestamp-formatter": "QQ"}),
    "check_bucket_number": table({"bucket": "-2", "changelog-producer": "input"}),
    "check_bucket_keys": table({"bucket-key": "a"}),
    "check_sequence_fields": table({"sequence.field": "s,s"}),
    "check_rowkind_field": table({"rowkind.field": "a"}),
    "check_fixed_buckets": DYNAMIC,
    "check_one_writer": DYNAMIC,
    "engine_of": table({"merge-engine": "first-row", "sequence.field": "s"}),
    "check_declared": table({"no.such": "1"}),
    "check_honoured": table({"no.such": "1"}),
    "check_used": table({"fields.a.ignore-retract": "true"}),
    "check_changelog_producer": table({"changelog-producer.row-deduplicate-ignore-fields": "q"}),
    "check_deletion_vectors": (
        table({**VECTORS, "changelog-producer": "full-compaction"}),
        table(VECTORS),
    ),
    "check_ordered": table({"sequence.field": "l"}),
    "check_record_expiry": table({"record-level.expire-time": "1 d"}),
    "check_barriers": table({"widetable.barrier-stage": "true"}),
    "check_indexes": table({"index.l": "db.i"}),
    "check_history": table({"history.table": "db.h"}, {"_from": "INT"}),
    "check_tiles": table({"tiles.from": "db.t"}),
    "check_widened": table(
        {**PARTIAL, "widen.a": "db.dim(w)", "fields._widen_a.sequence-group": "w"},
        {"w": "INT NOT NULL", "_widen_a": "BIGINT"},
    ),
    "check_joined_rows": table(
        {"join.left": "d.l", "join.right": "d.r", "join.on": "a=a", "ignore-delete": "true"}
    ),
    "check_partition_types": table(columns={"p": "BYTES"}),
    "check_orders": (
        table({"sequence.field": "a"}, {"a": "STRING"}),
        table({"sequence.field": "a"}),
    ),
    "check_groups": (
        table({**PARTIAL, "fields.s.sequence-group": "a,b"}),
        table({**PARTIAL, "fields.s.sequence-group": "a"}),
    ),
    "check_functions": (
        table({"merge-engine": "aggregation", "fields.a.aggregate-function": "max"}),
        table({"merge-engine": "aggregation", "fields.a.aggregate-function": "sum"}),
    ),
    "check_given_rows": table({"widetable.index-of": "db.t"}),
    "check_needs_no_writer": BARRIERS,
    "check_rows_stay": BARRIERS,
    "check_stands_alone": table({"index.a": "db.i"}),
    "check_changelog_expires": table({"changelog.time-retained": "1 d"}),
    "check_auditable": table({"data-file.path-directory": "elsewhere"}),
}


def name_of(check: Check) -> str:
    return check.check.__name__


def refuses(check: Check, case: Case) -> bool:
    try:
        check.check(*check.arguments(case))
    except wt.WidetableError:
        return True
    return False


@pytest.mark.parametrize(
    ("check", "use"),
    [(check, use) for check in CHECKS for use in check.uses],
    ids=lambda each: each.value[0] if isinstance(each, Use) else name_of(each),
)
def test_each_check_refuses_alone_for_each_of_its_uses(check: Check, use: Use) -> None:
    refused = REFUSED[name_of(check)]
    schema, before = refused if isinstance(refused, tuple) else (refused, refused)
    of_use = [each for each in CHECKS if use in each.uses]
    past = before if use is Use.ALTER else None
    case = Case(schema, "/table", past, schema.options, {})
    refusing = [name_of(each) for each in of_use if refuses(each, case)]
    # The checks below that of the engine use the engine.
    assert (refusing[:1] if check.check == engine_of else refusing) == [name_of(check)]
    with pytest.raises(wt.WidetableError):
        accept(replace(schema), use, path="/table", before=past, given=schema.options)


def test_a_plain_table_is_accepted_for_all_uses() -> None:
    for use in Use:
        accept(GOOD, use, path="/table", before=GOOD if use is Use.ALTER else None)


def test_nothing_else_calls_a_check() -> None:
    homes = {(each.check.__module__, name_of(each)) for each in CHECKS if each.check != engine_of}
    names = {name for _, name in homes}
    faults = []
    for path in sources(PACKAGES):
        if path == Path("widetable/acceptance/acceptance.py"):
            continue
        module = ".".join(path.with_suffix("").parts)
        tree = parsed((ROOT / path).read_text("utf-8"))
        imported = {
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
            if (node.module, alias.name) in homes
        }
        called = {
            node.func.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        of_module = {
            node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
            if (node.value.id, node.attr) in {(home.split(".")[-1], name) for home, name in homes}
        }
        own = of_module | {name for name in called & names if (module, name) in homes}
        faults += [(path.as_posix(), name) for name in sorted(imported | own)]
    below = {(path, name) for path, name in faults if path.startswith("widetable/acceptance/")}
    assert set(faults) - below - EXEMPT == set()
    assert {name for _, name in below} <= {"check_fixed_buckets"}


def test_the_page_is_the_list() -> None:
    assert (ROOT / "docs/refusals.md").read_text("utf-8") == render(), "run: make docs"


def add(catalog: wt.Catalog) -> None:
    catalog.alter_table("db.t", add_columns=[("new", "INT")])


def round_off(catalog: wt.Catalog) -> None:
    catalog.alter_table("db.t", change_types={"a": "DOUBLE"})


@pytest.mark.parametrize("change", [add, round_off])
@pytest.mark.parametrize("more", [{"changelog-producer": "lookup"}, VECTORS])
def test_a_table_that_is_altered_can_still_be_written(
    tmp_path: Path, more: dict[str, str], change: Callable[[wt.Catalog], None]
) -> None:
    catalog = wt.Catalog(tmp_path)
    columns = {name: COLUMNS[name] for name in ("k", "a", "b", "s")}
    made = catalog.create_table("db.t", columns, primary_key=["k"], options={**SUMS, **more})
    with pytest.raises(wt.UnsupportedError):
        change(catalog)
    made.write([{"k": 1, "a": 1, "b": 1, "s": 1}])
    assert made.scan().count() == 1


def test_a_table_that_was_wrong_before_is_altered_in_unrelated_ways() -> None:
    wrong = table({**SUMS, "changelog-producer": "lookup"})
    with pytest.raises(wt.UnsupportedError):
        accept(wrong, Use.MAINTAIN)
    new = replace(wrong, options={**wrong.options, "write-only": "true"})
    accept(new, Use.ALTER, before=wrong, given={"write-only": "true"})
    with pytest.raises(wt.UnsupportedError):
        accept(replace(new), Use.ALTER, before=wrong, given={"changelog-producer": "lookup"})
