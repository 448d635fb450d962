"""The columns of a table of the source, as Debezium's records of schema changes say, and what a change of them means.

    {"type": "ALTER", "id": "\\"shop\\".\\"orders\\"", "table": {"primaryKeyColumnNames": ["id"], "columns": [
        {"name": "paid", "typeName": "INT", "defaultValueExpression": "7", ..}]}}

    change                                             what a job does
    a column is added, nullable and without a default  nothing: rows that are there have null
    a column is added with a constant, or NOT NULL     the rows that are there get the value (`unfilled`)
    a column is dropped                                nothing: it stays, and rows that are there keep their values
    a type gets wider, values stay                     nothing: the records say the new type
    all others, with the key, names or values          refused: rows changed, and no record says so

An equal record changes nothing, so it may come again. In: values of records, forms as JSON. Out: `SourceForm`s. Pure.
Raises InvalidError for a change that cannot be followed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from widetable import InvalidError

# What grows within a list leaves the values as they are.
_FAMILIES: Final = (
    ("TINYINT", "SMALLINT", "MEDIUMINT", "INT", "INTEGER", "BIGINT"),
    ("CHAR", "VARCHAR", "TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT"),
    ("BINARY", "VARBINARY", "TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB"),
    ("FLOAT", "DOUBLE"),
)
_COMPUTED: Final = ("(", "CURRENT_", "NOW", "LOCALTIME", "UUID")


@dataclass(frozen=True)
class FormColumn:
    """A column. type: with its length and scale, as far as it has them. default: an expression of SQL, or None."""

    type: str
    length: int | None
    scale: int | None
    charset: str | None
    is_optional: bool
    default: str | None

    @property
    def fills_rows(self) -> bool:
        """Whether rows that are there get a value when the column is added."""
        says_null = self.default is None or self.default.upper() == "NULL"
        return not says_null or not self.is_optional


@dataclass(frozen=True)
class SourceForm:
    """A table. key: its columns. unfilled: columns that were added, whose value the target's rows lack."""

    columns: Mapping[str, FormColumn]
    key: tuple[str, ...]
    unfilled: tuple[str, ...] = ()

    def to_json(self) -> str:
        """Return the form as a JSON object."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> SourceForm:
        """Return the form of a text that `to_json` made."""
        body = json.loads(text)
        columns = {name: FormColumn(**each) for name, each in body["columns"].items()}
        return SourceForm(columns, tuple(body["key"]), tuple(body["unfilled"]))


def changed_forms(
    value: str, forms: Mapping[str, SourceForm], is_taken: Callable[[str, str], bool]
) -> dict[str, SourceForm | None]:
    """Return the forms that a record gives to its tables; None for a table that was dropped.

    forms: as they are. is_taken: whether the job follows a table, by its database and its name.
    """
    body = json.loads(value)
    payload = body.get("payload", body)
    database, ddl = str(payload.get("databaseName")), str(payload.get("ddl"))
    changed: dict[str, SourceForm | None] = {}
    for change in payload.get("tableChanges") or []:
        name = str(change["id"]).rpartition('"."')[2].rstrip('"')
        relation = f"{database}.{name}"
        if not is_taken(database, name):
            continue
        if change["type"] == "DROP":
            changed[relation] = None
            continue
        form, before = _form(change["table"]), forms.get(relation)
        if change["type"] == "CREATE" and before is None:
            changed[relation] = form
        elif before is None:
            raise _refused(relation, "a table of another name that was not copied", ddl)
        else:
            changed[relation] = _altered(relation, ddl, before, form)
    return changed


def _form(table: Mapping[str, Any]) -> SourceForm:
    columns = {
        str(each["name"]): FormColumn(
            type=str(each["typeName"]).upper(),
            length=each.get("length"),
            scale=each.get("scale"),
            charset=each.get("charsetName"),
            is_optional=bool(each.get("optional")),
            default="GENERATED ()" if each.get("generated") else each.get("defaultValueExpression"),
        )
        for each in table["columns"]
    }
    return SourceForm(columns, tuple(table.get("primaryKeyColumnNames") or ()))


def _altered(relation: str, ddl: str, before: SourceForm, after: SourceForm) -> SourceForm:
    added = [name for name in after.columns if name not in before.columns]
    gone = [name for name in before.columns if name not in after.columns]
    same = [name for name in after.columns if name in before.columns]
    same_key = [name for name in after.key if name in same]
    faults = {
        "another key": after.key != before.key
        or any(before.columns[name].type != after.columns[name].type for name in same_key),
        "columns with other names": bool(added and gone),
        "other types": not all(
            _keeps_values(before.columns[name], after.columns[name]) for name in same
        ),
        "a column whose values the server computed": any(
            _is_computed(after.columns[name]) for name in added
        ),
        "another default of a column that was just added": any(
            name in after.columns and before.columns[name].default != after.columns[name].default
            for name in before.unfilled
        ),
    }
    for fault, is_there in faults.items():
        if is_there:
            raise _refused(relation, fault, ddl)
    new = [name for name in added if after.columns[name].fills_rows]
    unfilled = [name for name in before.unfilled if name in after.columns]
    return replace(after, unfilled=(*unfilled, *new))


def _refused(relation: str, fault: str, ddl: str) -> InvalidError:
    return InvalidError(
        f"table {relation}",
        found=f"{fault}, by {ddl!r}",
        expected="a change after which the rows that are there are known",
        action="Put the table into exclude, and copy it again by a job of another name.",
    )


def _is_computed(column: FormColumn) -> bool:
    text = (column.default or "").upper()
    return any(word in text for word in _COMPUTED) and not text.startswith("'")


def _keeps_values(before: FormColumn, after: FormColumn) -> bool:
    """Return whether values of a type are equal values of the other."""
    if before.scale != after.scale or before.charset != after.charset:
        return False
    if before.type == after.type:
        return (after.length or 0) >= (before.length or 0)
    for family in _FAMILIES:
        if before.type in family and after.type in family:
            return family.index(after.type) > family.index(before.type)
    return False
