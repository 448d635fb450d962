"""A table that gets other buckets in between has the rows of all records from scratch: late ones, and those of writers
that commit afterwards what they placed before.
"""

from __future__ import annotations

from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import widetable as wt
from tests.support.models.model import Model
from tests.support.models.random_table import (
    check_levels,
    data_of,
    make,
    rows_of,
    stamped_commits,
    table_specs,
    texts,
)


@pytest.mark.parametrize("ordered", [False, True], ids=["any table", "with sequences"])
@settings(max_examples=max(10, settings().max_examples // 2))
@given(data=st.data())
def test_rows_do_not_depend_on_rescaling(ordered: bool, data: st.DataObject) -> None:
    specs = table_specs()
    if ordered:
        specs = specs.filter(lambda s: bool(s.schema.sequence_fields or s.schema.sequence_groups))
    spec = data.draw(specs, "table")
    model = Model(spec.schema)
    with TemporaryDirectory() as folder:
        table = make(folder, spec)
        for _ in range(data.draw(st.integers(1, 3), "rounds")):
            for commit in data.draw(
                st.lists(stamped_commits(spec.schema, spec.keys), min_size=1, max_size=3), "commits"
            ):
                model.write(commit.records)
                table.write(data_of(spec.schema, commit))
            last = table.snapshots()
            if data.draw(st.booleans(), "compacted"):
                table.compact(full=True)
                last = table.snapshots()
            late = data.draw(stamped_commits(spec.schema, spec.keys), "late")
            messages = messages_of(table, data_of(spec.schema, late))
            table.rescale(data.draw(st.integers(1, 4), "buckets"))
            if last and table.snapshots()[-1].commit_kind == "OVERWRITE":
                assert table.changes(last[-1].id, table.snapshots()[-1].id).num_rows == 0
            model.write(late.records)
            table.commit_append(messages)
            table = wt.Table.open(table.path)
            assert rows_of(table) == texts(model.rows())
            check_levels(table.path, table.schema)
        table.compact(full=True)
        assert rows_of(table) == texts(model.rows())
        assert table.audit().findings == ()
        assert table.remove_orphan_files(older_than_millis=0, dry_run=True).paths == ()


def messages_of(table: wt.Table, data: pa.Table) -> list[wt.CommitMessage]:
    """Of a writer that knows the buckets of now."""
    with table.new_writer(data.column_names) as writer:
        writer.write(data)
        return writer.finish()


G = "fields.g.sequence-group"
# Records (kind, a, b, g) of one key, a late one after the rescaling, and the row then; worked out by hand.
LATE: dict[str, tuple[dict[str, str], list[tuple[object, ...]], tuple[object, ...]]] = {
    "partial-update by sequence": (
        {"merge-engine": "partial-update", "sequence.field": "g"},
        [("+I", 10, None, 5), ("+I", None, 1, 9), ("+I", 20, None, 7)],
        (20, 1, 9),
    ),
    "deduplicate by sequence": (
        {"sequence.field": "g"},
        [("+I", 10, 0, 5), ("-D", 10, 0, 9), ("+I", 20, 0, 7)],
        (),
    ),
    "a group that was cleared": (
        {"merge-engine": "partial-update", G: "a"},
        [("+I", 10, 1, 5), ("-D", 10, None, 9), ("+I", 20, None, 7)],
        (None, 1, 9),
    ),
    "a record that a group removed": (
        {
            "merge-engine": "partial-update",
            G: "a",
            "partial-update.remove-record-on-sequence-group": "g",
        },
        [("+I", 10, 1, 5), ("-D", None, None, 9), ("+I", 20, None, 7)],
        (None, None, 9),
    ),
    "aggregation by sequence": (
        {
            "merge-engine": "aggregation",
            "sequence.field": "g",
            "fields.a.aggregate-function": "last_non_null_value",
            "fields.b.aggregate-function": "first_value",
        },
        [("+I", 10, 3, 5), ("+I", None, 1, 9), ("+I", 20, 2, 7)],
        (20, 3, 9),
    ),
}


@pytest.mark.parametrize("case", LATE)
def test_a_late_record_finds_what_it_would_have_found(
    tmp_path_factory: pytest.TempPathFactory, case: str
) -> None:
    options, records, row = LATE[case]
    for rescaled in (False, True):
        table = wt.Catalog(str(tmp_path_factory.mktemp("w"))).create_table(
            "db.t",
            {"k": "BIGINT", "a": "BIGINT", "b": "BIGINT", "g": "BIGINT"},
            primary_key=["k"],
            options={"bucket": "2", "widetable.fsync": "false", **options},
        )
        for number, (kind, a, b, g) in enumerate(records):
            if rescaled and number == len(records) - 1:
                assert len(table.rescale(3)) == 1
            table.write({"k": [1], "a": [a], "b": [b], "g": [g], "_row_kind": [kind]})
        found = [tuple(each.values())[1:] for each in table.scan().to_arrow().to_pylist()]
        assert found == ([row] if row else []), rescaled
