"""Tables that we write keep every law, in all that a table can have and do; and an audit is not blind in any of it."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import widetable as wt
from tests.widetable.operations.health.table_surgery import Surgery, with_values
from widetable.operations.health import changelog_audit, changelog_timeline
from widetable.operations.health.audit_report import AuditReport
from widetable.operations.health.changelog_timeline import equal_rows
from widetable.schema.row_kind import UPDATE_AFTER

NAME = "db.t"
KEY = pa.field("k", pa.int64(), nullable=False)
SCHEMA = pa.schema(
    [
        KEY,
        ("a_seq", pa.int32()),
        ("a", pa.float64()),
        ("b_seq", pa.int32()),
        ("b", pa.list_(pa.struct([("x", pa.string())]))),
    ]
)
GROUPS = {
    "merge-engine": "partial-update",
    "fields.a_seq.sequence-group": "a",
    "fields.b_seq.sequence-group": "b",
}
PRODUCERS = ("lookup", "full-compaction")
Make = Callable[..., wt.Table]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def make_table(
        schema: pa.Schema = SCHEMA, partition_by: tuple[str, ...] = (), **options: str
    ) -> wt.Table:
        return wt.Catalog(str(tmp_path)).create_table(
            NAME,
            schema,
            primary_key=["k", *partition_by],
            partition_by=partition_by,
            options={"widetable.fsync": "false", "changelog-producer": "lookup", **options},
        )

    return make_table


def alter(table: wt.Table, **changes: Any) -> wt.Table:
    warehouse = Path(table.path).parents[1]
    return wt.Catalog(str(warehouse)).alter_table(NAME, **changes)


def side(rng: random.Random, group: str, rows: int = 30) -> pa.Table:
    """Rows of one column group, some of them retractions, some late."""
    value: Callable[[], Any] = (
        (lambda: rng.choice([None, 0.0, -0.0, math.nan, rng.random()]))
        if group == "a"
        else (lambda: rng.choice([None, [], [None], [{"x": None}], [{"x": rng.choice("xy")}]]))
    )
    sequences = [rng.choice([None, rng.randrange(100)]) for _ in range(rows)]
    columns = {
        "k": [rng.randrange(40) for _ in range(rows)],
        f"{group}_seq": sequences,
        group: [value() for _ in range(rows)],
        # A -D without a sequence is refused.
        "_row_kind": [
            rng.choice(["+I", "+I", "+I", "+I" if sequence is None else "-D"])
            for sequence in sequences
        ],
    }
    fields = [*(SCHEMA.field(n) for n in ("k", f"{group}_seq", group)), ("_row_kind", pa.string())]
    return pa.table(columns, pa.schema(fields))


def check(report: AuditReport) -> None:
    assert report.findings == ()
    assert report.ok
    assert report.skipped == ()
    assert min(report.checks[law] for law in ("chain", "fold", "merged-rows")) > 0


@pytest.mark.parametrize("producer", PRODUCERS)
@pytest.mark.parametrize("engine", ["partial-update", "deduplicate"])
def test_histories_keep_every_law(
    producer: str, engine: str, make: Make, rng: random.Random
) -> None:
    options = GROUPS if engine == "partial-update" else {}
    table = make(bucket="2", **options, **{"changelog-producer": producer})
    for number in range(10):
        table.write(side(rng, rng.choice("ab")))
        if number % 4 == 3:
            table.compact(full=producer == "full-compaction")
    check(table.audit())
    check(table.audit(start=4))


def test_a_bucket_is_looked_at_in_parts(make: Make, rng: random.Random) -> None:
    table = make(**GROUPS)
    for _ in range(6):
        table.write(side(rng, rng.choice("ab")))
    whole = table.audit()
    check(whole)
    in_parts = alter(table, set_options={"write-buffer-size": "4 kb"}).audit()
    check(in_parts)
    assert in_parts.checks["chain"] == whole.checks["chain"]
    assert in_parts.checks["merged-rows"] == whole.checks["merged-rows"]


def test_parts_see_what_is_wrong(make: Make, tmp_path: Path) -> None:
    table = make(schema=pa.schema([KEY, ("v", pa.string())]))
    for number in range(3):
        table.write(pa.table({"k": range(100), "v": [f"v{number}-{k}" for k in range(100)]}))
    alter(table, set_options={"write-buffer-size": "8 kb"})
    surgery = Surgery(Path(table.path))
    surgery.alter_rows(6, "changelog", lambda rows: with_values(rows, 40, v="wrong"))
    found = wt.Table.open(surgery.root.rename(tmp_path / "moved").as_posix()).audit()
    assert found.found == {"chain": 1}
    assert found.findings[0].key == {"k": 20}


def test_a_pair_may_lie_in_two_files(make: Make) -> None:
    table = make(schema=pa.schema([KEY, ("v", pa.string())]), **{"target-file-size": "1 kb"})
    for step in (2, 1):
        keys = range(0, 500, step)
        table.write(pa.table({"k": keys, "v": [f"v{step}-{k}" for k in keys]}))
    entries = table._committer.live_files.changelog_entries(table.snapshots()[-1])
    firsts = [
        pq.read_table(Path(table.path, "bucket-0", entry.file.file_name))["_VALUE_KIND"][0].as_py()
        for entry in entries
    ]
    assert UPDATE_AFTER in firsts
    check(table.audit())


def test_large_buckets_are_folded_at_some_snapshots(make: Make, rng: random.Random) -> None:
    table = make(**GROUPS)
    for _ in range(8):
        table.write(side(rng, "a"))
    whole = table.audit()
    some = table.audit(folded_rows=100)
    assert some.ok
    assert 1 <= some.checks["fold"] < whole.checks["fold"] == 8
    assert some.checks["chain"] == whole.checks["chain"]
    assert len(some.skipped) == 1


def test_what_waits_in_level_0_is_not_emitted_yet(make: Make, rng: random.Random) -> None:
    table = make(**GROUPS, **{"write-only": "true"})
    table.write(side(rng, "a"))
    table.write(side(rng, "b"))
    table.compact()
    table.write(side(rng, "a"))
    check(table.audit())
    check(table.audit(start=2))


def test_an_overwrite_begins_anew(make: Make, rng: random.Random) -> None:
    table = make(**GROUPS)
    table.write(side(rng, "a"))
    table.overwrite(side(rng, "a"))
    table.write(side(rng, "b"))
    table.write(side(rng, "a"))
    check(table.audit())


def test_partitions_are_kept_apart(make: Make) -> None:
    schema = pa.schema([KEY, pa.field("day", pa.string(), nullable=False), ("v", pa.string())])
    table = make(schema=schema, partition_by=("day",), bucket="2")
    for number in range(3):
        for day in ("mon", "tue"):
            rows = {"k": range(10), "day": [day] * 10, "v": [f"{day}{number}"] * 10}
            table.write(pa.table(rows, schema))
    report = table.audit()
    check(report)
    assert report.checks["chain"] == 2 * (10 + 2 * 20)


def test_columns_may_come_and_be_widened(make: Make, rng: random.Random) -> None:
    table = make(**GROUPS)
    table.write(side(rng, "a"))
    table = alter(table, add_columns=[pa.field("more", pa.string())])
    table.write(pa.table({"k": list(range(40)), "more": ["m"] * 40}))
    table.write(side(rng, "b"))
    check(table.audit())


def test_columns_that_emit_no_change_are_left_out(make: Make) -> None:
    options = {
        "changelog-producer.row-deduplicate": "true",
        "changelog-producer.row-deduplicate-ignore-fields": "seen",
    }
    table = make(schema=pa.schema([KEY, ("v", pa.string()), ("seen", pa.int64())]), **options)
    for number in range(4):
        table.write(pa.table({"k": [1, 2], "v": ["x", f"{number // 2}"], "seen": [number] * 2}))
    report = table.audit()
    check(report)
    assert report.checks["chain"] == 2 + 2


def test_a_changelog_that_began_later_is_audited_from_there(make: Make, rng: random.Random) -> None:
    table = make(**GROUPS, **{"changelog-producer": "none"})
    table.write(side(rng, "a"))
    table.write(side(rng, "a"))
    assert "keeps no changelog" in table.audit().skipped[0]
    table = alter(table, set_options={"changelog-producer": "lookup"})
    table.write(side(rng, "b"))
    table.write(side(rng, "a"))
    report = table.audit()
    assert report.ok, report.findings
    assert [text.partition(",")[0] for text in report.skipped] == [
        "changelog laws up to snapshot 2"
    ]
    assert report.checks["fold"] == 2


def test_input_changelogs_have_laws_of_their_own(make: Make, rng: random.Random) -> None:
    table = make(**GROUPS, **{"changelog-producer": "input"})
    table.write(side(rng, "a"))
    report = table.audit()
    assert report.ok
    assert "up to the merge engine" in report.skipped[0]
    assert report.checks["file"] == 2


def test_columns_that_no_file_has_are_not_compared(
    make: Make, rng: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A comparison of two columns of nulls costs as much as one of values, and there may be thousands."""
    table = make(**GROUPS)
    table.write(side(rng, "a"))
    table.write(side(rng, "a"))
    compared = []

    def spied(*arguments: Any) -> Any:
        compared.append(set(arguments[-1]))
        return equal_rows(*arguments)

    monkeypatch.setattr(changelog_audit, "equal_rows", spied)
    monkeypatch.setattr(changelog_timeline, "equal_rows", spied)
    report = table.audit()
    assert report.ok, report.findings
    assert compared
    assert set().union(*compared) == {"k", "a_seq", "a"}
