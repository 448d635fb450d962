"""What a table must hold, in plain Python: a list of records per key, folded by the rules.

Independent of everything under `widetable.merge` and its kernels. Source of the rules: Paimon's merge functions, and
docs/decisions/0001 (normal form) and 0002 (removal). Values are what `python_values` gives; a column that a record
does not carry is null.

    model = Model(schema)
    model.write([("+I", {"id": 1, "a": 5}), ("-D", {"id": 2})])   # one commit, in arrival order
    model.rows()                                                 # [{"id": 1, "a": 5, "b": None}]

What a commit changed is shown by two models, one that has the commit and one that has not; again each is folded from
scratch (semantics.md section 9):

    earlier = model.copy()
    model.write([("+I", {"id": 1, "a": 6})])
    model.changes_since(earlier)       # [("-U", {"id": 1, "a": 5, ..}), ("+U", {"id": 1, "a": 6, ..})]
"""

from __future__ import annotations

import datetime
import decimal
import functools
import json
import math
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support.models.aggregate_model import ColumnFold, MeaninglessRetraction
from tests.support.models.plain_rows import plain
from widetable.schema.table_schema import SequenceGroup, TableSchema

Row = dict[str, Any]
Record = tuple[str, Row]
Key = tuple[Any, ...]

ADDS = ("+I", "+U")


def ordered(value: Any) -> Any:
    """A value that Python compares as Paimon compares the column's; null is not for this."""
    if isinstance(
        value,
        bool | int | decimal.Decimal | datetime.date | datetime.timedelta | datetime.time | bytes,
    ):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, float):
        if math.isnan(value):
            return 1 << 64
        bits: int = struct.unpack(">q", struct.pack(">d", value))[0]
        return bits if bits >= 0 else -(bits & ((1 << 63) - 1)) - 1
    raise TypeError(f"no order known for {value!r}")


def compare(left: Sequence[Any], right: Sequence[Any], *, descending: bool = False) -> int:
    """-1, 0, 1: column by column; null is smaller than every value, also where values go down."""
    for a, b in zip(left, right, strict=True):
        if (a is None) != (b is None):
            return -1 if a is None else 1
        if a is None or ordered(a) == ordered(b):
            continue
        return -1 if (ordered(a) < ordered(b)) != descending else 1
    return 0


class Model:
    """All records of a table that were ever written; `rows` folds them from scratch."""

    def __init__(self, schema: TableSchema) -> None:
        self.schema = schema
        self._records: dict[Key, list[Record]] = {}

    def write(self, records: Iterable[Record]) -> None:
        """One commit. Raises MeaninglessRetraction if it cannot be collapsed; later conflicts are raised by `rows`."""
        commit: dict[Key, list[Record]] = {}
        for record in records:
            kept = self._filtered(record)
            if kept is not None:
                commit.setdefault(self.key_of(kept[1]), []).append(kept)
        for of_key in commit.values():
            self._fold(of_key)
        for key, of_key in commit.items():
            self._records.setdefault(key, []).extend(of_key)

    def rows(self) -> list[Row]:
        """The visible rows, all columns, in key order."""
        found = [self._fold(of_key) for of_key in self._records.values()]
        return sorted((row for row in found if row is not None), key=self.key_of)

    def is_add(self, record: Record) -> bool:
        """Whether the record is +I or +U, wherever the table has row kinds."""
        kept = self._filtered(record)
        return kept is None or kept[0] in ADDS

    def keeps(self, record: Record) -> bool:
        """Whether the record is written at all: the options that ignore row kinds let it through."""
        return self._filtered(record) is not None

    def alter(self, schema: TableSchema, renamed: Mapping[str, str] | None = None) -> None:
        """The same records under another schema: columns that are new are null. renamed: old name to new."""
        self.schema = schema
        old_name = {new: old for old, new in (renamed or {}).items()}
        for key, of_key in self._records.items():
            self._records[key] = [
                (kind, {name: row.get(old_name.get(name, name)) for name in schema.names})
                for kind, row in of_key
            ]

    def forget(self, rows: Iterable[Row]) -> None:
        """Take all records of the keys of these rows out, as an overwrite does."""
        for row in rows:
            self._records.pop(self.key_of(row), None)

    def copy(self) -> Model:
        other = Model(self.schema)
        other._records = {key: list(of_key) for key, of_key in self._records.items()}
        return other

    # What commits changed. `earlier` has some of the commits of this model, under the same columns.

    def changes_since(self, earlier: Model) -> list[Record]:
        """The changelog `lookup` of the commits that `earlier` has not, as one: what became of each key, by key."""
        changes: list[Record] = []
        for key in self._touched_since(earlier):
            before = earlier._fold(earlier._records.get(key, []))
            after = self._fold(self._records[key])
            if self._engine == "first-row":
                # Once it is there, a row never changes.
                changes += [("+I", after)] if before is None and after is not None else []
            elif before is None and after is not None:
                changes.append(("+I", after))
            elif before is not None and after is None:
                changes.append(("-D", before))
            elif before is not None and after is not None and not self._is_hidden(before, after):
                changes += [("-U", before), ("+U", after)]
        return changes

    def input_changes(self, records: Iterable[Record]) -> list[Record]:
        """The changelog `input` of a commit: its records by key, then by `sequence.field`, then by arrival."""
        commit: dict[Key, list[Record]] = {}
        for record in records:
            kept = self._filtered(record)
            if kept is not None:
                commit.setdefault(self.key_of(kept[1]), []).append(kept)
        return [record for key in sorted(commit) for record in self._in_order(commit[key])]

    def catch_up(self, later: Model, chosen: Callable[[Row], bool]) -> None:
        """Take over the commits of `later`, for the keys that are chosen; they get a row with the key."""
        for key, of_key in later._records.items():
            if chosen(of_key[0][1]):
                self._records[key] = list(of_key)

    @property
    def uncompared(self) -> frozenset[str]:
        """Columns that may change without a change in the changelog."""
        if not self._flag("changelog-producer.row-deduplicate"):
            return frozenset()
        listed = self.schema.options.get("changelog-producer.row-deduplicate-ignore-fields", "")
        return frozenset(name.strip() for name in listed.split(",") if name.strip())

    def _touched_since(self, earlier: Model) -> list[Key]:
        return sorted(
            key
            for key, of_key in self._records.items()
            if len(of_key) > len(earlier._records.get(key, ()))
        )

    def _is_hidden(self, before: Row, after: Row) -> bool:
        if not self._flag("changelog-producer.row-deduplicate"):
            return False
        compared = [name for name in self.schema.names if name not in self.uncompared]
        return all(_text(before[name]) == _text(after[name]) for name in compared)

    def _flag(self, option: str) -> bool:
        return self.schema.options.get(option, "false").strip().lower() == "true"

    @property
    def _engine(self) -> str:
        return self.schema.options.get("merge-engine", "deduplicate")

    @property
    def _ignores_deletes(self) -> bool:
        return self._flag("ignore-delete") or self._flag(f"{self._engine}.ignore-delete")

    def key_of(self, row: Row) -> Key:
        """The key of a row: equal and in order as the table has it."""
        return tuple(ordered(row[name]) for name in self.schema.primary_keys)

    def _filtered(self, record: Record) -> Record | None:
        kind, row = record
        kind_column = self.schema.options.get("rowkind.field")
        if kind_column is not None:
            kind = row[kind_column].upper()
        if kind not in ADDS and self._ignores_deletes:
            return None
        if kind == "-U" and self._flag("ignore-update-before"):
            return None
        return kind, {name: row.get(name) for name in self.schema.names}

    def _fold(self, records: list[Record]) -> Row | None:
        in_order = self._in_order(records)
        if not in_order:
            return None
        if self._engine == "deduplicate":
            return _deduplicate(in_order)
        if self._engine == "first-row":
            if any(kind not in ADDS for kind, _ in in_order):
                raise MeaninglessRetraction(str(records))
            return in_order[0][1]
        fold = self._aggregate if self._engine == "aggregation" else self._partial_update
        return fold(in_order)

    def _aggregate(self, records: list[Record]) -> Row | None:
        removes = self._flag("aggregation.remove-record-on-delete")
        folds = {name: self._column_fold(name) for name in self.schema.names}
        last, is_there = dict.fromkeys(self.schema.names), False
        for kind, row in records:
            last = row
            if removes and kind == "-D":
                folds = {name: self._column_fold(name) for name in self.schema.names}
                is_there = False
                continue
            is_there = True
            for name, fold in folds.items():
                if fold is not None:
                    fold.apply("add" if kind in ADDS else "retract", row[name])
        if not is_there:
            return None
        found = {n: last[n] if f is None else f.value for n, f in folds.items()}
        # What is NOT NULL has the last record's value where the function gives none.
        lacks = [n for n in self.schema.required_names if found[n] is None]
        return {**found, **{name: last[name] for name in lacks}}

    def _column_fold(self, name: str) -> ColumnFold | None:
        if name in self.schema.primary_keys or name in self.schema.sequence_fields:
            return None
        return column_fold(self.schema, name, "last_non_null_value")

    def _in_order(self, records: list[Record]) -> list[Record]:
        order = self.schema.sequence_fields
        descending = (
            self.schema.options.get("sequence.field.sort-order", "").lower() == "descending"
        )

        def by_sequence(left: Record, right: Record) -> int:
            return compare(
                [left[1][n] for n in order], [right[1][n] for n in order], descending=descending
            )

        return sorted(records, key=functools.cmp_to_key(by_sequence))

    def _partial_update(self, records: list[Record]) -> Row | None:
        schema = self.schema
        has_meaning = bool(schema.sequence_groups) or self._flag(
            "partial-update.remove-record-on-delete"
        )
        if len(records) > 1 and not has_meaning and any(kind not in ADDS for kind, _ in records):
            raise MeaninglessRetraction(str(records))
        state = _State(schema)
        for kind, row in records:
            state.apply(kind, row, self._removes(state, kind, row))
        return state.row if state.visible else None

    def _removes(self, state: _State, kind: str, row: Row) -> bool:
        if kind != "-D":
            return False
        if self._flag("partial-update.remove-record-on-delete"):
            return True
        named = self.schema.options.get("partial-update.remove-record-on-sequence-group", "").split(
            ","
        )
        return any(
            state.accepts(group, row)
            for group in self.schema.sequence_groups
            if any(name in named for name in group.sequence)
        )


def _text(value: Any) -> str:
    """Equal for equal values: -0.0 is another one than 0.0, NaN is the same as NaN."""
    return json.dumps(plain(value), sort_keys=True)


def _deduplicate(records: list[Record]) -> Row | None:
    kind, row = records[-1]
    return row if kind in ADDS else None


def column_fold(schema: TableSchema, name: str, default: str | None) -> ColumnFold | None:
    """What fills a column; default: where nothing is said."""
    options = schema.options
    start = f"fields.{name}."
    default = options.get("fields.default-aggregate-function", default)
    function = options.get(f"{start}aggregate-function", default)
    if function is None:
        return None
    own = {key.removeprefix(start): text for key, text in options.items() if key.startswith(start)}
    return ColumnFold(schema.field(name).type, function, own, compare)


@dataclass
class _State:
    """One key of a partial-update table while its records are applied in order."""

    schema: TableSchema
    row: Row = field(default_factory=dict)
    visible: bool = False
    folds: dict[str, ColumnFold] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.row = dict.fromkeys(self.schema.names)
        self._begin_folds()

    def _begin_folds(self) -> None:
        protected = {
            name
            for group in self.schema.sequence_groups
            for name in group.protected
            if name not in group.sequence
        }
        found = ((name, column_fold(self.schema, name, None)) for name in protected)
        self.folds = {name: fold for name, fold in found if fold is not None}

    def _fill(self, group: SequenceGroup, row: Row, step: str) -> None:
        """The columns of a group that functions fill."""
        for name in group.protected:
            if name in self.folds:
                self.folds[name].apply(step, row[name])
                self.row[name] = self.folds[name].value

    def accepts(self, group: SequenceGroup, row: Row) -> bool:
        incoming = [row[name] for name in group.sequence]
        if all(value is None for value in incoming):
            return False
        return compare(incoming, [self.row[name] for name in group.sequence]) >= 0

    def apply(self, kind: str, row: Row, removes: bool) -> None:
        if removes:
            self._remove(row)
        elif kind in ADDS:
            self._add(row)
        else:
            self._retract(row)
        for group in self.schema.sequence_groups:  # NOT NULL columns cannot be empty
            if all(self.row[name] is None for name in group.sequence):
                self.row.update({n: row[n] for n in group.protected if not self._is_nullable(n)})

    def _is_nullable(self, name: str) -> bool:
        return self.schema.field(name).type.nullable

    def _remove(self, row: Row) -> None:
        sequences = {name for group in self.schema.sequence_groups for name in group.sequence}
        kept = sequences | set(self.schema.primary_keys)
        required = {name for name in self.schema.names if not self._is_nullable(name)}
        self.row = {
            name: row[name] if name in kept | required else None for name in self.schema.names
        }
        self.visible = False
        self._begin_folds()

    def _add(self, row: Row) -> None:
        self.visible = True
        grouped: set[str] = set()
        for group in self.schema.sequence_groups:
            grouped.update(group.columns)
            has_sequence = any(row[name] is not None for name in group.sequence)
            step = "add" if self.accepts(group, row) else "late"
            if step == "add":
                self.row.update(
                    {name: row[name] for name in group.columns if name not in self.folds}
                )
            if has_sequence:
                self._fill(group, row, step)
        for name in self.schema.names:
            if name not in grouped and row[name] is not None:
                self.row[name] = row[name]

    def _retract(self, row: Row) -> None:
        for group in self.schema.sequence_groups:
            accepts = self.accepts(group, row)
            if self.visible and any(row[name] is not None for name in group.sequence):
                self._fill(group, row, "retract")
            if not accepts:
                continue
            for name in group.columns:
                if name in self.folds:
                    continue
                stays = name in group.sequence or not self._is_nullable(name)
                self.row[name] = row[name] if stays else None
