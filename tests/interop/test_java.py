"""Random tables under two masters, both ways: Paimon's Java and widetable write, compact and alter one table in turn,
and read the same rows, snapshots, tags and changes. `make interop-java` runs it, for about ten minutes; it needs Maven,
which brings Paimon's jar, and a JDK.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from tests.interop.java.java_process import JavaProcess, JavaTable
from tests.interop.java.java_session import NEEDS_JAVA, client_of, java_rows, our_rows
from tests.interop.random_histories import History, has_plain_keys, history, table_folder
from tests.interop.test_changelog import by_key
from tests.support.models.aggregates import function_of
from tests.support.models.changelog_follower import changes_of
from tests.support.models.random_table import TableSpec, changelog_specs, functions_of, table_specs
from tests.support.models.strategies import drawn_snapshot

TABLES: Final = int(os.environ.get("WIDETABLE_INTEROP_TABLES", "1200"))
pytestmark = [pytest.mark.interop, NEEDS_JAVA]


def is_served(spec: TableSpec) -> bool:
    """Not where Java compares floats as keys: NaN equals every value, rows of other keys are lost; nor where it looks
    up keys of bytes, or in partitions with NUL in their text. It has no `min` and `max` of booleans. test_java_faults
    has each. What late records make of the first value of a group depends on when it compacts (semantics U8). Releases
    so far do not know `nested-sequence-field`.
    """
    schema, options = spec.schema, spec.options
    kinds = {name: schema.field(name).type.root for name in schema.names}
    if any(kinds[n] == "BOOLEAN" and function_of(schema, n) in ("min", "max") for n in kinds):
        return False
    looks_up = (
        options.get("changelog-producer") == "lookup"
        or options["merge-engine"] == "first-row"
        or options.get("deletion-vectors.enabled") == "true"
    )
    has_bytes = not {kinds[n] for n in spec.primary_key}.isdisjoint({"BINARY", "VARBINARY"})
    has_nul = any("\0" in str(key[name]) for key in spec.keys for name in spec.partition_by)
    if looks_up and (has_bytes or has_nul):
        return False
    knows_options = not any(name.endswith("nested-sequence-field") for name in options)
    return knows_options and has_plain_keys(spec)


def begins_with_a_retraction(found: History) -> bool:
    """In partial updates a row begins with the values of a retraction that comes first or removed it: those of
    functions, and all of them where Java wrote it (semantics U6; test_java_faults).
    """
    schema = found.schema
    if schema.options["merge-engine"] != "partial-update":
        return False
    removes = any("partial-update.remove-record" in name for name in schema.options)
    has_functions = bool(schema.sequence_groups and functions_of(schema))
    return found.they_retract or (found.has_retractions and removes and has_functions)


@settings(max_examples=TABLES, deadline=None)
@given(data=st.data())
def test_both_read_the_same_rows(data: st.DataObject, java: JavaProcess) -> None:
    """As it is, compacted by either, and again after more of it."""
    client = client_of(java)
    with table_folder() as folder:
        found = history(data, folder, client, table_specs().filter(is_served))
        for _ in range(2):
            if (
                found.stays_different
                or begins_with_a_retraction(found)
                or not found.table.snapshots()
            ):
                reject()
            if found.waits_for_compaction:
                found.compact(full=True)
            rows = our_rows(found.table)
            assert java_rows(java, found.table) == rows, found.steps
            check_an_older_snapshot(data, java, found)
            for by_them in data.draw(st.permutations([False, True]), label="compacted by them"):
                found.compact(full=True, by_them=by_them)
                assert our_rows(found.table) == rows, found.steps
                assert java_rows(java, found.table) == rows, found.steps
            found.go_on(data)


@pytest.mark.parametrize("producer", ["none", "input", "lookup", "full-compaction"])
def test_both_read_the_same_changes(java: JavaProcess, producer: str) -> None:
    """Of each snapshot, whoever made it; and those of a changelog that lookups make are what happened to the rows."""

    @settings(max_examples=max(1, TABLES // 12), deadline=None)
    @given(data=st.data())
    def run(data: st.DataObject) -> None:
        client = client_of(java, keeps_columns=True)
        with table_folder() as folder:
            found = history(data, folder, client, changelog_specs(producer).filter(is_served))
            if not found.table.snapshots():
                reject()
            check_changes(java, found)

    run()


def check_changes(java: JavaProcess, found: History) -> None:
    table, key = found.table, found.schema.primary_keys
    last = table.snapshots()[-1].id
    theirs = JavaTable(java, Path(table.path)).changes(last)
    ours = [(id, change) for id in range(1, last + 1) for change in changes_of(table, id - 1, id)]
    expected, given = by_key(ours, key), by_key(theirs, key)
    if may_have_several_files(found.spec):
        expected, given = ({k: sorted(v) for k, v in d.items()} for d in (expected, given))
    assert given == expected, found.steps


def may_have_several_files(spec: TableSpec) -> bool:
    """Whether records of a key in one commit may come into several changelog files, of which Java takes one after the
    other, though `sequence.field` has them in another order (test_java_faults).
    """
    is_ordered = "sequence.field" in spec.options and spec.options["changelog-producer"] == "input"
    return is_ordered and spec.options["write-buffer-size"] != "256 mb"


def check_an_older_snapshot(data: st.DataObject, java: JavaProcess, found: History) -> None:
    """By its number, and by a tag that either of us makes. Java reads an older schema with the options of today, which
    may name columns by names that they got since (test_java_faults).
    """
    table = found.table
    chosen = drawn_snapshot(data, [snapshot.id for snapshot in table.snapshots()])
    then = next(snapshot.schema_id for snapshot in table.snapshots() if snapshot.id == chosen)
    if found.waits_for_compaction or then != found.schema.id:
        return
    rows = our_rows(table, snapshot_id=chosen)
    assert java_rows(java, table, snapshot_id=str(chosen)) == rows, found.steps
    name = f"after-{len(found.steps)}"
    if data.draw(st.booleans(), label="our tag"):
        table.create_tag(name, snapshot_id=chosen)
    else:
        JavaTable(java, Path(table.path)).ask("tag", name=name, snapshot=chosen)
    assert our_rows(table, tag=name) == rows
    assert java_rows(java, table, tag_name=name) == rows, found.steps
