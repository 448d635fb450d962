"""Tables that cannot be widened, or not under barriers, and what is not done to a widener."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.programs.command_line import run
from tests.widetable.derive.widening.orders import (
    COMMON,
    DIM,
    DIM_SCHEMA,
    FACT,
    FACT_SCHEMA,
    WIDENER,
    Orders,
)
from widetable.errors import ConflictError, InvalidError, NotFoundError

_WIDEN = {"merge-engine": "partial-update", "widen.cust": f"{DIM}(city)"}
_WITHOUT = {key: value for key, value in COMMON.items() if key != "widetable.barrier-interval"}


def test_a_dim_under_other_barriers_or_none_is_refused(tmp_path: Path) -> None:
    catalog = wt.Catalog(tmp_path)
    for interval in (None, "20 ms"):
        options = {**COMMON, "widetable.barrier-interval": interval or "1 ms"}
        if interval is None:
            del options["widetable.barrier-interval"]
        name = f"db.dim_{(interval or 'none')[:2]}"
        catalog.create_table(name, DIM_SCHEMA, primary_key=["id"], options=options)
        widened = {**COMMON, "merge-engine": "partial-update", "widen.cust": f"{name}(city)"}
        with pytest.raises(InvalidError, match="barrier-interval"):
            catalog.create_table(FACT, FACT_SCHEMA, primary_key=["id"], options=widened)


def _catalog(folder: Path, common: dict[str, str]) -> wt.Catalog:
    catalog = wt.Catalog(folder)
    catalog.create_table(DIM, DIM_SCHEMA, primary_key=["id"], options=common)
    return catalog


@pytest.mark.parametrize(
    "group",
    [
        {},
        {"fields.ts.sequence-group": "cust,must"},
        {"sequence.field": "ts", "changelog-producer": "none"},
    ],
)
def test_a_column_that_each_record_carries_is_refused_under_barriers(
    tmp_path: Path, group: dict[str, str]
) -> None:
    """The widener's record would come behind later ones, with the values of before."""
    schema = pa.schema([*FACT_SCHEMA, pa.field("must", pa.int64(), nullable=False)])
    catalog = _catalog(tmp_path, COMMON)
    with pytest.raises(InvalidError, match=r"carries \('.*barrier-interval"):
        catalog.create_table(
            FACT, schema, primary_key=["id"], options={**COMMON, **_WIDEN, **group}
        )
    fact = catalog.create_table(FACT, FACT_SCHEMA, primary_key=["id"], options={**COMMON, **_WIDEN})
    for column in ("amount", "city"):
        with pytest.raises(InvalidError, match=rf"'{column}'.*|{column}.*NOT NULL"):
            catalog.alter_table(FACT, change_nullability={column: False})
    assert fact.schema.field("amount").type.nullable


@pytest.mark.parametrize("common", [COMMON, _WITHOUT], ids=["barriers", "none"])
def test_a_sum_that_each_record_carries_is_refused(tmp_path: Path, common: dict[str, str]) -> None:
    """Each round would add it up once more."""
    schema = pa.schema([*FACT_SCHEMA, pa.field("must", pa.int64(), nullable=False)])
    options = {**common, **_WIDEN, "fields.must.aggregate-function": "sum"}
    with pytest.raises(InvalidError, match="'must'"):
        _catalog(tmp_path, common).create_table(FACT, schema, primary_key=["id"], options=options)


@pytest.mark.parametrize("common", [COMMON, _WITHOUT], ids=["barriers", "none"])
@pytest.mark.parametrize(
    ("key", "function"),
    [
        *(("fields.city.aggregate-function", name) for name in ("listagg", "max", "first_value")),
        ("fields.default-aggregate-function", "last_non_null_value"),
    ],
)
def test_a_function_of_a_widened_column_is_refused(
    tmp_path: Path, common: dict[str, str], function: str, key: str
) -> None:
    catalog = _catalog(tmp_path, common)
    with pytest.raises(InvalidError, match=rf"'{function}' of the column 'city', which it widens"):
        catalog.create_table(
            FACT, FACT_SCHEMA, primary_key=["id"], options={**common, **_WIDEN, key: function}
        )
    own = {"fields.city.aggregate-function": "last_value"}
    fact = catalog.create_table(
        FACT, FACT_SCHEMA, primary_key=["id"], options={**common, **_WIDEN, **own}
    )
    with pytest.raises(InvalidError):
        fact.alter_options({"fields.city.aggregate-function": function})


def test_wideners_of_a_table_in_a_circle_are_refused(tmp_path: Path) -> None:
    """Each would wait for the other."""
    catalog = wt.Catalog(tmp_path)
    for name in ("d", "e"):
        schema = pa.schema([("id", pa.int64()), ("next", pa.int64())])
        catalog.create_table(f"db.{name}", schema, primary_key=["id"], options=COMMON)
    widened = {"widen.a": "db.d(next as b)", "widen.b": "db.e(next as a)"}
    schema = pa.schema([("id", pa.int64()), ("a", pa.int64()), ("b", pa.int64())])
    options = {**COMMON, "merge-engine": "partial-update", **widened}
    with pytest.raises(InvalidError, match=r"circle.*'widen\.[ab]', 'widen\.[ab]'"):
        catalog.create_table(FACT, schema, primary_key=["id"], options=options)


def test_nobody_else_has_the_name_or_the_columns_of_a_widener(tmp_path: Path) -> None:
    orders = Orders(tmp_path)
    for joined in (False, True):
        if joined:
            orders.round()
        for table in (FACT, DIM):
            with pytest.raises(InvalidError, match="wideners of tables"):
                orders.catalog.writer(table, WIDENER)
        with pytest.raises(InvalidError, match="as wideners'"):
            orders.catalog.topology().register(WIDENER, sinks={FACT: ["amount"]})
    with pytest.raises(InvalidError, match="widened by option"):
        orders.catalog.writer(FACT, "x", ["city"])
    with pytest.raises(InvalidError, match="it follows the foreign key"):
        orders.writers["cust"].write({"id": [1], "city": ["x"]}, barrier=10)
    assert orders.frontiers().keys() == {"orders", "payments", WIDENER}


def test_a_widener_leaves_with_its_option_alone(tmp_path: Path) -> None:
    orders = Orders(tmp_path)
    orders.round()
    topology = orders.catalog.topology()
    with pytest.raises(ConflictError, match="Remove the table's option"):
        topology.drop(WIDENER)
    with pytest.raises(ConflictError, match="Remove the table's option"):
        topology.leave(FACT, WIDENER)
    assert topology.drop(WIDENER, force=True) == [FACT]
    assert WIDENER not in orders.frontiers()
    assert topology.drop(WIDENER, force=True) == [FACT], "its option is still there"
    orders.round()
    assert WIDENER in orders.frontiers()


def test_a_column_that_the_dim_lost_is_named_with_it(tmp_path: Path) -> None:
    orders = Orders(tmp_path)
    orders.catalog.alter_table(DIM, rename_columns={"city": "town"})
    with pytest.raises(NotFoundError, match=rf"widen\.cust.*'city', which {DIM} does not have"):
        orders.round()
    (state,) = orders.fact.inspect().derived
    assert "does not have" in str(state.error)
    (finding,) = orders.fact.doctor().findings
    assert (finding.check, "does not have" in finding.found) == ("upkeep", True), finding
    assert "option 'widen.cust'" in finding.concerned
    said = run("inspect", orders.fact.path).stdout
    assert "cust: cannot be derived" in said
    assert "not read yet" not in said


def test_one_round_brings_out_what_its_widener_lets_go(tmp_path: Path) -> None:
    """Of a table that only its maintainer compacts: `once` is everything now."""
    orders = Orders(tmp_path, **{"write-only": "true"})
    orders.round()
    for who in ("dim", "cust", "amount"):
        orders.write(who, {7: ("Oslo", 1)} if who == "dim" else {1: 7}, 10)
    orders.round()
    changes = orders.fact.changes(0, 10, ["id", "city"], mode="barrier").to_pylist()
    assert [(row["_row_kind"], row["id"], row["city"]) for row in changes] == [("+I", 1, "Oslo")]
