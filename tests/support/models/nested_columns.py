"""A plain model of columns that have fields, while these come, go and change: a tree of parts that never lose who they
are, and rows that remember which part each value was given for. Nothing here knows of field ids or of files.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, TypeAlias

import pyarrow as pa

Value: TypeAlias = Any
Path: TypeAlias = tuple[str, ...]
_NUMBER = count()

_INTEGERS = ("int8", "int32", "int64")
# Maps: Avro has those of other keys than texts as lists.
_KEYS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "map": (pa.string(), ["x", "y", "z"]),
    "numbers": (pa.int64(), [-1, 0, 2**40]),
}
_WIDER = {
    "int8": ("int32", "int64", "double", "string"),
    "int32": ("int64", "double", "string"),
    "int64": ("double", "string"),
}
_ARROW = {
    "int8": pa.int8(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
}


@dataclass(frozen=True)
class Part:
    """A column, or what lies within one. parts: the fields of a row; the one of a list or a map."""

    name: str
    kind: str
    number: int
    parts: tuple[Part, ...] = ()

    @property
    def arrow(self) -> pa.DataType:
        if self.kind == "row":
            return pa.struct([(part.name, part.arrow) for part in self.parts])
        if self.kind == "list":
            return pa.list_(self.parts[0].arrow)
        if self.kind in _KEYS:
            return pa.map_(_KEYS[self.kind][0], self.parts[0].arrow)
        return _ARROW[self.kind]


def new_part(rng: random.Random, name: str, depth: int = 0) -> Part:
    """Of any kind; within a few others only a plain one."""
    kinds = [*_ARROW, "row", "list", *_KEYS] if depth < 3 else [*_ARROW]
    kind = rng.choice(kinds if depth else ["row", "row", "list", *_KEYS, *_INTEGERS])
    parts: tuple[Part, ...] = ()
    if kind == "row":
        names = rng.sample("abc", rng.randint(1, 3))
        parts = tuple(new_part(rng, each, depth + 1) for each in names)
    elif kind == "list" or kind in _KEYS:
        inner = "element" if kind == "list" else "value"
        parts = (new_part(rng, inner, depth + 1),)
    return Part(name, kind, next(_NUMBER), parts)


def new_table(rng: random.Random, columns: int = 3) -> Part:
    """The columns beside the key, as the fields of one row."""
    return Part("", "row", next(_NUMBER), tuple(new_part(rng, f"v{i}") for i in range(columns)))


def drawn(rng: random.Random, part: Part) -> Value:
    """Any value, nulls at every depth; fields of rows by the number of their part."""
    if rng.random() < 0.15:
        return None
    if part.kind == "row":
        return {each.number: drawn(rng, each) for each in part.parts}
    if part.kind == "list":
        return [drawn(rng, part.parts[0]) for _ in range(rng.randint(0, 3))]
    if part.kind in _KEYS:
        keys = rng.sample(_KEYS[part.kind][1], rng.randint(0, 3))
        return [(key, drawn(rng, part.parts[0])) for key in keys]
    if part.kind == "string":
        return rng.choice(["", "ä", "text", "7"])
    if part.kind == "double":
        return rng.choice([0.5, -1.0, 1e300])
    most = 2 ** (int(part.kind[3:]) - 1)
    return rng.choice([0, 1, -1, most - 1, -most])


def plain(value: Value, part: Part) -> Value:
    """A value that was given for the part, perhaps while it was another one, as the part has it now."""
    if value is None:
        return None
    if part.kind == "row":
        return {each.name: plain(value.get(each.number), each) for each in part.parts}
    if part.kind == "list":
        return [plain(each, part.parts[0]) for each in value]
    if part.kind in _KEYS:
        return [(key, plain(each, part.parts[0])) for key, each in value]
    if part.kind == "string":
        return str(value)
    return float(value) if part.kind == "double" else value


@dataclass(frozen=True)
class Change:
    """alter: what `Catalog.alter_table` gets. table: the columns afterwards."""

    alter: dict[str, Any]
    table: Part


def drawn_change(
    rng: random.Random, table: Part, *, moves_fields: bool = True, keeps_oldest: bool = False
) -> Change:
    """One change of a column or a field, or of two at once. moves_fields: those within columns, too. keeps_oldest: rows
    within columns go on to have one field that they have had from the beginning.
    """
    rows = list(_rows(table))
    while True:
        path, row = rng.choice(rows)
        found = _change(
            rng, path, row, moves=moves_fields or not path, keeps=keeps_oldest and path != ()
        )
        if found is not None:
            alter, changed = found
            return Change(alter, _with(table, path, changed))


def _change(
    rng: random.Random, path: Path, row: Part, *, moves: bool, keeps: bool
) -> tuple[dict[str, Any], Part] | None:
    """Of a row: what alters it, and the row afterwards."""
    at = rng.randrange(len(row.parts))
    part, others = row.parts[at], [*row.parts[:at], *row.parts[at + 1 :]]
    unused = next(name for name in map("n{}".format, count()) if name not in _names(row))
    name = _text((*path, part.name))
    what = rng.choice(["add", "drop", "again", "rename", "swap", "widen", "widen", "move"])
    if what == "add":
        new = new_part(rng, unused, len(path) + 1)
        field = pa.field(_text((*path, unused)), new.arrow)
        return {"add_columns": [field]}, replace(row, parts=(*row.parts, new))
    if what in ("drop", "again") and keeps and part.number == min(p.number for p in row.parts):
        return None
    if what == "drop" and others:
        return {"drop_columns": [name]}, replace(row, parts=tuple(others))
    if what == "again":
        new = new_part(rng, part.name, len(path) + 1)
        alter = {"drop_columns": [name], "add_columns": [pa.field(name, new.arrow)]}
        return alter, replace(row, parts=(*others, new))
    if what == "rename":
        renamed = (*row.parts[:at], replace(part, name=unused), *row.parts[at + 1 :])
        return {"rename_columns": {name: unused}}, replace(row, parts=renamed)
    if what == "swap" and others:
        return _swap(path, row, part, rng.choice(others))
    if what == "widen" and part.kind in _WIDER:
        wider = replace(part, kind=rng.choice(_WIDER[part.kind]))
        parts = (*row.parts[:at], wider, *row.parts[at + 1 :])
        return {"change_types": {name: wider.arrow}}, replace(row, parts=parts)
    if what == "move" and moves and others:
        before = rng.choice(others)
        index = others.index(before)
        parts = (*others[:index], part, *others[index:])
        return {"move_columns": {name: f"before {before.name}"}}, replace(row, parts=parts)
    return None


def _swap(path: Path, row: Part, one: Part, other: Part) -> tuple[dict[str, Any], Part]:
    names = {one.number: other.name, other.number: one.name}
    alter = {
        _text((*path, one.name)): other.name,
        _text((*path, other.name)): one.name,
    }
    parts = tuple(replace(each, name=names.get(each.number, each.name)) for each in row.parts)
    return {"rename_columns": alter}, replace(row, parts=parts)


def _rows(part: Part, path: Path = ()) -> Iterator[tuple[Path, Part]]:
    if part.kind == "row":
        yield path, part
    for each in part.parts:
        yield from _rows(each, (*path, each.name))


def _with(part: Part, path: Path, changed: Part) -> Part:
    if not path:
        return changed
    parts = tuple(
        _with(each, path[1:], changed) if each.name == path[0] else each for each in part.parts
    )
    return replace(part, parts=parts)


def _names(row: Part) -> set[str]:
    return {part.name for part in row.parts}


def _text(path: Path) -> str:
    return ".".join(path)


def arrow_rows(
    keys: Sequence[int], rows: Sequence[Mapping[int, Value]], columns: Sequence[Part]
) -> pa.Table:
    """Rows with a key `k`, of values by the numbers of their columns."""
    arrays = [pa.array(keys, pa.int32())]
    fields = [pa.field("k", pa.int32(), nullable=False)]
    for column in columns:
        values = [plain(row.get(column.number), column) for row in rows]
        arrays.append(pa.array(values, column.arrow))
        fields.append(pa.field(column.name, column.arrow))
    return pa.table(arrays, schema=pa.schema(fields))


def by_key(rows: Sequence[Mapping[str, Value]]) -> dict[int, Value]:
    """Maps without an order of their entries."""
    return {row["k"]: _unordered({n: v for n, v in row.items() if n != "k"}) for row in rows}


def _unordered(value: Value) -> Value:
    if isinstance(value, dict):
        return {name: _unordered(each) for name, each in value.items()}
    if isinstance(value, list):
        found = [_unordered(each) for each in value]
        is_map = all(isinstance(each, tuple) for each in found)
        return sorted(found, key=lambda each: str(each[0])) if is_map else found
    if isinstance(value, tuple):
        return tuple(_unordered(each) for each in value)
    return value
