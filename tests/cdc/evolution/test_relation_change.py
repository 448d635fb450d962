"""The table C8 of the specification, row by row, and what else a catalog that is ahead of the log may say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from widetable_cdc.evolution.actions import (
    Action,
    AddColumn,
    CopyAgain,
    DropColumn,
    Park,
    RenameColumn,
    Verify,
    WidenType,
)
from widetable_cdc.evolution.applied_form import AppliedForm, names_between
from widetable_cdc.evolution.relation_change import (
    applied_table,
    catalog_change,
    relation_change,
)
from widetable_cdc.log.changes import Relation, RelationColumn
from widetable_cdc.source.source_table import SourceColumn, SourceTable
from widetable_cdc.values.column_type import column_type
from widetable_cdc.values.source_type import SourceType

OID = 16_384
INT2, INT4, INT8 = SourceType(21, "int2"), SourceType(23, "int4"), SourceType(20, "int8")
TEXT, FLOAT8 = SourceType(25, "text"), SourceType(701, "float8")
JSON, JSONB = SourceType(114, "json"), SourceType(3802, "jsonb")


def varchar(length: int) -> SourceType:
    return SourceType(1043, "varchar", typmod=length + 4)


def numeric(precision: int, scale: int) -> SourceType:
    return SourceType(1700, "numeric", typmod=((precision << 16) | scale) + 4)


def timestamp(digits: int) -> SourceType:
    return SourceType(1114, "timestamp", typmod=digits)


def column(attnum: int, name: str, kind: SourceType = TEXT, **of: object) -> SourceColumn:
    return SourceColumn(name, attnum, kind, is_nullable=True, **of)  # type: ignore[arg-type]


ID = column(1, "id", INT4)
NAME = column(2, "name", varchar(20))
BIG = column(3, "big")


def table(
    *columns: SourceColumn, file: int = 1, key: tuple[str, ...] = ("id",), oid: int = OID
) -> SourceTable:
    return SourceTable(oid, "public", "t", file, "d", key, columns)


def relation_of(at: SourceTable, identity: str = "d", key: tuple[str, ...] = ()) -> Relation:
    columns = tuple(
        RelationColumn(
            c.name, c.type.oid, c.type.typmod, identity == "f" or c.name in (key or at.key)
        )
        for c in at.columns
    )
    return Relation(at.oid, "public", "t", identity, columns)


def target_of(_column: str, kind: SourceType) -> str:
    return column_type(kind).target


def form(at: SourceTable, fields: dict[int, int] | None = None) -> AppliedForm:
    return AppliedForm(relation_of(at), at, fields or {})


BEFORE = form(table(ID, NAME, BIG))


def decided(
    now: SourceTable, relation: Relation | None = None, before: AppliedForm = BEFORE
) -> tuple[Action, ...]:
    return relation_change(before, relation or relation_of(now), now, target_of)


SEVEN = column(4, "extra", INT4, has_default=True, missing="7")
RANDOM = column(4, "r", FLOAT8, has_default=True)
ROWS = {
    "nothing new": (table(ID, NAME, BIG), ()),
    "add, nullable, no default": (
        table(ID, NAME, BIG, column(4, "extra", INT4)),
        (AddColumn(4, "extra", INT4),),
    ),
    "add with a constant default": (
        table(ID, NAME, BIG, SEVEN),
        (AddColumn(4, "extra", INT4, "7"),),
    ),
    "add, and the default came later": (
        table(ID, NAME, BIG, column(4, "extra", INT4, has_default=True)),
        (AddColumn(4, "extra", INT4),),
    ),
    "drop": (table(ID, BIG), (DropColumn(2, "name"),)),
    "rename": (
        table(ID, column(2, "label", varchar(20)), BIG),
        (RenameColumn(2, "name", "label"),),
    ),
    "two names swapped in one transaction": (
        table(ID, column(2, "big", varchar(20)), column(3, "name")),
        (RenameColumn(2, "name", "big"), RenameColumn(3, "big", "name")),
    ),
    "dropped, and added under its name": (
        table(ID, BIG, column(4, "name", INT4)),
        (DropColumn(2, "name"), AddColumn(4, "name", INT4)),
    ),
    "renamed, and its name taken by a new column": (
        table(ID, column(2, "label", varchar(20)), BIG, column(4, "name", INT4)),
        (RenameColumn(2, "name", "label"), AddColumn(4, "name", INT4)),
    ),
    "varchar longer": (table(ID, column(2, "name", varchar(30)), BIG), ()),
    "varchar to text": (table(ID, column(2, "name", TEXT), BIG), ()),
    "rewritten without a change of the form": (table(ID, NAME, BIG, file=2), (Verify,)),
    "json to jsonb and the like: rewritten, the same target": (
        table(ID, NAME, column(3, "big", JSONB), file=2),
        (Verify,),
    ),
    "add with a volatile default": (table(ID, NAME, BIG, RANDOM, file=2), (AddColumn, CopyAgain)),
    "add with a constant default, rewritten since": (
        table(ID, NAME, BIG, replace(SEVEN, missing=None), file=2),
        (AddColumn, CopyAgain),
    ),
    "add with a constant default that is still there, rewritten since": (
        table(ID, NAME, BIG, SEVEN, file=2),
        (AddColumn, Verify),
    ),
    "add without a default, rewritten since": (
        table(ID, NAME, BIG, column(4, "extra", INT4), file=2),
        (AddColumn, Verify),
    ),
    "a type that may not hold its values": (
        table(ID, column(2, "name", INT4), BIG, file=2),
        (Park,),
    ),
    "the key of another type": (table(column(1, "id", INT8), NAME, BIG, file=2), (Park,)),
    "the key renamed": (table(column(1, "key", INT4), NAME, BIG, key=("key",)), (Park,)),
    "no key": (table(ID, NAME, BIG, key=()), (Park,)),
    "another key": (table(ID, NAME, BIG, key=("name",)), (Park,)),
    "a longer key": (table(ID, NAME, BIG, key=("id", "name")), (Park,)),
    "the key dropped and added": (table(NAME, BIG, column(4, "id", INT4)), (Park,)),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_row_of_the_table(name: str) -> None:
    now, expected = ROWS[name]
    actions = decided(now)
    if any(isinstance(each, type) for each in expected):
        assert tuple(type(each) for each in actions) == expected
    else:
        assert actions == expected


WIDER = {
    "numeric wider at the same scale": (numeric(10, 2), numeric(12, 2), 1),
    "timestamp with more digits": (timestamp(3), timestamp(6), 1),
    "int2 to int4": (INT2, INT4, 2),
    "int4 to int8": (INT4, INT8, 2),
    "float4 to float8": (SourceType(700, "float4"), FLOAT8, 2),
    "numeric with more digits on both sides": (numeric(10, 2), numeric(14, 4), 2),
}


@pytest.mark.parametrize("name", WIDER)
def test_a_wider_type_is_verified_if_rows_were_rewritten(name: str) -> None:
    old, new, file = WIDER[name]
    before = form(table(ID, column(2, "v", old)))
    actions = decided(table(ID, column(2, "v", new), file=file), before=before)
    assert actions[0] == WidenType(2, "v", new)
    assert [type(each) for each in actions[1:]] == ([Verify] if file == 2 else [])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (INT8, INT4),
        (INT4, TEXT),
        (INT4, FLOAT8),
        (numeric(10, 2), numeric(10, 4)),
        (numeric(10, 2), SourceType(1700, "numeric")),
        (timestamp(6), timestamp(3)),
        (timestamp(3), SourceType(1184, "timestamptz", typmod=3)),
        (TEXT, SourceType(17, "bytea")),
    ],
)
def test_any_other_change_of_the_type_parks_the_table(old: SourceType, new: SourceType) -> None:
    before = form(table(ID, column(2, "v", old)))
    (park,) = decided(table(ID, column(2, "v", new), file=2), before=before)
    assert isinstance(park, Park)
    assert "'v'" in park.reason


def test_a_catalog_that_is_ahead_is_never_matched() -> None:
    """A column that was renamed, and another one that has its name by now: not added, not renamed, copied again."""
    relation = relation_of(table(ID, column(2, "label", varchar(20)), BIG))
    for now in (
        table(ID, column(2, "other", varchar(20)), BIG),
        table(ID, column(2, "other", varchar(20)), BIG, column(4, "label", INT4)),
        table(ID, BIG),
        table(ID, BIG, column(4, "label", INT4)),
    ):
        assert [type(each) for each in decided(now, relation)] == [CopyAgain]


def test_a_known_form_waits_for_the_log_to_reach_the_catalog() -> None:
    now = table(ID, NAME, BIG, column(4, "extra"))
    assert decided(now, relation_of(BEFORE.table)) == ()


def test_a_name_that_was_used_again_without_a_new_form_is_not_guessed() -> None:
    """The last column, dropped and added in one transaction: the Relation is the same, and rows may have come since."""
    now = table(ID, NAME, column(4, "big"))
    actions = decided(now)
    assert [type(each) for each in actions] == [DropColumn, AddColumn, CopyAgain]


def test_numbers_that_were_left_out_say_that_columns_came_and_went() -> None:
    now = table(ID, NAME, BIG, column(5, "extra", INT4))
    assert [type(each) for each in decided(now)] == [AddColumn, CopyAgain]
    # Number 4 belongs to a column that the target has known.
    known = form(table(ID, NAME, BIG), {1: 0, 2: 1, 3: 2, 4: 3})
    assert decided(now, before=known) == (AddColumn(5, "extra", INT4),)


def test_a_table_that_was_made_again_or_is_gone() -> None:
    again = table(ID, NAME, BIG, oid=OID + 1)
    assert [type(each) for each in decided(again)] == [CopyAgain]
    assert decided(again, relation_of(BEFORE.table)) == ()
    late = relation_of(table(ID, BIG))
    assert [type(each) for each in decided(table(ID, BIG, oid=OID + 1), late)] == [CopyAgain]
    other = relation_of(table(ID, BIG))
    assert [type(e) for e in relation_change(BEFORE, other, None, target_of)] == [Park]
    assert relation_change(BEFORE, BEFORE.relation, None, target_of) == ()


def test_identities() -> None:
    now = table(ID, NAME, BIG)
    assert decided(now, relation_of(now, identity="f")) == ()
    assert [type(each) for each in decided(now, relation_of(now, identity="n"))] == [Park]
    (park,) = decided(now, relation_of(now, identity="i", key=("name",)))
    assert isinstance(park, Park)
    assert "'id'" in park.reason
    # With FULL each column is flagged: only the catalog shows that the key is another one.
    other = table(ID, NAME, BIG, key=("name",))
    assert [type(each) for each in decided(other, relation_of(other, identity="f"))] == [Park]


def test_columns_that_are_not_sent_do_not_disturb() -> None:
    generated = column(4, "twice", INT4, is_generated=True)
    relation = relation_of(table(ID, NAME, BIG))
    now = table(ID, NAME, BIG, generated)
    assert decided(now, relation) == ()
    assert applied_table(relation, now).columns == (ID, NAME, BIG)
    more = table(ID, NAME, BIG, generated, column(5, "extra", INT4))
    known = form(table(ID, NAME, BIG), {4: 3})
    relation = relation_of(table(ID, NAME, BIG, column(5, "extra", INT4)))
    assert decided(more, relation, known) == (AddColumn(5, "extra", INT4),)


def test_a_copy_again_takes_the_columns_of_the_catalog() -> None:
    now = table(ID, column(2, "label", varchar(20)), column(5, "big", INT4), file=2)
    assert catalog_change(BEFORE, now, target_of) == (
        DropColumn(3, "big"),
        RenameColumn(2, "name", "label"),
        AddColumn(5, "big", INT4),
    )
    again = table(column(1, "id", INT4), column(2, "big"), column(3, "name", INT4), oid=OID + 1)
    actions = catalog_change(BEFORE, again, target_of)
    assert [(type(each).__name__, getattr(each, "name", "")) for each in actions] == [
        ("DropColumn", "name"),
        ("AddColumn", "name"),
    ]
    wider = table(column(1, "id", INT8), NAME, BIG, oid=OID + 1)
    assert [type(each) for each in catalog_change(BEFORE, wider, target_of)] == [Park]


def test_rows_of_an_older_form_take_the_new_names() -> None:
    now = table(ID, column(2, "label"), column(4, "big"))
    assert names_between(BEFORE.table, now) == {"id": "id", "name": "label"}


def test_a_form_is_kept_as_a_text() -> None:
    array = SourceType(1007, "_int4", element=INT4)
    kept = form(table(ID, replace(SEVEN, type=array)), {1: 0, 4: 7})
    assert AppliedForm.from_json(kept.to_json()) == kept
