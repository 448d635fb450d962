"""Widened columns: the acceptance cases of foreign keys, and the law after every round of random histories."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import widetable as wt
from widetable.derive import widen_candidates, widening
from widetable.derive.source_progress import SourceProgress
from widetable.derive.widening import DIM, FACT, widen_round
from widetable.derived_options import widen_options
from widetable.operations.table_commit import append_messages

FACT_SCHEMA = pa.schema(
    [("id", pa.int64()), ("cust", pa.int64()), ("amount", pa.float64()), ("ts", pa.int64())]
)
CUSTOMERS = pa.schema([("id", pa.int64()), ("city", pa.string()), ("level", pa.int32())])
WIDEN = {"widen.cust": "db.customers(city as c_city, level as c_level)"}
COMMON = {"widetable.fsync": "false", "changelog-producer": "lookup"}


class Shop:
    """F(id PK, cust, amount; widened c_city, c_level), D customers(id PK, city, level) = {(7,Oslo,1),(8,Rome,2)}."""

    def __init__(self, folder: str | Path, **options: str) -> None:
        self.catalog = wt.Catalog(str(folder))
        self.dim = self.catalog.create_table(
            "db.customers", CUSTOMERS, primary_key=["id"], options=COMMON
        )
        given = {
            "merge-engine": "partial-update",
            "fields.ts.sequence-group": "cust,amount",
            "partial-update.remove-record-on-sequence-group": "ts",
            "bucket": "2",
        }
        self.fact = self.catalog.create_table(
            "db.f", FACT_SCHEMA, primary_key=["id"], options=COMMON | given | WIDEN | options
        )
        self._clock = 0
        self.customers((7, "Oslo", 1), (8, "Rome", 2))

    def customers(self, *rows: tuple[int, str | None, int | None]) -> None:
        self.dim.write(pa.Table.from_arrays(columns(rows, CUSTOMERS), schema=CUSTOMERS))

    def forget(self, *ids: int) -> None:
        kinds = ["-D"] * len(ids)
        nulls = [None] * len(ids)
        self.dim.write(
            pa.table(
                {
                    "id": ids,
                    "city": pa.array(nulls, pa.string()),
                    "level": pa.array(nulls, pa.int32()),
                    "_row_kind": kinds,
                }
            )
        )

    def orders(self, *rows: tuple[int, int | None, float | None], kind: str = "+I") -> None:
        self._clock += 1
        stamped = [(*row, self._clock) for row in rows]
        data = pa.Table.from_arrays(columns(stamped, FACT_SCHEMA), schema=FACT_SCHEMA)
        self.fact.write(data.append_column("_row_kind", pa.array([kind] * len(rows))))

    def round(self) -> int:
        """Rows written by one round of a maintainer, which compacts too."""
        return self.fact.maintain(once=True, expire=False).derived_rows

    def widened(self) -> list[tuple[Any, ...]]:
        rows = self.fact.scan(["id", "cust", "c_city", "c_level"]).to_arrow().to_pylist()
        return sorted(tuple(row.values()) for row in rows)

    def changes(self, after: int) -> list[tuple[Any, ...]]:
        names = ["id", "c_city", "c_level"]
        found = self.fact.changes(after, self.latest(), names).to_pylist()
        return [(row["_row_kind"], *(row[name] for name in names)) for row in found]

    def latest(self) -> int:
        return max(snapshot.id for snapshot in self.fact.snapshots())


def columns(rows: Any, schema: pa.Schema) -> list[pa.Array]:
    return [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(schema)]


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    made = Shop(tmp_path)
    made.orders((1, 7, 10.0))
    assert made.round() == 1
    return made


def test_case_13_a_new_fact_gets_the_columns_of_its_dim(shop: Shop) -> None:
    assert shop.widened() == [(1, 7, "Oslo", 1)]
    assert shop.fact.schema.names == (
        *FACT_SCHEMA.names, "c_city", "c_level", "_widen_cust",
    )  # fmt: skip
    assert shop.round() == 0


def test_case_14_a_change_of_the_dim_reaches_the_changelog_once(shop: Shop) -> None:
    before = shop.latest()
    shop.customers((7, "Bergen", 1))
    assert shop.round() == 1
    assert shop.round() == 0
    assert shop.changes(before) == [("-U", 1, "Oslo", 1), ("+U", 1, "Bergen", 1)]


def test_case_15_another_foreign_key_brings_other_columns(shop: Shop) -> None:
    shop.orders((1, 8, 10.0))
    assert shop.round() == 1
    assert shop.widened() == [(1, 8, "Rome", 2)]


def test_case_16_a_dim_that_comes_late_is_made_up_for(shop: Shop) -> None:
    shop.orders((2, 9, 5.0), (3, None, 6.0))
    assert shop.round() == 0
    assert shop.widened()[1:] == [(2, 9, None, None), (3, None, None, None)]
    shop.customers((9, "Kyiv", 3))
    assert shop.round() == 1
    assert shop.widened()[1:] == [(2, 9, "Kyiv", 3), (3, None, None, None)]


def test_case_17_a_dim_that_is_deleted_leaves_nulls(shop: Shop) -> None:
    before = shop.latest()
    shop.forget(7)
    assert shop.round() == 1
    assert shop.widened() == [(1, 7, None, None)]
    assert shop.changes(before) == [("-U", 1, "Oslo", 1), ("+U", 1, None, None)]


def test_case_18_what_changes_together_shows_once(shop: Shop) -> None:
    before = shop.latest()
    shop.orders((1, 8, 10.0))
    shop.customers((7, "Paris", 1), (8, "Milan", 2))
    assert shop.round() == 1
    assert shop.widened() == [(1, 8, "Milan", 2)]
    assert "Paris" not in [change[2] for change in shop.changes(before)]


def test_case_19_a_fact_that_was_deleted_meanwhile_stays_deleted(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.orders((2, 8, 1.0), (3, 8, 1.0))
    before = shop.latest()
    once(monkeypatch, lambda: shop.orders((2, 8, None), kind="-D"))
    shop.round()
    assert shop.widened() == [(1, 7, "Oslo", 1), (3, 8, "Rome", 2)]
    shop.round()
    assert shop.widened() == [(1, 7, "Oslo", 1), (3, 8, "Rome", 2)]
    assert [change for change in shop.changes(before) if change[1] == 2] == [("-D", 2, None, None)]


@pytest.mark.parametrize("at", ["untouched_rows", "append_messages"])
def test_a_fact_that_is_deleted_at_the_last_moment_stays_deleted(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    shop.orders((2, 8, 1.0), (3, 8, 1.0))
    once(monkeypatch, lambda: shop.orders((2, 8, None), kind="-D"), at)
    shop.round()
    assert shop.widened() == [(1, 7, "Oslo", 1), (3, 8, "Rome", 2)]


def once(
    monkeypatch: pytest.MonkeyPatch, work: Callable[[], None], at: str = "untouched_rows"
) -> None:
    """Do it right before the widener's next step of that name."""
    real = getattr(widening, at)

    def step(*given: Any, **named: Any) -> Any:
        monkeypatch.setattr(widening, at, real)
        work()
        return real(*given, **named)

    monkeypatch.setattr(widening, at, step)


class Killed(BaseException):
    """At a step."""


def test_case_20_pieces_are_made_up_for_and_only_the_last_has_the_properties(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(tmp_path, **{"widetable.widen-piece-rows": "500", "index.cust": "db.by_cust"})
    shop.orders(*[(id, 7, 1.0) for id in range(2000)], *[(id, 8, 1.0) for id in range(2000, 30000)])
    shop.round()
    before = shop.latest()
    shop.customers((7, "Bergen", 1))
    real = append_messages
    for commits in range(3):
        left = [1]

        def commit(*given: Any, left: list[int] = left, **named: Any) -> Any:
            if not left[0]:
                raise Killed
            left[0] -= 1
            return real(*given, **named)

        monkeypatch.setattr(widening, "append_messages", commit)
        with pytest.raises(Killed):
            shop.round()
        assert count(shop, "Bergen") == 500 * (commits + 1)
    monkeypatch.setattr(widening, "append_messages", real)
    assert shop.round() == 500
    assert count(shop, "Bergen") == 2000
    changes = shop.changes(before)
    assert sorted(changes) == sorted(
        change for id in range(2000) for change in (("-U", id, "Oslo", 1), ("+U", id, "Bergen", 1))
    )
    properties = [
        snapshot.properties
        for snapshot in sorted(shop.fact.snapshots(), key=lambda snapshot: snapshot.id)
        if snapshot.id > before and snapshot.commit_user == "widen/cust"
    ]
    assert [DIM in each for each in properties] == [False, False, False, True]


def count(shop: Shop, city: str) -> int:
    return int(shop.fact.scan(["id"], f"c_city = '{city}'").to_arrow().num_rows)


def test_case_21_of_two_maintainers_one_widens(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.customers((7, "Bergen", 1))
    (option,) = widen_options(shop.fact.schema.options)
    others: list[object] = []
    once(monkeypatch, lambda: others.append(widen_round(shop.fact, option)))
    done = widen_round(shop.fact, option)
    assert (others, done and done.rows) == ([None], 1)


def test_case_22_tables_that_widen_each_other_are_refused(tmp_path: Path) -> None:
    catalog = wt.Catalog(str(tmp_path))
    schema = pa.schema([("k", pa.int64()), ("other", pa.int64()), ("v", pa.string())])
    options = {"merge-engine": "partial-update"}
    catalog.create_table("db.a", schema, primary_key=["k"], options=options)
    catalog.create_table(
        "db.b", schema, primary_key=["k"], options=options | {"widen.other": "db.a(v as a_v)"}
    )
    with pytest.raises(wt.InvalidError, match=r"db\.a is widened from db\.b is widened from db\.a"):
        catalog.alter_table("db.a", set_options={"widen.other": "db.b(v as b_v)"})
    with pytest.raises(wt.InvalidError, match="circle"):
        catalog.alter_table("db.a", set_options={"widen.other": "db.a(v as a_v)"})


def test_chains_follow_the_dim_of_the_dim(tmp_path: Path) -> None:
    catalog = wt.Catalog(str(tmp_path))
    schema = pa.schema([("k", pa.int64()), ("up", pa.int64()), ("v", pa.string())])
    options = {"merge-engine": "partial-update"}
    tables = [catalog.create_table("db.t0", schema, primary_key=["k"], options=options)]
    for number in (1, 2):
        widen = {"widen.up": f"db.t{number - 1}({'v' if number == 1 else 'up_v'} as up_v)"}
        made = catalog.create_table(
            f"db.t{number}", schema, primary_key=["k"], options=options | widen
        )
        tables.append(made)
    for table in tables:
        table.write(pa.table({"k": [1], "up": [1], "v": [table.path[-2:]]}))
        table.maintain(once=True)
    assert tables[2].lookup([1], ["up_v"])["up_v"].to_pylist() == ["t0"]
    tables[0].write(pa.table({"k": [1], "v": ["new"]}))
    for table in tables:
        table.maintain(once=True)
    assert tables[2].lookup([1], ["up_v"])["up_v"].to_pylist() == ["new"]


def test_an_existing_table_is_widened(tmp_path: Path) -> None:
    catalog = wt.Catalog(str(tmp_path))
    fact = catalog.create_table(
        "db.f", FACT_SCHEMA, primary_key=["id"], options={"merge-engine": "partial-update"}
    )
    fact.write(pa.table({"id": [1, 2], "cust": [7, 9]}))
    catalog.create_table("db.customers", CUSTOMERS, primary_key=["id"]).write(
        pa.table({"id": [7], "city": ["Oslo"], "level": pa.array([1], pa.int32())})
    )
    fact = catalog.alter_table("db.f", set_options=WIDEN)
    assert fact.maintain(once=True).derived_rows == 1
    assert fact.lookup([1, 2], ["c_city"])["c_city"].to_pylist() == ["Oslo", None]


@pytest.mark.parametrize("column", ["c_city", "_widen_cust"])
def test_other_writers_of_widened_columns_are_refused(shop: Shop, column: str) -> None:
    value: list[Any] = ["x"] if column == "c_city" else [1]
    for write in (shop.fact.write, shop.fact.overwrite):
        with pytest.raises(wt.InvalidError, match=r"widen\.cust"):
            write({"id": [1], "cust": [7], "ts": [9], "amount": [1.0], column: value})


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"widen.cust": "db.customers"}, "db.table"),
        ({"widen.cust": "db.none(city)"}, r"db\.none"),
        ({"widen.cust": "db.customers(nope)"}, "nope"),
        ({"widen.nope": "db.customers(city)"}, "nope"),
        ({"widen.amount": "db.customers(city)"}, "double"),
        ({"widen.cust": "db.customers(city as cust)"}, "'cust' of type int64"),
        ({"widen.cust": "db.customers(city as amount)"}, "'amount' of type double"),
        ({"widen.cust": "db.customers(city)", "merge-engine": "deduplicate"}, "partial-update"),
    ],
)
def test_a_wrong_widen_option_is_refused_at_once(
    tmp_path: Path, options: dict[str, str], names: str
) -> None:
    catalog = wt.Catalog(str(tmp_path))
    catalog.create_table("db.customers", CUSTOMERS, primary_key=["id"])
    with pytest.raises((wt.InvalidError, wt.NotFoundError), match=names):
        catalog.create_table(
            "db.f",
            FACT_SCHEMA,
            primary_key=["id"],
            options={"merge-engine": "partial-update"} | options,
        )


_ID, _CUST = st.integers(0, 5), st.none() | st.integers(6, 9)
_STEP = st.one_of(
    st.tuples(st.just("order"), _ID, _CUST),
    st.tuples(st.just("order"), _ID, _CUST),
    st.tuples(st.just("delete order"), _ID),
    st.tuples(st.just("customer"), st.integers(6, 9), st.sampled_from(["a", "b", None])),
    st.tuples(st.just("customer"), st.integers(6, 9), st.sampled_from(["a", "b", None])),
    st.tuples(st.just("delete customer"), st.integers(6, 9)),
    st.tuples(st.just("compact")),
    st.tuples(st.just("expire")),
    st.tuples(st.just("forget progress")),
    st.tuples(
        st.just("round"),
        st.sampled_from([None, None, "written", "committed", "half recorded"]),
        st.none()
        | st.tuples(st.just("order"), _ID, _CUST)
        | st.tuples(st.just("delete order"), _ID),
    ),
)


@settings(max_examples=max(5, settings().max_examples // 2))
@given(st.booleans(), st.sampled_from([0.0, 1.0]), st.integers(1, 3), st.lists(_STEP, max_size=14))
def test_case_29_the_law_holds_after_every_round(
    has_index: bool, scan_share: float, piece_rows: int, steps: list[tuple[Any, ...]]
) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(widen_candidates, "_SCAN_SHARE", 100 * scan_share)
        options = {"widetable.widen-piece-rows": str(piece_rows)}
        shop = Shop(folder, **options, **({"index.cust": "db.by_cust"} if has_index else {}))
        for step, *of in steps:
            if step == "round":
                with pytest.MonkeyPatch.context() as of_round:
                    crashing_round(shop, of_round, *of)
            else:
                take(shop, step, *of)
            check_law(shop)
        shop.round()
        shop.round()
        dims = {row["id"]: row for row in shop.dim.scan().to_arrow().to_pylist()}
        for _, cust, city, level in shop.widened():
            row = dims.get(cust, {"city": None, "level": None})
            assert (city, level) == (row["city"], row["level"])
        assert shop.round() == 0


def take(shop: Shop, step: str, *of: Any) -> None:
    if step == "order":
        shop.orders((of[0], of[1], 1.0))
    elif step == "delete order":
        shop.orders((of[0], None, None), kind="-D")
    elif step == "customer":
        shop.customers((of[0], of[1], 3))
    elif step == "delete customer":
        shop.forget(of[0])
    elif step == "compact":
        shop.fact.compact(full=True)
    elif step == "expire":
        shop.fact.expire_snapshots(num_retained_min=1, num_retained_max=1)
        shop.dim.expire_snapshots(num_retained_min=1, num_retained_max=1)
    elif step == "forget progress":
        shop.fact.delete_consumer("widen-cust")


def crashing_round(
    shop: Shop,
    patch: pytest.MonkeyPatch,
    killed_when: str | None,
    meanwhile: tuple[Any, ...] | None,
) -> None:
    """A round in the middle of which somebody else does something, and which is killed at a step."""

    def kill(*_: object, **__: object) -> None:
        raise Killed

    if killed_when == "written":
        patch.setattr(widening, "append_messages", kill)
    elif killed_when == "committed":
        patch.setattr("widetable.derive.source_progress.SourceProgress.record", kill)
    elif killed_when == "half recorded":
        real = SourceProgress.record

        def record(self: Any, id: int) -> None:
            if self.name == "widen-cust":
                raise Killed
            real(self, id)

        patch.setattr("widetable.derive.source_progress.SourceProgress.record", record)
    if meanwhile is not None:
        once(patch, lambda: take(shop, *meanwhile))
    with contextlib.suppress(Killed):
        shop.round()


def check_law(shop: Shop) -> None:
    """At the newest commit of the widener that says so, for facts that nobody wrote after f."""
    done = [s for s in shop.fact.snapshots() if FACT in s.properties]
    if not done:
        return
    newest = max(done, key=lambda snapshot: snapshot.id)
    f, d = int(newest.properties[FACT]), int(newest.properties[DIM])
    kept = {s.id for s in shop.fact.snapshots()}, {s.id for s in shop.dim.snapshots()}
    if f not in kept[0] or d not in kept[1]:
        return
    dims = {row["id"]: row for row in shop.dim.scan(snapshot_id=d).to_arrow().to_pylist()}
    names = ["id", "cust", "ts", "c_city", "c_level"]
    then = {row["id"]: row for row in shop.fact.scan(names, snapshot_id=f).to_arrow().to_pylist()}
    for row in shop.fact.scan(names, snapshot_id=newest.id).to_arrow().to_pylist():
        at_f = then.get(row["id"])
        if at_f is not None and at_f["ts"] == row["ts"]:  # nobody wrote it since
            expected = dims.get(at_f["cust"], {"city": None, "level": None})
            assert (row["c_city"], row["c_level"]) == (expected["city"], expected["level"])
