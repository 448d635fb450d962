"""Left rows that wait for a match: acceptance case 9 without Spark, and whoever is killed, comes again or too late."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.faults.faults import Fault, FaultyFileIO
from widetable.commit.holds.lookup_pin import PinnedBatch
from widetable.commit.holds.pin_file import LookupPin
from widetable.derive.lookups import late_rows as module
from widetable.derive.lookups.join_plan import JoinArguments
from widetable.derive.lookups.joined_tables import PENDING, LookupJoin, new_lookup_join
from widetable.derive.lookups.late_rows import LateJoin
from widetable.derive.lookups.late_table import BATCH, JOIN
from widetable.operations.handle.open_table import OpenTable
from widetable.storage.local import LocalFileIO

IO = LocalFileIO(fsync=False)
QUERY = "7ba1f9c6-5a2c-4f0c-9f1c-0d7ab1f0a001"
SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64())])
Row = tuple[Any, ...]


@pytest.fixture
def dim(tmp_path: Path) -> wt.Table:
    table = wt.Catalog(tmp_path / "wh").create_table(
        "db.d", {"k": pa.int64(), "name": pa.string()}, primary_key=["k"]
    )
    put(table, (1, "Ann"), (2, "Bob"))
    return table


def put(table: wt.Table, *rows: Row) -> None:
    table.write([dict(zip(table.schema.names, row, strict=True)) for row in rows])


def planned(dim: wt.Table, how: str = "left", batches: int = 2, **named: Any) -> LookupJoin:
    waits = {"retry_batches": batches, "pending": pending_of(dim), "pending_key": "id"}
    return new_lookup_join(SCHEMA, dim, JoinArguments(["k"], how=how, **(waits | named)))


def pending_of(dim: wt.Table) -> Path:
    return Path(dim.path).parent / "late"


def run(
    join: LookupJoin, batch_id: int, *partitions: Sequence[Row], only: int | None = None
) -> list[Row]:
    """What the tasks of a batch give, one for each partition; or one of them."""
    batch = PinnedBatch(QUERY, "0", batch_id)
    pin = join.pin(batch)
    found: list[Row] = []
    for number, rows in enumerate(partitions):
        if only in (None, number):
            found += evaluated(join, batch, pin, rows, is_elected=number == 0)
    return sorted(found, key=str)


def evaluated(
    join: LookupJoin, batch: PinnedBatch, pin: LookupPin, rows: Sequence[Row], *, is_elected: bool
) -> list[Row]:
    given = pa.Table.from_pylist([dict(zip(("id", "k"), row, strict=True)) for row in rows], SCHEMA)
    joined = LateJoin(join, batch, pin).joined(given.to_batches(), is_elected=is_elected)
    return [tuple(row.values()) for each in joined for row in each.to_pylist()]


def waiting(dim: wt.Table) -> list[Row]:
    rows = wt.Table.open(pending_of(dim)).scan(["id", "k", BATCH, JOIN]).to_arrow().to_pylist()
    assert {row.pop(JOIN) for row in rows} <= {f"{QUERY}-0"}
    return sorted(tuple(row.values()) for row in rows)


# Case 9


@pytest.mark.parametrize("how", ["left", "inner"])
@pytest.mark.parametrize("tries", [1, 3])
def test_case_9_rows_wait_for_two_batches(dim: wt.Table, how: str, tries: int) -> None:
    """Each batch comes as often, in other partitions each time."""
    join = planned(dim, how)
    missed = [(31, 6, None)] if how == "left" else []

    def batch(batch_id: int, *rows: Row) -> list[Row]:
        forms = [[rows], [(), rows], [rows[::2], rows[1::2], ()]]
        found = [run(planned(dim, how), batch_id, *form) for form in forms[:tries]]
        assert found == [found[0]] * tries
        return found[0]

    assert batch(0, (30, 5), (31, 6), (32, 1)) == [(32, 1, "Ann")]
    assert waiting(dim) == [(30, 5, 0), (31, 6, 0)]
    assert batch(1) == []
    assert waiting(dim) == [(30, 5, 0), (31, 6, 0)]
    put(dim, (5, "Eve"))
    assert batch(2) == [(30, 5, "Eve"), *missed]
    assert waiting(dim) == []
    assert batch(3, (33, 2)) == [(33, 2, "Bob")]
    assert join.late is not None


def test_batches_without_tasks_lose_nothing(dim: wt.Table) -> None:
    join = planned(dim)
    assert run(join, 0, [(30, 5), (31, 6)]) == []
    put(dim, (5, "Eve"))
    assert run(join, 7, [(32, 1)]) == [(30, 5, "Eve"), (31, 6, None), (32, 1, "Ann")]
    assert waiting(dim) == []


def test_a_row_with_a_null_in_the_key_does_not_wait(dim: wt.Table) -> None:
    assert run(planned(dim), 0, [(30, None), (31, 6)]) == [(30, None, None)]
    assert waiting(dim) == [(31, 6, 0)]
    assert run(planned(dim, "inner"), 1, [(32, None)]) == []


def test_rows_of_other_joins_and_queries_are_left_alone(dim: wt.Table) -> None:
    run(planned(dim), 0, [(30, 5)])
    put(dim, (5, "Eve"))
    for query, name in ((QUERY, "1"), (QUERY.replace("7", "8"), "0")):
        batch = PinnedBatch(query, name, 0)
        join = planned(dim)
        assert evaluated(join, batch, join.pin(batch), [(40, 1)], is_elected=True) == [
            (40, 1, "Ann")
        ]
    assert run(planned(dim), 1, []) == [(30, 5, "Eve")]


# Killed, repeated, too late


def test_killed_at_any_step_each_row_comes_out_once(tmp_path: Path) -> None:
    """Whatever operation on the pending table fails in batch 1: when it has come again, it gave what it gives."""
    kinds = [""]
    for at, kind in enumerate(kinds):
        table = wt.Catalog(tmp_path / f"wh{at}").create_table(
            "db.d", {"k": pa.int64(), "name": pa.string()}, primary_key=["k"]
        )
        put(table, (1, "Ann"))
        run(planned(table, batches=1), 0, [(30, 5), (31, 6)])
        put(table, (5, "Eve"))
        faulty = FaultyFileIO(IO)
        join = planned(table, batches=1)
        assert join.late is not None
        own = replace(join.late, table=OpenTable(join.late.table.path, faulty))
        if kind:
            fault = (Fault.BEFORE, Fault.AFTER)[at % 2]
            faulty.fail(kind, fault, skip=kinds[1:at].count(kind))
        rows = [(33, 7), (34, 1)]
        try:
            run(replace(join, late=own), 1, rows)
        except wt.WidetableError:
            assert kind
        expected = [(30, 5, "Eve"), (31, 6, None), (34, 1, "Ann")]
        assert run(planned(table, batches=1), 1, rows[:1], rows[1:]) == expected
        assert run(planned(table, batches=1), 2, []) == [(33, 7, None)]
        assert waiting(table) == []
        if not kind:
            writes = ("publish", "replace", "open_output", "write_new", "link", "delete")
            kinds += [each for each, _ in faulty.log if each in writes][:40]
    assert len(kinds) > 8


def test_who_comes_too_late_brings_nothing_back(dim: wt.Table) -> None:
    """A task of batch 0 that writes when batch 1 has given its row out; and one of batch 1 that deletes it again."""
    join, rows = planned(dim), [(30, 5)]
    zero, one = (PinnedBatch(QUERY, "0", batch_id) for batch_id in (0, 1))
    early = join.pin(zero)
    run(join, 0, rows)
    put(dim, (5, "Eve"))
    assert run(join, 1, []) == [(30, 5, "Eve")]
    table = wt.Table.open(pending_of(dim))
    table.compact(full=True)
    assert evaluated(join, zero, early, rows, is_elected=True) == []
    assert waiting(dim) == []
    assert evaluated(join, one, join.pin(one), [], is_elected=True) == [(30, 5, "Eve")]
    assert run(join, 2, []) == []


def test_a_replay_reads_the_same_after_expiry(dim: wt.Table) -> None:
    run(planned(dim), 0, [(30, 5), (31, 6)])
    put(dim, (5, "Eve"))
    assert run(planned(dim), 1, []) == [(30, 5, "Eve")]
    table = wt.Table.open(pending_of(dim))
    table.compact(full=True)
    table.expire_snapshots(1, 1, 0)
    assert run(planned(dim), 1, []) == [(30, 5, "Eve")]
    assert run(planned(dim), 2, []) == [(31, 6, None)]
    run(planned(dim), 3, [])
    table.compact(full=True)
    gone = table.expire_snapshots(1, 1, 0).ids
    assert gone
    with pytest.raises(wt.NotFoundError, match="batch 1"):
        run(planned(dim), 1, [])


def test_what_is_decided_is_written_before_it_is_given_out(dim: wt.Table) -> None:
    """A sink that takes one row only does not get it again."""
    run(planned(dim), 0, [(30, 5)])
    put(dim, (5, "Eve"))
    join, batch = planned(dim), PinnedBatch(QUERY, "0", 1)
    rows = LateJoin(join, batch, join.pin(batch)).joined(iter(()), is_elected=True)
    assert next(rows)["id"].to_pylist() == [30]
    assert waiting(dim) == []


def test_random_streams_give_each_row_once(
    tmp_path: Path, rng: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches in random partitions, some killed after some of their tasks; small pieces. Against a model."""
    table = wt.Catalog(tmp_path / "wh").create_table(
        "db.d", {"k": pa.int64(), "name": pa.string()}, primary_key=["k"]
    )
    put(table, (0, "n0"))
    monkeypatch.setattr(module, "_PIECE_ROWS", rng.randint(1, 5))
    known, next_id = {0}, 0
    model: dict[int, Row] = {}
    tries = rng.randint(1, 3)
    for batch_id in range(12):
        keys = [rng.randrange(12) for _ in range(rng.randrange(8))]
        rows = [(next_id + number, key) for number, key in enumerate(keys)]
        next_id += len(rows)
        expected: list[Row] = [(id, key, f"n{key}") for id, key in rows if key in known]
        for id, (_, key, came) in sorted(model.items()):
            if key in known:
                expected.append((id, key, f"n{key}"))
            elif batch_id >= came + tries:
                expected.append((id, key, None))
            else:
                continue
            del model[id]
        model |= {id: (id, key, batch_id) for id, key in rows if key not in known}
        for last in (False,) * rng.randrange(3) + (True,):
            parts: list[list[Row]] = [[] for _ in range(rng.randint(1, 3))]
            for row in rows:
                rng.choice(parts).append(row)
            join = planned(table, batches=tries)
            if last:
                assert run(join, batch_id, *parts) == sorted(expected, key=str)
            else:
                run(join, batch_id, *parts, only=rng.randrange(len(parts)))
            # Between the tries the dim moves on; the batch does not see it.
            key = rng.randrange(12)
            put(table, (key, f"n{key}"))
            known.add(key)
    assert [row[:2] for row in waiting(table)] == sorted(row[:2] for row in model.values())


# By an index


def test_rows_wait_for_an_index_too(tmp_path: Path) -> None:
    table = wt.Catalog(tmp_path / "wh").create_table(
        "db.d",
        {"n": pa.int64(), "k": pa.int64()},
        primary_key=["n"],
        options={"index.k": "db.by_k"},
    )
    put(table, (100, 1))
    table.maintain(once=True)
    assert run(planned(table), 0, [(30, 5), (32, 1)]) == [(32, 1, 100)]
    put(table, (101, 5), (102, 5))
    assert run(planned(table), 1, []) == []
    table.maintain(once=True)
    pin = planned(table).pin(PinnedBatch(QUERY, "0", 2))
    assert [other.role for other in pin.others] == ["index", PENDING]
    assert run(planned(table), 2, []) == [(30, 5, 101), (30, 5, 102)]
    assert waiting(table) == []


# Refused


def test_keys_that_do_not_tell_rows_apart_are_refused(dim: wt.Table) -> None:
    with pytest.raises(wt.InvalidError, match=r"'id'.*pending_key.*two rows.*with 30"):
        run(planned(dim), 0, [(30, 5), (30, 6)])
    with pytest.raises(wt.InvalidError, match=r"'id'.*null"):
        run(planned(dim), 1, [(None, 6)])
    run(planned(dim), 2, [(30, 5)])
    with pytest.raises(wt.InvalidError, match=r"'id'.*two rows of batch 2.*with 30"):
        run(planned(dim), 2, [], [(30, 6)])
    assert run(planned(dim), 3, [(30, 6)]) == []
    assert waiting(dim) == [(30, 5, 2), (30, 6, 3)]


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        ({"retry_batches": 0}, wt.InvalidError, "pending.*retry_batches"),
        ({"retry_batches": 0, "pending": None}, wt.InvalidError, "pending_key.*retry_batches"),
        ({"pending": None}, wt.InvalidError, "pending: found no value.*retry_batches=2"),
        ({"pending_key": None}, wt.InvalidError, "pending_key: found no value"),
        ({"pending_key": "x"}, wt.NotFoundError, "'x'.*id, k"),
        ({"pending_key": 7}, wt.InvalidError, "pending_key"),
        ({"pending": 7}, wt.InvalidError, "pending"),
        ({"retry_batches": -1}, wt.InvalidError, "retry_batches"),
        ({"retry_batches": "2"}, wt.InvalidError, "retry_batches"),
        ({"retry_batches": True}, wt.InvalidError, "retry_batches"),
    ],
)
def test_wrong_arguments_make_no_table(
    dim: wt.Table, given: dict[str, Any], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        planned(dim, **given)
    assert not pending_of(dim).exists()


def test_a_pending_table_of_other_columns_is_refused(dim: wt.Table) -> None:
    with pytest.raises(wt.InvalidError, match=r"pending table.*columns k BIGINT.*expected"):
        planned(dim, pending=dim.path)
    planned(dim)
    with pytest.raises(wt.InvalidError, match="pending table"):
        planned(dim, pending_key="k")


def test_retractions_do_not_wait(dim: wt.Table) -> None:
    left = SCHEMA.append(pa.field("_row_kind", pa.string()))
    waits = {"retry_batches": 2, "pending": pending_of(dim), "pending_key": "id"}
    given = JoinArguments(["k"], retractions="key-only", **waits)
    with pytest.raises(wt.InvalidError, match=r"retry_batches.*retractions"):
        new_lookup_join(left, dim, given)
