"""The plan of partial-update: which record each column of each key comes from.

Only keys with several records are merged (`Window.contested`), by the rules of `partial_update`. Columns outside
groups are merged one by one, but columns without nulls that the same pieces hold share one pick; a sequence group is
merged once.

    remove-record-on-delete, by how many records are merged      kind  number  a    b
        1   +I a=1                                               +I    1       1    ·
        2   +I a=1   -D                                          -D    1       ·    ·
        3   +I a=1   -D   +I b=3                                 +I    1       ·    3      floor: the -D; a is lost
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from widetable.errors import InvalidError
from widetable.kernels.aggregate import SKIP
from widetable.kernels.array_types import Lanes, Mask
from widetable.kernels.key_lanes import key_lanes
from widetable.kernels.partial_update import (
    last_marked,
    last_removal,
    sequence_steps,
    sequence_winners,
)
from widetable.kernels.patched_take import has_values
from widetable.merge.aggregate_columns import columns_of_group
from widetable.merge.aggregate_function import AggregateColumn
from widetable.merge.aggregate_normal_form import fill
from widetable.merge.fold import Fold, Rows
from widetable.merge.key_order import check_order
from widetable.merge.normal_form import has_sequence
from widetable.merge.plan import MergePlan, SourceList
from widetable.merge.window import Window
from widetable.runtime.derived_value import derived_value, once_per_object
from widetable.schema import options as opt
from widetable.schema.row_kind import DELETE, INSERT, TEXTS, UPDATE_BEFORE, is_retraction
from widetable.schema.table_schema import SequenceGroup, TableSchema

# The records of some pieces are selected only where they are at most one in so many: selecting sorts them.
_FEW_RECORDS: Final = 8


def partial_update_plan(
    window: Window, columns: Sequence[str], *, collapses: bool = False
) -> MergePlan:
    """Return the plan of one row per key, for these columns. collapses: the window has a commit's rows, without the
    older ones. Raises InvalidError for a retraction in a table that gives it no meaning.
    """
    records = _Records(window, collapses=collapses)
    records.check()
    wanted = set(columns)
    grouped: set[str] = set()
    for group in window.schema.groups_of(columns):
        grouped.update(group.columns)
        filled = columns_of_group(window.schema, group)
        _pick_group(records, group, wanted - filled.keys())
        _fill(records, group, [each for name, each in filled.items() if name in wanted])
    _pick_plain(records, [name for name in columns if name not in grouped])
    # The number of the first record: a commit that began after it still sorts after the row (docs/decisions/0007).
    numbers = window.sequence_numbers[window.first_rows]
    return MergePlan(records.merged_kinds(), numbers, records.sources.sources())


class Sequences(NamedTuple):
    """The order of some rows in a sequence group. has_sequence bool[m]: not all of its columns are null; lanes u64[m,
    L].
    """

    has_sequence: npt.NDArray[np.bool_]
    lanes: Lanes


def sequences_of(window: Window, rows: npt.NDArray[np.int64], group: SequenceGroup) -> Sequences:
    """Return the order of these rows of a window by a group's sequence columns. A missing column is null.

    A column that no piece has is null in every row and orders nothing, so it gets no lane.
    Lanes of two calls are not comparable.
    """
    for name in group.sequence:
        check_order(group.option, name, window.schema.field(name).type)
    names = (name for name in group.sequence if window.holders(name))
    columns = [window.take(name, rows) for name in names]
    lanes = key_lanes(columns) if columns else np.zeros((len(rows), 1), np.uint64)
    return Sequences(has_sequence(columns, len(rows)), lanes)


def retractions_have_a_meaning(schema: TableSchema) -> bool:
    """Whether an option defines the effect of a -U or -D."""
    options = schema.typed_options
    is_said = options.get(opt.IGNORE_DELETE) or options.get(opt.REMOVE_RECORD_ON_DELETE)
    return bool(is_said or schema.sequence_groups)


def meaningless_retraction(kind: int, key: str) -> InvalidError:
    """Return the error for a retraction whose effect no option defines."""
    return InvalidError(
        "merge-engine partial-update",
        found=f"a {TEXTS[kind]} record of the key {key}",
        expected="+I and +U only, as no option gives retractions a meaning",
        action=f"Set {opt.IGNORE_DELETE.key!r} or {opt.REMOVE_RECORD_ON_DELETE.key!r}, define sequence groups, "
        "or filter the records.",
    )


@once_per_object
def removing_groups(schema: TableSchema) -> list[SequenceGroup]:
    """Return the groups by which a -D removes the whole row."""
    named = schema.typed_options.get(opt.REMOVE_RECORD_ON_SEQUENCE_GROUP)
    return [g for g in schema.sequence_groups if any(name in named for name in g.sequence)]


class _Records:
    """The records of contested keys, in merge order, and their effects. Shapes: m records of c keys.

    rows int64[m]: their row numbers. retractions, deletes, adds bool[m]: by kind. Expensive values
    (the sequences of a group, the floor) are computed once per plan, at their first use. sources: of the plan, as
    far as it is made.
    """

    def __init__(self, window: Window, *, collapses: bool) -> None:
        self.window = window
        self.collapses = collapses
        self.sources = SourceList()
        self.schema = window.schema
        self.rows = window.contested.rows
        self.starts = window.contested.starts
        # By group. The cache refers to the rows, not to `self`, so that no cycle keeps `self` alive.
        self.sequences = cache(partial(sequences_of, window, self.rows))
        kinds = window.kinds[self.rows]
        self.retractions = is_retraction(kinds)
        self.deletes = kinds == DELETE
        self.adds = ~self.retractions
        self._ignores_deletes = self.schema.typed_options.get(opt.IGNORE_DELETE)
        self._removes_on_delete = self.schema.typed_options.get(opt.REMOVE_RECORD_ON_DELETE)
        self._removing_groups = removing_groups(self.schema)

    def check(self) -> None:
        """Raise InvalidError for a retraction without a meaning. A single record of a key passes, as in Paimon."""
        if self.retractions.any() and not retractions_have_a_meaning(self.schema):
            row = int(self.rows[self.retractions.argmax()])
            raise meaningless_retraction(self.window.kinds[row], self.window.printed_key(row))

    def in_group(self, group: SequenceGroup) -> tuple[Rows, Rows, Mask, Mask, Mask, Lanes]:
        """Return the arguments of `sequence_winners` and `sequence_steps`."""
        # Records that the group does not skip.
        counts = self.adds if self._ignores_deletes else np.ones(len(self.rows), np.bool_)
        return self.starts, self.floor, counts, self.adds, *self.sequences(group)

    @derived_value
    def floor(self) -> npt.NDArray[np.int64]:
        """Return int64[c]: the record that last removed each key, or -1."""
        none = np.full(len(self.starts) - 1, -1, np.int64)
        if not self.deletes.any():
            return none
        if self._removes_on_delete:
            return last_marked(self.starts, none, self.deletes)
        if not self._removing_groups:
            return none
        groups = [self.sequences(group) for group in self._removing_groups]
        widths = [group.lanes.shape[1] for group in groups]
        return last_removal(
            self.starts,
            self.deletes,
            np.stack([group.has_sequence for group in groups], axis=1),
            np.concatenate([group.lanes for group in groups], axis=1),
            np.concatenate([[0], np.cumsum(widths)]),
        )

    def of_pieces(self, pieces: Sequence[int]) -> Rows | None:
        """Return the records in these pieces of the window, ascending; None where they are a large part of all."""
        ends = self._ends_of_pieces
        firsts, ends = np.append(0, ends[:-1])[list(pieces)], ends[list(pieces)]
        if int((ends - firsts).sum()) * _FEW_RECORDS > len(self.rows):
            return None
        spans = zip(firsts.tolist(), ends.tolist(), strict=True)
        return np.sort(np.concatenate([self._by_piece[first:end] for first, end in spans]))

    @derived_value
    def _ends_of_pieces(self) -> Rows:
        """Return int64[k]: where the records of each piece end in `_by_piece`."""
        pieces = self.window.piece_of_row[self.rows]
        return np.cumsum(np.bincount(pieces, minlength=len(self.window.pieces)))

    @derived_value
    def _by_piece(self) -> Rows:
        """Return int64[m]: the records, piece by piece; used only where some columns are in few of many pieces."""
        return np.argsort(self.window.piece_of_row[self.rows], kind="stable")

    def last_of(self, records: Rows) -> Rows:
        """Return int64[c]: the last of these records of each key that is behind its floor; otherwise -1. records:
        ascending.
        """
        keys = np.searchsorted(self.starts, records, side="right") - 1
        last = np.full(len(self.starts) - 1, -1, np.int64)
        last[keys] = records  # of several records of a key the last one stays
        return np.where(last > self.floor, last, -1)

    @derived_value
    def visible(self) -> npt.NDArray[np.bool_]:
        """Return bool[c]: whether an add came after the last removal."""
        return last_marked(self.starts, self.floor, self.adds) >= 0

    def merged_kinds(self) -> npt.NDArray[np.int8]:
        """Return the kinds: +I, -D, or -U where no record removed the row but a -D would remove older rows."""
        gone: npt.NDArray[np.int64] | int = DELETE
        if self._removes_on_delete or self._removing_groups:
            gone = np.where(self.floor >= 0, DELETE, UPDATE_BEFORE)
        kinds = self.window.kinds[self.window.last_rows]
        kinds[self.window.contested.keys] = np.where(self.visible, INSERT, gone)
        return kinds

    def indices(
        self, records: npt.NDArray[np.int64], *, or_last: npt.NDArray[np.bool_] | bool = False
    ) -> npt.NDArray[np.int64]:
        """Return int64[g] row numbers from int64[c] records; keys with one record have that record. Where a record is
        -1: -1, or the last record where `or_last`.
        """
        contested = self.window.contested
        none = np.where(or_last, self.rows[self.starts[1:] - 1], -1)
        indices = self.window.last_rows.copy()
        indices[contested.keys] = np.where(records >= 0, self.rows[records], none)
        return indices


def _pick_group(records: _Records, group: SequenceGroup, wanted: set[str]) -> None:
    """Add the columns of a group that no function fills: sequences from the record that was
    accepted last, values from the same record, or null when it is a retraction. A NOT NULL column
    has the accepted record's value even then; where none was accepted, the last record's.
    """
    winner, value = sequence_winners(*records.in_group(group))
    of_sequence = records.indices(winner)
    of_values = of_sequence if np.array_equal(winner, value) else records.indices(value)
    of_required = records.indices(winner, or_last=True)
    for name in group.columns:
        if name not in wanted:
            continue
        if name in group.sequence:
            records.sources.add(name, of_sequence)
        else:
            is_nullable = records.schema.field(name).type.nullable
            records.sources.add(name, of_values if is_nullable else of_required)


def _fill(records: _Records, group: SequenceGroup, columns: Sequence[AggregateColumn]) -> None:
    """Add the columns of a group that functions fill."""
    if not columns:
        return
    window, contested = records.window, records.window.contested
    steps = sequence_steps(*records.in_group(group), composes=records.collapses)
    rows, starts, floor = records.rows, records.starts, records.floor
    fold = Fold(window, contested.keys, rows, starts, floor, steps, records.collapses)
    # For functions that ignore retractions. A composed retraction has the step ADD, so the kind
    # decides.
    passed_over = np.where(records.retractions, SKIP, steps).astype(np.int8)
    without = replace(fold, steps=passed_over)
    for column in columns:
        if window.holders(column.name):
            fill(records.sources, column, fold, without)


def _pick_plain(records: _Records, columns: Sequence[str]) -> None:
    """Add the columns outside groups: the last value among the adds behind the last removal.

    A thousand columns cost few passes: the indices of a column depend on which pieces hold it, whether
    it may be null, whether it orders records, and where its nulls are. Columns that agree in all of
    this share the indices; one with nulls (`own_nulls`) agrees with no other.
    """
    schema, window, sources = records.schema, records.window, records.sources
    shared: dict[tuple[object, ...], npt.NDArray[np.int64]] = {}
    for name in columns:
        holders = window.holders(name)
        if name in schema.trimmed_primary_key or not holders:
            sources.add(name, window.last_rows)
            continue
        is_required = not schema.field(name).type.nullable
        is_order = name in schema.sequence_fields
        own_nulls = name if window.column(name).null_count else None
        signature = (holders, is_required, is_order, own_nulls)
        if signature not in shared:
            # A key without a row keeps its place in the order.
            or_last = is_required | (~records.visible & is_order)
            shared[signature] = records.indices(_last_value(records, name), or_last=or_last)
        sources.add(name, shared[signature])


def _last_value(records: _Records, name: str) -> npt.NDArray[np.int64]:
    """Return int64[c]: the last add behind the floor that has a value, whose piece has the column; otherwise -1.

    Where few of many pieces hold the column, such as with the files of many writers, only the records of
    these pieces are read, so that the cost of all columns is proportional to the number of values.
    """
    window = records.window
    column = window.column(name)
    holders = window.holders(name)
    among = records.of_pieces(holders)
    rows = records.rows if among is None else records.rows[among]
    choice = window.choice(holders, rows)
    marked = (records.adds if among is None else records.adds[among]) & (choice.positions >= 0)
    if column.null_count:
        marked &= has_values(column.large, column.rest, choice)
    if among is None:
        return last_marked(records.starts, records.floor, marked)
    return records.last_of(among[marked])
