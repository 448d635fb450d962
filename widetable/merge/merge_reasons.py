"""Why a record changed a column, or did not: a sentence for each step of a merge (merge_steps).

In: the schema, and for one column and one record of a key the states before and after the record. Out: an effect and a
sentence. Pure. Nothing is decided here: the engine has decided, and the first rule that fits gives the sentence.

    effect      source of the column after the record     TAKES     the record itself
                                                          LEAVES    the record that it was from before
                                                          CLEARS    none: it is null, or the key has no row
                                                          RESTORES  another record: the row exists again
                                                          MAKES     computed by a function (`FilledColumn`)

`MergedColumn` is for columns whose value is chosen, `FilledColumn` for those that a function
computes. Rules are pairs of a test and a text, tried in their order; a test may assume that the
tests before it failed, and the last test always fits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from widetable.merge.engine import unchecked_engine
from widetable.merge.merge_engine import MergeEngine, RowOrigin
from widetable.schema import options as opt
from widetable.schema.table_schema import SequenceGroup, TableSchema

TAKES: Final = "takes"
CLEARS: Final = "clears"
LEAVES: Final = "leaves"
RESTORES: Final = "restores"
MAKES: Final = "makes"


@dataclass(frozen=True)
class MergedColumn:
    """A column before and after a record of this kind. values: those of the record's columns. before, after: the number
    of the record that the column is from, None for none and where the key has no row. stored: number and values of the
    record whose sequence the column's group had stored before; is_accepted: the group stores this record's sequence.
    is_there: whether the key has a row after the record. number: of this record. group: the one that has the column.
    """

    schema: TableSchema
    group: SequenceGroup | None
    name: str
    number: int
    kind: str
    values: Mapping[str, Any]
    before: int | None
    after: int | None
    stored: tuple[int, Mapping[str, Any]] | None
    is_accepted: bool
    is_there: bool

    @property
    def effect(self) -> str:
        if self.after == self.number:
            return TAKES
        if self.before == self.after:
            return LEAVES
        return CLEARS if self.after is None else RESTORES

    @property
    def reason(self) -> str:
        """The sentence for the effect."""
        return next(text for fits, text in _RULES[self.effect] if fits(self)).format(case=self)

    @property
    def engine(self) -> MergeEngine:
        return unchecked_engine(self.schema.typed_options)

    @property
    def is_written(self) -> bool:
        """Whether the record has the column, or any column of its group: then missing columns of the group are null."""
        columns = () if self.group is None else self.group.columns
        return not {self.name, *columns}.isdisjoint(self.values)

    @property
    def is_made_null(self) -> bool:
        """Whether a record that lacks the column has set it to null, with its group's sequence."""
        return self.is_accepted and self.name not in self.values and not self.retracts

    @property
    def retracts(self) -> bool:
        return self.kind.startswith("-")

    @property
    def has_sequence(self) -> bool:
        names = () if self.group is None else self.group.sequence
        return any(self.values.get(name) is not None for name in names)

    @property
    def sequence(self) -> str:
        assert self.group is not None
        return _pairs(self.group.sequence, self.values)

    @property
    def kept(self) -> str:
        """The part of a sentence about a retraction that leaves no row."""
        return f", and its {self.sequence} is kept" if self.is_accepted else ""

    @property
    def standing(self) -> str:
        assert self.group is not None
        if self.stored is None:
            return "nothing"
        number, values = self.stored
        return f"{_pairs(self.group.sequence, values)} of #{number}"


def is_source(schema: TableSchema, column: str, values: Mapping[str, Any]) -> bool:
    """Whether a column can be from a record with these values. A plan of a single record names it as the source even
    where the record has no value.
    """
    if values.get(column) is not None:
        return True
    group = group_of(schema, column)
    if group is not None:
        return any(values.get(name) is not None for name in group.sequence)
    origin = unchecked_engine(schema.typed_options).origin
    return column in values and origin is not RowOrigin.COLUMNS


def group_of(schema: TableSchema, column: str) -> SequenceGroup | None:
    """Return the sequence group that has the column."""
    return next((group for group in schema.sequence_groups if column in group.columns), None)


def _pairs(names: Sequence[str], values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {_short(values.get(name))}" for name in names)


def _short(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def function_of(schema: TableSchema, column: str) -> str | None:
    """Return the function that fills the column, on its own or in its sequence group."""
    columns = unchecked_engine(schema.typed_options).filled_columns(schema)
    return columns[column].function if column in columns else None


@dataclass(frozen=True)
class FilledColumn:
    """A column that a function fills, before and after a record of this kind. Values are as they are printed."""

    name: str
    function: str
    kind: str
    values: Mapping[str, Any]
    before: Any
    after: Any

    @property
    def effect(self) -> str:
        if _short(self.before) == _short(self.after):
            return LEAVES
        return CLEARS if self.after is None else MAKES

    @property
    def reason(self) -> str:
        """The sentence for the effect."""
        if self.name not in self.values:
            return f"{self.kind}, written without this column"
        value, before = _short(self.values[self.name]), _short(self.before)
        if self.kind.startswith("-"):
            return f"{self.function} retracts {value} from {before}"
        return f"{self.function} merges {value} into {before}"


# A test of a case and a text. The text names properties of the case, for `str.format`.
_Rule = tuple[Callable[[MergedColumn], object], str]

_LEAVES: Final[tuple[_Rule, ...]] = (
    (
        lambda case: case.retracts and case.schema.typed_options.get(opt.IGNORE_DELETE),
        f"{{case.kind}} is skipped: {opt.IGNORE_DELETE.key!r} is set",
    ),
    (lambda case: not case.is_there, "{case.kind}, and the key has no row{case.kept}"),
    (lambda case: not case.is_written, "written without this column"),
    (
        lambda case: case.engine.origin is RowOrigin.FIRST,
        "{case.kind} comes after the first record",
    ),
    (
        lambda case: case.group is not None and not case.has_sequence,
        "{case.sequence}: the group is skipped",
    ),
    (
        lambda case: case.is_accepted,
        "{case.kind} with {case.sequence} clears the group: it was empty",
    ),
    (lambda case: case.group is not None, "late: {case.sequence} is below {case.standing}"),
    (lambda case: case.retracts, "{case.kind} changes nothing outside sequence groups"),
    (lambda case: True, "null keeps the value"),
)
_CLEARS: Final[tuple[_Rule, ...]] = (
    (lambda case: not case.is_there, "{case.kind} removes the row{case.kept}"),
    (
        lambda case: case.retracts and case.group is not None,
        "{case.kind} with {case.sequence} clears the group",
    ),
    (lambda case: True, "{case.kind} wins as a whole, and was written without this column"),
)
_TAKES: Final[tuple[_Rule, ...]] = (
    (
        lambda case: case.is_made_null,
        f"null: written without this column, and {opt.ABSENT_GROUP_COLUMNS.key!r} makes it null where "
        "{case.sequence} is not below {case.standing}",
    ),
    (
        lambda case: case.engine.origin is RowOrigin.FIRST,
        "{case.kind} wins as a whole, as the first record",
    ),
    (
        lambda case: case.engine.origin is not RowOrigin.COLUMNS,
        "{case.kind} wins as a whole, as the last record",
    ),
    (
        lambda case: case.is_accepted and case.stored is not None,
        "{case.sequence} is not below {case.standing}",
    ),
    (lambda case: case.is_accepted, "{case.sequence} is the first"),
    (
        lambda case: case.group is not None or case.retracts,
        "the last record, as a NOT NULL column has a value",
    ),
    (lambda case: True, "the last value that is not null"),
)
_RESTORES: Final[tuple[_Rule, ...]] = (
    (lambda case: True, "the row exists again, with the value of #{case.after}"),
)
_RULES: Final = {LEAVES: _LEAVES, CLEARS: _CLEARS, TAKES: _TAKES, RESTORES: _RESTORES}
