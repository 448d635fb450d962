"""Aggregate functions of lists and maps: collect, merge_map, merge_map_with_keytime, nested_update,
nested_partial_update.

No element becomes a Python value. All elements of a column are numbered, end to end, and a function works on numbers:
the element's own, its code, which equal elements share (value_codes), and its rank in an order. At the end the elements
of each key are gathered.

    records    [x y]  null  [y z]          elements  0 1 | 2 3        equal by  0 1 | 1 2
    collect    [0 1 2 3]  = x y y z        distinct  [0 1 3]  = x y z

How a column is folded: the rules (once per fold) compute codes and ranks of the elements;
`_folded` (once per key) feeds the records of the key to an `ElementState`; `_gathered`
(once) takes the elements of all keys. A key whose records are all null, or SKIP,
is null; a key whose elements were all retracted has an empty list. The cost is a Python step
per record and element, but no value is created.

Source: Paimon `FieldCollectAgg`, `FieldMergeMapAgg`, `FieldMergeMapWithKeyTimeAgg`, `FieldNestedUpdateAgg`,
`FieldNestedPartialUpdateAgg`; semantics.md sections 6.4 and 8.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.kernels.aggregate import LATE, RETRACT, SKIP
from widetable.kernels.array_types import Mask
from widetable.kernels.arrow_buffers import valid_of
from widetable.kernels.gather import take
from widetable.merge.aggregate_function import (
    COUNT_LIMIT,
    DISTINCT,
    NESTED_KEY,
    NESTED_SEQUENCE,
    NULL_STRATEGY,
    TS_FIELD,
    Aggregate,
    AggregateColumn,
    ColumnType,
    Grouping,
    Retraction,
    always,
    nested_fields,
    never,
    of_roots,
    unmergeable,
)
from widetable.merge.element_states import (
    Collected,
    DistinctElements,
    Elements,
    ElementState,
    KeyedElements,
    NestedByKey,
    NestedColumn,
    NestedRows,
    PatchedRows,
    Patches,
    TimedElements,
)
from widetable.merge.fold import Fold, spans
from widetable.merge.plan import Computed
from widetable.merge.value_codes import offsets_of, ranks, value_codes
from widetable.merge.window import Window
from widetable.schema.types import DataType


class _Rules(NamedTuple):
    """The rules of one column in one fold. state: makes the empty state of a key; patches: for combined rows."""

    state: Callable[[], ElementState]
    patches: Patches | None = None


# Makes the rules of a column for a fold.
_RulesOf: TypeAlias = Callable[[Fold, AggregateColumn, pa.Array], _Rules]


def _values(rules_of: _RulesOf, fold: Fold, column: AggregateColumn, records: pa.Array) -> pa.Array:
    """Return the values by key, from the values by record, in the same type.

    Raises InvalidError for a null in a nested key where the column's null strategy is `error`.
    """
    bounds = zip(pairwise(offsets_of(records).tolist()), valid_of(records).tolist(), strict=True)
    elements = [range(*ends) if is_valid else None for ends, is_valid in bounds]
    rules = rules_of(fold, column, records)
    folded = [_folded(rules, elements, fold.steps, span) for span in spans(fold)]
    return _gathered(records, rules, folded)


def _aggregate(rules_of: _RulesOf, fold: Fold, column: AggregateColumn) -> Computed:
    values = _values(rules_of, fold, column, fold.column(column.name))
    return fold.computed(column.name, values, or_last=not column.field.type.nullable)


def _folded(
    rules: _Rules,
    elements: Sequence[range | None],
    steps: npt.NDArray[np.int8],
    span: tuple[int, int],
) -> Elements | None:
    """Return the elements of one key, None for null. elements: of each record; a null record is skipped, an empty list
    is not. A retraction before the first add is ignored; a late record that is the first one is added.
    """
    state: ElementState | None = None
    for record in range(*span):
        step, numbers = int(steps[record]), elements[record]
        if step == SKIP or numbers is None:
            continue
        if step == RETRACT:
            if state is not None:
                state.retract(numbers)
            continue
        is_first = state is None
        state = state or rules.state()
        (state.late if step == LATE and not is_first else state.add)(numbers)
    return None if state is None else list(state.elements())


def _gathered(records: pa.Array, rules: _Rules, folded: list[Elements | None]) -> pa.Array:
    """Return the lists or maps that have these elements."""
    kind = records.type
    chosen = np.array([each for row in folded for each in row or ()], np.int64)
    ends = np.cumsum([0, *(len(row or ()) for row in folded)])
    offsets = pa.array(ends, pa.int32())
    mask = pa.array([row is None for row in folded], pa.bool_())
    nulls = mask if any(row is None for row in folded) else None
    if pa.types.is_map(kind):
        parts = take(records.keys, chosen), take(records.items, chosen)
        return pa.MapArray.from_arrays(offsets, *parts, type=kind, mask=nulls)
    values = _rows(records.values, rules, chosen)
    return pa.ListArray.from_arrays(offsets, values, type=kind, mask=nulls)


def _rows(values: pa.Array, rules: _Rules, chosen: npt.NDArray[np.int64]) -> pa.Array:
    """Return the chosen elements. With patches each field is taken from the row that `Patches.fields`
    names for it; null rows do not count, so none is among them.
    """
    patches = rules.patches
    if patches is None:
        return take(values, chosen)
    sources = np.array([patches.fields[each] for each in chosen], np.int64).reshape(
        len(chosen), values.type.num_fields
    )
    fields = [take(values.field(at), sources[:, at]) for at in range(values.type.num_fields)]
    return pa.StructArray.from_arrays(fields, fields=list(values.type))


# The rules of a column


def _collect(fold: Fold, column: AggregateColumn, records: pa.Array) -> _Rules:
    codes = value_codes(records.values).tolist()
    return _Rules(partial(DistinctElements if column.get(DISTINCT) else Collected, codes))


def _merge_map(fold: Fold, column: AggregateColumn, records: pa.Array) -> _Rules:
    return _Rules(partial(KeyedElements, value_codes(records.keys).tolist()))


def _merge_map_by_time(fold: Fold, column: AggregateColumn, records: pa.Array) -> _Rules:
    rows = records.items
    # Integers in the order of the texts; None for a missing time, which never wins against a time.
    times = rows.field(_time_field(column))
    pairs = zip(ranks([times]).tolist(), valid_of(times).tolist(), strict=True)
    ordered = [time if is_known else None for time, is_known in pairs]
    keys = value_codes(records.keys).tolist()
    is_row = valid_of(rows).tolist()
    return _Rules(partial(TimedElements, keys, ordered, is_row, composes=fold.composes))


def _nested_update(fold: Fold, column: AggregateColumn, records: pa.Array) -> _Rules:
    rows = records.values
    order = column.get(NESTED_SEQUENCE)
    keys, counts = _nested_keys(fold, column, records)
    nested = NestedColumn(
        ranks([rows.field(name) for name in order]).tolist() if order else None,
        value_codes(rows).tolist(),
        counts,
        # The limit applies within a commit, too: records that matter beyond it are kept apart (`_beyond_limit`).
        column.get(COUNT_LIMIT),
    )
    return _Rules(
        partial(NestedRows, nested) if keys is None else partial(NestedByKey, nested, keys)
    )


def _nested_partial_update(fold: Fold, column: AggregateColumn, records: pa.Array) -> _Rules:
    rows = records.values
    keys, counts = _nested_keys(fold, column, records)
    valid = [valid_of(rows.field(at)).tolist() for at in range(rows.type.num_fields)]
    patches = Patches(keys or [], counts, valid)
    return _Rules(partial(PatchedRows, patches), patches)


def _nested_keys(
    fold: Fold, column: AggregateColumn, records: pa.Array
) -> tuple[list[int] | None, list[bool]]:
    """Return the key of each row (None for columns without a nested key) and whether the row counts. Null rows do not
    count, nor do rows that the null strategy ignores. Raises InvalidError where the strategy allows no null.
    """
    rows, names = records.values, column.get(NESTED_KEY)
    counts = valid_of(rows)
    if not names:
        return None, counts.tolist()
    parts = [rows.field(name) for name in names]
    strategy = column.get(NULL_STRATEGY)
    if strategy != "merge":
        whole = np.logical_and.reduce([valid_of(part) for part in parts])
        if strategy == "error":
            _refuse_nulls(fold, column, records, counts & ~whole)
        counts = counts & whole
    fields = [pa.field(name, part.type) for name, part in zip(names, parts, strict=True)]
    return value_codes(pa.StructArray.from_arrays(parts, fields=fields)).tolist(), counts.tolist()


def _refuse_nulls(
    fold: Fold, column: AggregateColumn, records: pa.Array, wrong: npt.NDArray[np.bool_]
) -> None:
    """Raise InvalidError for the first record with a wrong element, except SKIP records. wrong: by element."""
    offsets, valid = offsets_of(records), valid_of(records)
    for record in np.flatnonzero(valid & (fold.steps != SKIP)).tolist():
        if wrong[offsets[record] : offsets[record + 1]].any():
            raise unmergeable(fold, column, record, "null in the nested key")


# Boundaries besides retractions


def _behind_removals(window: Window, column: AggregateColumn, retractions: Mask) -> Mask:
    """Mark records behind an entry that has no value: it removes older entries, so a new map starts behind it."""
    maps = window.take(column.name, window.order)
    offsets, is_gone = offsets_of(maps), ~valid_of(maps.items)
    gone = np.append(0, np.cumsum(is_gone))
    removes: Mask = (gone[offsets[1:]] > gone[offsets[:-1]]) & valid_of(maps)
    return np.append(False, removes[:-1])


def _beyond_limit(window: Window, column: AggregateColumn, retractions: Mask) -> Mask:
    """Mark retractions of keys whose lists together have more rows than the limit of one list: it does not apply to
    what they retract. With a nested key mark all records of these keys: a row beyond the limit still replaces an older
    one.
    """
    if not _is_limited(column):
        return np.zeros(len(window.order), np.bool_)
    lists = window.take(column.name, window.order)
    rows = np.where(valid_of(lists), np.diff(offsets_of(lists)), 0)
    is_beyond = np.add.reduceat(rows, window.starts[:-1]) > column.get(COUNT_LIMIT)
    apart = retractions | bool(column.get(NESTED_KEY))
    return np.asarray(apart & window.by_row(is_beyond))


# The functions


def _is_limited(column: AggregateColumn) -> bool:
    return column.get(COUNT_LIMIT) != COUNT_LIMIT.default


def _time_field(column: AggregateColumn) -> str | None:
    """Return the name of the field that orders values; by default it is the last field."""
    return column.get(TS_FIELD) or next(reversed(nested_fields(column)), None)


def _is_map_of_rows(kind: DataType) -> bool:
    return kind.value is not None and kind.value.root == "ROW" and len(kind.value.fields) >= 2


def _is_array_of_rows(kind: DataType) -> bool:
    return kind.element is not None and kind.root == "ARRAY" and kind.element.root == "ROW"


_ROWS: Final = ColumnType("ARRAY of ROWs", _is_array_of_rows)


def _function(
    rules_of: _RulesOf, column_type: ColumnType, grouping: Grouping, retraction: Retraction
) -> Aggregate:
    """Return a function of lists or maps in which late elements come first, and repeated ones do not count."""
    return Aggregate(
        column_type=column_type,
        aggregate=partial(_aggregate, rules_of),
        grouping=lambda column: grouping,
        retraction=retraction,
        by_order=always,
        nulls_count=False,
        counts_again=never,
        tells_apart=never,
        normal_form=lambda column: partial(_values, rules_of),
        boundaries=None,
    )


def _repeats_count(column: AggregateColumn) -> bool:
    return not column.get(DISTINCT) and not column.get(NESTED_KEY)


COLLECT: Final = replace(
    # A -U and its +U in one commit are the +U, as in Paimon.
    _function(_collect, of_roots("ARRAY", "ARRAY"), Grouping.IN_ORDER, Retraction.BEFORE_ADDS),
    by_order=never,  # late elements are appended, too
    counts_again=_repeats_count,
    tells_apart=lambda column: column.get(DISTINCT),
    # Otherwise every element counts, so nothing is dropped; finding that out would be expensive.
    normal_form=lambda column: partial(_values, _collect) if column.get(DISTINCT) else None,
)
# No add is equivalent to a retraction, which removes entries or rows.
MERGE_MAP: Final = _function(
    _merge_map, of_roots("MAP", "MAP"), Grouping.IN_ORDER, Retraction.APART
)
MERGE_MAP_BY_TIME: Final = replace(
    # A null that removes an entry must be merged together with the entry.
    _function(
        _merge_map_by_time,
        ColumnType("MAP of ROWs of two fields or more", _is_map_of_rows),
        Grouping.NEVER,
        Retraction.REFUSED,
    ),
    boundaries=_behind_removals,
    time_field=_time_field,
)
NESTED_UPDATE: Final = replace(
    _function(_nested_update, _ROWS, Grouping.IN_ORDER, Retraction.APART),
    # A full list accepts no more rows, so its value depends on all older records.
    grouping=lambda column: Grouping.NEVER if _is_limited(column) else Grouping.IN_ORDER,
    counts_again=_repeats_count,
    boundaries=_beyond_limit,
)
NESTED_PARTIAL_UPDATE: Final = replace(
    _function(_nested_partial_update, _ROWS, Grouping.IN_ORDER, Retraction.REFUSED),
    required=(NESTED_KEY,),
)
