"""Rounds and chunks on real tables: cases 5, 8, 11, 14, 15 and 22 of the specification, groups, and repeats."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.cdc.applying.plain_types import DECIMAL, INT64, STRING
from tests.cdc.applying.written_changes import Change, batches, relation
from widetable import Catalog, InvalidError, Table
from widetable_cdc.applying.barrier_line import LsnLine
from widetable_cdc.applying.error_rows import ErrorTable
from widetable_cdc.applying.last_states import last_states
from widetable_cdc.applying.round_rows import Reread, Round, Spares
from widetable_cdc.applying.row_events import row_events
from widetable_cdc.applying.target import LSN_PROPERTY, BarrierTarget, PlainTarget
from widetable_cdc.log.changes import Kind, OldRow

FORM = relation("id", "name", "big")
BIG = frozenset(("big",))
TYPES = {"id": INT64, "name": STRING, "big": STRING}
COLUMNS = {"id": "BIGINT NOT NULL", "name": "STRING", "big": "STRING"}
MIRROR = {"widetable.barrier-interval": "1 ms", "changelog-producer": "lookup", "bucket": "2"}
FIRST = 23_803_720
LATE = 5_000_000_000_000  # above the milliseconds of today
HUGE = "x" * 96_000


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(tmp_path)


def mirror(
    catalog: Catalog, name: str = "db.t", columns: dict[str, str] | None = None
) -> BarrierTarget:
    catalog.create_table(name, columns or COLUMNS, primary_key=["id"], options=MIRROR)
    return BarrierTarget(catalog, name, "cdc/shop", LsnLine())


def errors_of(catalog: Catalog, *, stops: bool = False) -> ErrorTable:
    return ErrorTable(catalog, "db", "shop", stops)


def round_of(
    catalog: Catalog,
    changes: Sequence[Change],
    lsn: int,
    types: dict[str, Any] = TYPES,
    spares: Spares | None = None,
    reread: Reread | None = None,
) -> Round:
    states = last_states([row_events(batch, ["id"]) for batch in batches(changes)])
    return Round(states, types, lsn, errors_of(catalog), spares, reread)


def insert(key: int, name: str | None = None, big: str | None = None, lsn: int = FIRST) -> Change:
    return Change(FORM, Kind.INSERT, {"id": str(key), "name": name, "big": big}, end_lsn=lsn)


def delete(key: int, lsn: int = FIRST) -> Change:
    return Change(FORM, Kind.DELETE, old={"id": str(key)}, old_row=OldRow.KEY, end_lsn=lsn)


def update(key: int, name: str | None, old: int | None = None, lsn: int = FIRST) -> Change:
    """An update that does not carry the big value."""
    new = {"id": str(key), "name": name}
    if old is None:
        return Change(FORM, Kind.UPDATE, new, unchanged=BIG, end_lsn=lsn)
    return Change(FORM, Kind.UPDATE, new, {"id": str(old)}, OldRow.KEY, BIG, end_lsn=lsn)


def rows(table: Table) -> dict[int, tuple[Any, ...]]:
    listed = table.scan().to_arrow().to_pylist()
    return {row["id"]: tuple(v for n, v in row.items() if n != "id") for row in listed}


def check(table: Table) -> None:
    report = table.audit()
    assert report.findings == ()
    assert report.found == {}


def changelog(table: Table, after: int, to: int) -> list[tuple[str, int]]:
    table.wait_for_compactions()
    read = table.changes(after, to, mode="barrier").to_pylist()
    return sorted((row["_row_kind"], row["id"]) for row in read)


def test_a_round_is_one_commit_that_a_repeat_does_not_add_to(catalog: Catalog) -> None:
    target = mirror(catalog)
    assert target.position() is None
    changes = [insert(1, "a", HUGE), insert(2, "b"), delete(2), update(1, "c")]
    result = target.apply(round_of(catalog, changes, FIRST))
    assert result.committed
    assert rows(target.table) == {1: ("c", HUGE)}
    assert target.position() == FIRST
    (own,) = [s for s in target.table.snapshots() if s.commit_identifier == FIRST]
    assert own.properties[LSN_PROPERTY] == own.properties["widetable.barrier"] == str(FIRST)
    again = BarrierTarget(catalog, "db.t", "cdc/shop", LsnLine())
    assert not again.apply(round_of(catalog, changes, FIRST)).committed
    assert again.position() == FIRST
    with pytest.raises(InvalidError):
        again.apply(round_of(catalog, changes, FIRST - 1))
    check(target.table)


def test_two_tables_show_one_transaction_whole_or_not_at_all(catalog: Catalog) -> None:
    """Case 5, with the LSNs of a new server, and with those of one that wrote more bytes than milliseconds passed."""
    one, two = mirror(catalog, "db.a"), mirror(catalog, "db.b")

    def shown() -> tuple[int | None, list[int]]:
        with catalog.session(["db.a", "db.b"]) as session:
            tables = [session.table(name).scan().to_arrow() for name in ("db.a", "db.b")]
            return session.barrier, [table.num_rows for table in tables]

    for target in (one, two):
        target.apply(round_of(catalog, [insert(0)], FIRST))
    before = FIRST
    for count, lsn in enumerate((FIRST + 48, LATE), 1):
        one.apply(round_of(catalog, [insert(count)], lsn))
        assert shown() == (before, [count, count])
        two.apply(round_of(catalog, [insert(count)], lsn))
        assert shown() == (lsn, [count + 1, count + 1])
        before = lsn
    with catalog.session(["db.a", "db.b"], as_of=LATE) as session:
        assert session.table("db.a").scan().to_arrow().num_rows == 3
    for table in (one.table, two.table):
        check(table)


def test_a_table_without_changes_passes_on(catalog: Catalog) -> None:
    one, two = mirror(catalog, "db.a"), mirror(catalog, "db.b")
    one.apply(round_of(catalog, [insert(1)], FIRST))
    two.complete(FIRST)
    with catalog.session(["db.a", "db.b"]) as session:
        assert session.barrier == FIRST
    assert (one.position(), two.position()) == (FIRST, None)


def test_a_big_value_is_kept_when_other_columns_change(catalog: Catalog) -> None:
    """Case 8."""
    target = mirror(catalog)
    target.apply(round_of(catalog, [insert(1, "a", HUGE), insert(2, "b", HUGE * 2)], FIRST))
    changes = [update(1, "x"), update(20, "y", old=2), update(30, None, old=20)]
    target.apply(round_of(catalog, changes, FIRST + 8))
    assert rows(target.table) == {1: ("x", HUGE), 30: (None, HUGE * 2)}
    assert changelog(target.table, FIRST, FIRST + 8) == [
        ("+I", 30),
        ("+U", 1),
        ("-D", 2),
        ("-U", 1),
    ]
    check(target.table)


def test_a_null_is_a_value(catalog: Catalog) -> None:
    """Case 14, in a mirror."""
    target = mirror(catalog)
    target.apply(round_of(catalog, [insert(1, "a", "B")], FIRST))
    target.apply(round_of(catalog, [update(1, None)], FIRST + 8))
    assert rows(target.table) == {1: (None, "B")}


def test_a_truncate_gives_readers_a_delete_per_row(catalog: Catalog) -> None:
    """Case 11; rows that come after it in its round stay."""
    target = mirror(catalog)
    target.apply(round_of(catalog, [insert(key, "a") for key in range(5)], FIRST))
    truncate = Change(FORM, Kind.TRUNCATE, end_lsn=FIRST + 8)
    target.apply(round_of(catalog, [update(1, "b"), truncate], FIRST + 8))
    assert rows(target.table) == {}
    assert changelog(target.table, FIRST, FIRST + 8) == [("-D", key) for key in range(5)]
    target.apply(round_of(catalog, [insert(7), truncate, insert(8), insert(9, "c")], FIRST + 16))
    assert rows(target.table) == {8: (None, None), 9: ("c", None)}
    check(target.table)


def test_a_truncate_spares_chunks_that_have_seen_it(catalog: Catalog) -> None:
    target = mirror(catalog)
    target.apply(round_of(catalog, [insert(key, "a", "B") for key in (1, 2, 8, 9)], FIRST))

    def spares(keys: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        return np.asarray(keys.column("id")) > 5

    changes = [Change(FORM, Kind.TRUNCATE, end_lsn=FIRST + 8), update(9, "b"), update(2, "b")]
    target.apply(round_of(catalog, changes, FIRST + 8, spares=spares))
    # 9 has its big value still; that of 2 went with the truncate, so it is not to be had.
    assert rows(target.table) == {8: ("a", "B"), 9: ("b", "B")}
    assert catalog.table("db.__cdc_errors").scan().to_arrow()["key"].to_pylist() == ['{"id": "2"}']


def test_a_bad_row_is_kept_apart_once_and_its_next_change_arrives(catalog: Catalog) -> None:
    """Case 15."""
    form = relation("id", "amount")
    target = mirror(catalog, columns={"id": "BIGINT NOT NULL", "amount": "DECIMAL(10, 2)"})
    types = {"id": INT64, "amount": DECIMAL}

    def change(key: int, amount: str, lsn: int) -> Change:
        return Change(form, Kind.UPDATE, {"id": str(key), "amount": amount}, end_lsn=lsn)

    bad = [change(1, "2.50", FIRST), change(2, "3.00", FIRST), change(1, "NaN", FIRST)]
    errors = errors_of(catalog)
    states = last_states([row_events(batch, ["id"]) for batch in batches(bad)])
    target.apply(Round(states, types, FIRST, errors))
    assert errors.count == 1
    seen = catalog.table("db.__cdc_errors").scan().to_arrow()["time"].to_pylist()
    # A replay in another round, as after a crash between the two commits.
    other = BarrierTarget(catalog, "db.t", "cdc/shop", LsnLine())
    other.apply(round_of(catalog, [*bad, change(3, "1.00", FIRST + 8)], FIRST + 8, types))
    (row,) = catalog.table("db.__cdc_errors").scan().to_arrow().to_pylist()
    assert [row.pop("time")] == seen
    assert row == {
        "name": "shop",
        "relation": "public.t",
        "lsn": FIRST,
        "position": 2,
        "kind": "+U",
        "key": '{"id": "1"}',
        "row": '{"amount": "NaN"}',
        "reason": "column 'amount': a NaN",
    }
    other.apply(round_of(catalog, [change(1, "4.10", FIRST + 16)], FIRST + 16, types))
    assert rows(target.table) == {
        k: (Decimal(v),) for k, v in {1: "4.10", 2: "3.00", 3: "1.00"}.items()
    }


def test_a_job_may_stop_before_a_bad_row(catalog: Catalog) -> None:
    form = relation("id", "amount")
    target = mirror(catalog, columns={"id": "BIGINT NOT NULL", "amount": "DECIMAL(10, 2)"})
    bad = [Change(form, Kind.INSERT, {"id": "1", "amount": "NaN"})]
    states = last_states([row_events(batch, ["id"]) for batch in batches(bad)])
    types = {"id": INT64, "amount": DECIMAL}
    with pytest.raises(InvalidError, match=r"public\.t, key \{\"id\": \"1\"\}.*1 row.*a NaN"):
        target.apply(Round(states, types, FIRST, errors_of(catalog, stops=True)))
    assert target.position() is None
    assert target.table.inspect.files().num_rows == 0


def test_a_value_that_is_nowhere_is_read_from_the_source(catalog: Catalog) -> None:
    """A row that moved from a chunk that has seen it; what the source has no more becomes an error, never a null."""
    target = mirror(catalog)
    wanted: list[tuple[list[int], list[int]]] = []

    def reread(keys: pa.RecordBatch, xids: npt.NDArray[np.uint32]) -> pa.Table:
        wanted.append((keys.column("id").to_pylist(), xids.tolist()))
        return pa.table({"id": [20], "name": ["read"], "big": [HUGE]})

    changes = [update(10, "x", old=1), update(20, "y", old=2), insert(3, "z", "B")]
    target.apply(round_of(catalog, changes, FIRST, reread=reread))
    assert wanted == [([10, 20], [900, 900])]
    assert rows(target.table) == {20: ("read", HUGE), 3: ("z", "B")}
    errors = catalog.table("db.__cdc_errors").scan().to_arrow().to_pylist()
    assert [(e["key"], e["row"]) for e in errors] == [('{"id": "10"}', '{"name": "x"}')]


def chunk(*rows: tuple[int, str]) -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_pylist([{"id": k, "name": n, "big": "B"}]) for k, n in rows]


def test_a_chunk_is_visible_and_its_repeat_replaces_its_range(catalog: Catalog) -> None:
    """Case 4: a row that was deleted in between is gone."""
    target = mirror(catalog)
    target.copy(chunk((1, "a"), (5, "a"), (9, "a")), lsn=FIRST)
    assert target.position() is None
    assert sorted(rows(target.table)) == [1, 5, 9]
    below_six = pc.field("id") < 6
    target.copy(chunk((1, "b"), (2, "b")), lsn=FIRST, replaces=below_six)
    assert rows(target.table) == {1: ("b", "B"), 2: ("b", "B"), 9: ("a", "B")}
    target.copy([], lsn=FIRST, replaces=below_six)
    target.apply(round_of(catalog, [update(9, "c")], FIRST))
    assert rows(target.table) == {9: ("c", "B")}
    with catalog.session(["db.t"]) as session:
        assert session.barrier == FIRST
        assert session.table("db.t").scan().to_arrow()["id"].to_pylist() == [9]
    target.copy(chunk((10, "d")), lsn=FIRST)
    target.apply(round_of(catalog, [], FIRST + 8))
    with catalog.session(["db.t"]) as session:
        assert sorted(session.table("db.t").scan().to_arrow()["id"].to_pylist()) == [9, 10]
    check(target.table)


WIDE = {
    "id": "BIGINT NOT NULL",
    "name": "STRING",
    "big": "STRING",
    "lsn": "BIGINT",
    "other": "STRING",
    "at": "BIGINT",
}
GROUPS = {
    "merge-engine": "partial-update",
    "fields.lsn.sequence-group": "name,big",
    "fields.at.sequence-group": "other",
    "changelog-producer": "lookup",
}


def wide(catalog: Catalog, **options: str) -> PlainTarget:
    table = catalog.create_table("db.w", WIDE, primary_key=["id"], options=GROUPS | options)
    return PlainTarget(table, "cdc/shop", "lsn")


def test_a_group_of_a_wide_table_leaves_the_others_alone(catalog: Catalog) -> None:
    """Cases 14 and 25: nulls are values, and a delete empties the group alone."""
    target = wide(catalog)
    target.table.write([{"id": key, "other": f"o{key}", "at": 1} for key in (1, 2, 3)])
    changes = [insert(1, "a", "B"), insert(2, "b", "C"), insert(4, "d", "E")]
    assert target.apply(round_of(catalog, changes, FIRST)).committed
    assert not target.apply(round_of(catalog, changes, FIRST)).committed
    later = FIRST + 8
    target.apply(round_of(catalog, [update(1, None, lsn=later), delete(2, later)], later))
    assert rows(target.table) == {
        1: (None, "B", later, "o1", 1),
        2: (None, None, later, "o2", 1),
        3: (None, None, None, "o3", 1),
        4: ("d", "E", FIRST, None, None),
    }
    assert target.position() == later
    check(target.table)


def test_a_value_is_not_taken_from_a_row_that_other_groups_have(catalog: Catalog) -> None:
    """Case 22 for groups: a change before the chunk of its row, which is there by another group alone."""
    target = wide(catalog)
    target.table.write([{"id": 1, "other": "o1", "at": 1}])
    target.apply(round_of(catalog, [update(1, "x"), insert(2, "y", "C")], FIRST))
    assert rows(target.table) == {1: (None, None, None, "o1", 1), 2: ("y", "C", FIRST, None, None)}
    (error,) = catalog.table("db.__cdc_errors").scan().to_arrow().to_pylist()
    assert (error["key"], error["row"]) == ('{"id": "1"}', '{"name": "x"}')


def test_a_truncate_empties_a_group(catalog: Catalog) -> None:
    target = wide(catalog)
    target.table.write([{"id": key, "other": f"o{key}", "at": 1} for key in (1, 3)])
    target.apply(round_of(catalog, [insert(1, "a", "B")], FIRST))
    truncate, later = Change(FORM, Kind.TRUNCATE, end_lsn=FIRST + 8), FIRST + 8
    target.apply(round_of(catalog, [truncate, insert(5, "e", lsn=later)], later))
    assert rows(target.table) == {
        1: (None, None, later, "o1", 1),
        3: (None, None, None, "o3", 1),
        5: ("e", None, later, None, None),
    }


def test_a_chunk_of_a_group_is_older_than_changes_it_has_not_seen(catalog: Catalog) -> None:
    target = wide(catalog)
    target.apply(round_of(catalog, [insert(1, "new", "B", lsn=FIRST + 8)], FIRST + 8))
    target.copy(chunk((1, "old"), (2, "a"), (3, "a")), lsn=FIRST)
    target.copy(chunk((1, "old"), (2, "b")), lsn=FIRST, replaces=pc.field("id") < 9)
    assert {key: row[0] for key, row in rows(target.table).items()} == {1: "new", 2: "b", 3: None}


def test_a_group_whose_deletes_remove_rows_is_refused(catalog: Catalog) -> None:
    with pytest.raises(InvalidError, match="remove-record-on-sequence-group = 'lsn'"):
        wide(catalog, **{"partial-update.remove-record-on-sequence-group": "lsn"})
    with pytest.raises(InvalidError, match=r"fields\.id\.sequence-group"):
        PlainTarget(catalog.table("db.w"), "cdc/shop", "id")


def test_a_table_without_barriers_is_a_mirror_too(catalog: Catalog) -> None:
    table = catalog.create_table("db.p", COLUMNS, primary_key=["id"])
    target = PlainTarget(table, "cdc/shop")
    target.copy(chunk((1, "a"), (2, "a")), lsn=0)
    target.apply(round_of(catalog, [update(1, "b"), delete(2)], FIRST))
    target.complete(FIRST + 8)
    assert target.position() == FIRST
    assert rows(table) == {1: ("b", "B")}
