"""A change of the schema is followed, fills the rows that are there, or is refused by its statement."""

from __future__ import annotations

import json
from typing import Any

import pytest

import widetable as wt
from tests.cdc.embedded.recorded_batches import PREFIX, recorded
from widetable_cdc.embedded.source_form import SourceForm, changed_forms


def column(name: str, type: str = "INT", **other: Any) -> dict[str, Any]:
    return {"name": name, "typeName": type, "optional": True, **other}


def change(*columns: dict[str, Any], kind: str = "ALTER", key: str = "id") -> str:
    table = {"primaryKeyColumnNames": [key], "columns": list(columns)}
    changes = [{"type": kind, "id": '"shop"."orders"', "table": table}]
    return json.dumps({"databaseName": "shop", "ddl": "the statement", "tableChanges": changes})


def every(database: str, name: str) -> bool:
    return True


ID = column("id", optional=False)
NAME = column("name", "VARCHAR", length=20, charsetName="latin1")


def made() -> dict[str, SourceForm]:
    forms = changed_forms(change(ID, NAME, kind="CREATE"), {}, every)
    return {name: form for name, form in forms.items() if form is not None}


def altered(*columns: dict[str, Any], key: str = "id") -> SourceForm:
    form = changed_forms(change(*columns, key=key), made(), every)["shop.orders"]
    assert form is not None
    return form


def test_recorded_changes() -> None:
    forms: dict[str, SourceForm] = {}
    for record in recorded():
        if record["topic"] == PREFIX:
            for name, form in changed_forms(record["value"], forms, every).items():
                if form is not None:
                    forms[name] = form
    assert set(forms) == {"shop.orders", "shop.tags"}
    assert forms["shop.orders"].key == ("id",)
    assert forms["shop.orders"].unfilled == ("paid",)
    assert forms["shop.orders"].columns["paid"].default == "7"
    assert SourceForm.from_json(forms["shop.orders"].to_json()) == forms["shop.orders"]


def test_a_nullable_column_fills_nothing() -> None:
    assert altered(ID, NAME, column("extra")).unfilled == ()
    assert altered(ID, NAME, column("extra", defaultValueExpression="NULL")).unfilled == ()


def test_a_default_and_not_null_fill_rows() -> None:
    assert altered(ID, NAME, column("extra", defaultValueExpression="7")).unfilled == ("extra",)
    assert altered(ID, NAME, column("extra", optional=False)).unfilled == ("extra",)


def test_the_same_change_again_changes_nothing() -> None:
    extra = column("extra", defaultValueExpression="7")
    once = altered(ID, NAME, extra)
    again = changed_forms(change(ID, NAME, extra), {"shop.orders": once}, every)
    assert again == {"shop.orders": once}


def test_a_dropped_column_and_wider_types_are_followed() -> None:
    assert altered(ID).unfilled == ()
    wider = column("name", "VARCHAR", length=200, charsetName="latin1")
    longer = column("name", "TEXT", charsetName="latin1")
    assert altered(ID, wider).unfilled == ()
    assert altered(ID, longer).unfilled == ()


@pytest.mark.parametrize(
    ("columns", "fault"),
    [
        ((ID, column("label", "VARCHAR", length=20)), "other names"),
        ((ID, column("name", "VARCHAR", length=10, charsetName="latin1")), "other types"),
        ((ID, column("name", "VARCHAR", length=20, charsetName="utf8mb4")), "other types"),
        ((ID, column("name", "INT")), "other types"),
        ((ID, NAME, column("at", "DATETIME", defaultValueExpression="now()")), "computed"),
        ((ID, NAME, column("at", defaultValueExpression="CURRENT_TIMESTAMP")), "computed"),
        ((ID, NAME, column("sum", generated=True)), "computed"),
    ],
)
def test_what_changes_rows_without_records_is_refused(
    columns: tuple[dict[str, Any], ...], fault: str
) -> None:
    with pytest.raises(wt.InvalidError, match=f"shop.orders.*{fault}.*the statement"):
        altered(*columns)


def test_another_key_is_refused() -> None:
    with pytest.raises(wt.InvalidError, match="another key"):
        altered(ID, NAME, key="name")
    with pytest.raises(wt.InvalidError, match="another key"):
        altered(column("id", "BIGINT", optional=False), NAME)


def test_a_wider_number_is_followed() -> None:
    before = changed_forms(change(ID, column("n"), kind="CREATE"), {}, every)
    forms = {name: form for name, form in before.items() if form is not None}
    wider = change(ID, column("n", "BIGINT"))
    form = changed_forms(wider, forms, every)["shop.orders"]
    assert form is not None
    assert form.columns["n"].type == "BIGINT"
    with pytest.raises(wt.InvalidError, match="other types"):
        changed_forms(change(ID, column("n", "SMALLINT")), forms, every)


def test_another_default_before_the_rows_were_filled_is_refused() -> None:
    once = altered(ID, NAME, column("extra", defaultValueExpression="7"))
    other = change(ID, NAME, column("extra", defaultValueExpression="8"))
    with pytest.raises(wt.InvalidError, match="another default"):
        changed_forms(other, {"shop.orders": once}, every)


def test_a_renamed_table_is_refused_unless_nobody_follows_it() -> None:
    with pytest.raises(wt.InvalidError, match="was not copied"):
        changed_forms(change(ID), {}, every)
    assert changed_forms(change(ID), {}, lambda database, name: False) == {}


def test_a_dropped_table_has_no_form() -> None:
    assert changed_forms(change(kind="DROP"), made(), every) == {"shop.orders": None}
