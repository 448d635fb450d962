"""An alteration as other clients are asked to make it: one step after the other, with the names of a path as a list."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from widetable.operations.ddl.column_path import parsed
from widetable.schema.types import type_to_json
from widetable.schema.types_from_arrow import type_from_arrow


def alter_steps(change: Mapping[str, Any], columns: Collection[str]) -> list[list[Any]]:
    """change: what `Catalog.alter_table` takes, in this order: drop_columns, add_columns, rename_columns, change_types,
    change_nullability, change_comments, move_columns (of columns), set_options. columns: names that are there.
    """

    def path(name: str) -> list[str]:
        return [name] if name in columns else [*parsed(name)]

    def pairs(what: str, values: Mapping[str, Any]) -> list[list[Any]]:
        return [[what, path(name), value] for name, value in values.items()]

    steps: list[list[Any]] = [["drop", path(name)] for name in change.get("drop_columns", ())]
    for field in change.get("add_columns", ()):
        steps.append(["add", path(field.name), type_to_json(type_from_arrow(field.type))])
    steps += pairs("rename", change.get("rename_columns", {}))
    types = change.get("change_types", {}).items()
    steps += pairs("type", {name: type_to_json(type_from_arrow(kind)) for name, kind in types})
    steps += pairs("null", change.get("change_nullability", {}))
    steps += pairs("comment", change.get("change_comments", {}))
    for name, place in change.get("move_columns", {}).items():
        word, *beside = place.split()
        steps.append(["move", path(name), word.upper(), *beside])
    return steps + [["set", *pair] for pair in change.get("set_options", {}).items()]
