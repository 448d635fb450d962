"""Aggregate functions of lists and maps: collect, merge_map, merge_map_with_keytime, nested_update,
nested_partial_update.

No element becomes a Python value. All elements of a column are numbered, end to end, and a function goes by numbers: of
the element, of what it is equal by (value_codes), and of what it is ordered by. In the end the elements that each key
has are gathered.

    records    [x y]  null  [y z]          elements  0 1 | 2 3        equal by  0 1 | 1 2
    collect    [0 1 2 3]  = x y y z        distinct  [0 1 3]  = x y z

How a column is folded: `rules` (once per fold) finds what elements are equal and ordered by;
`_folded` (once per key) leads the records of the key through an `ElementState`; `_gathered`
(once) takes the elements that all keys have. A key whose records are all null, or do nothing,
is null; one whose elements were all taken back has an empty list. Costs: Python steps per
record and element, but no value is made.

Source: Paimon `FieldCollectAgg`, `FieldMergeMapAgg`, `FieldMergeMapWithKeyTimeAgg`, `FieldNestedUpdateAgg`,
`FieldNestedPartialUpdateAgg`; semantics.md sections 6.4 and 8.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.kernels.aggregate import LATE, RETRACT, SKIP
from widetable.kernels.arrow_buffers import valid_of
from widetable.kernels.gather import take
from widetable.merge.aggregate_function import (
    COUNT_LIMIT,
    DISTINCT,
    NESTED_KEY,
    NESTED_SEQUENCE,
    NULL_STRATEGY,
    AggregateColumn,
    Grouping,
    failed,
    is_limited,
    time_field,
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


class _Rules(NamedTuple):
    """Of one column in one fold. state: of a key, empty; patches: where rows are put together."""

    state: Callable[[], ElementState]
    patches: Patches | None = None


@dataclass(frozen=True)
class ElementFunction:
    """rules: of the elements of a column, for a fold; group: see `Aggregate.grouping`, where no list is limited."""

    rules: Callable[[Fold, AggregateColumn, pa.Array], _Rules]
    retracts: bool
    group: Grouping

    def counts_again(self, column: AggregateColumn) -> bool:
        """Elements that are found by a key, or by themselves, are there once."""
        is_list = column.function in ("collect", "nested_update")
        return is_list and not column.get(DISTINCT) and not column.get(NESTED_KEY)

    def grouping(self, column: AggregateColumn) -> Grouping:
        """A list that is full lets nothing in, so it counts what came before."""
        return Grouping.NEVER if is_limited(column) else self.group

    def found(self, fold: Fold, column: AggregateColumn) -> Computed:
        values = self.values(fold, column, fold.column(column.name))
        return fold.computed(column.name, values, or_last=not column.field.type.nullable)

    def values(self, fold: Fold, column: AggregateColumn, records: pa.Array) -> pa.Array:
        """By key, from the values by record.

        In their type. Raises InvalidError for a null in a nested key where the column refuses
        it.
        """
        bounds = zip(
            pairwise(offsets_of(records).tolist()), valid_of(records).tolist(), strict=True
        )
        given = [range(*ends) if is_valid else None for ends, is_valid in bounds]
        rules = self.rules(fold, column, records)
        folded = [_folded(rules, given, fold.steps, span) for span in spans(fold)]
        return _gathered(records, rules, folded)


def _folded(
    rules: _Rules,
    elements: Sequence[range | None],
    steps: npt.NDArray[np.int8],
    span: tuple[int, int],
) -> Elements | None:
    """The elements of one key, None for null. elements: of each record; one that is null does nothing, as opposed to
    an empty list. A retraction of nothing stays nothing; a late record that is the first one is simply added.
    """
    state: ElementState | None = None
    for record in range(*span):
        step, given = int(steps[record]), elements[record]
        if step == SKIP or given is None:
            continue
        if step == RETRACT:
            if state is not None:
                state.retract(given)
            continue
        is_first = state is None
        state = state or rules.state()
        (state.late if step == LATE and not is_first else state.add)(given)
    return None if state is None else list(state.elements())


def _gathered(records: pa.Array, rules: _Rules, folded: list[Elements | None]) -> pa.Array:
    """Lists or maps of these elements."""
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
    """The chosen elements. With patches each field is taken from the row that `Patches.fields`
    names for it; no null row comes here, as those do not count.
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
    # Texts in order as integers; None for no time, which never wins against a time.
    times = rows.field(time_field(column))
    pairs = zip(ranks([times]).tolist(), valid_of(times).tolist(), strict=True)
    found = [time if is_known else None for time, is_known in pairs]
    keys = value_codes(records.keys).tolist()
    is_row = valid_of(rows).tolist()
    return _Rules(partial(TimedElements, keys, found, is_row, composes=fold.composes))


def _nested_update(fold: Fold, column: AggregateColumn, records: pa.Array) -> _Rules:
    rows = records.values
    order = column.get(NESTED_SEQUENCE)
    keys, counts = _nested_keys(fold, column, records)
    nested = NestedColumn(
        ranks([rows.field(name) for name in order]).tolist() if order else None,
        value_codes(rows).tolist(),
        counts,
        # Also of a commit: what may matter behind its limit stands apart (`aggregate_barriers`).
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
    """The key of each row, None where rows have none; and whether it counts: null rows do not, nor those that the null
    strategy leaves out. Raises InvalidError where it allows no null.
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
    """For the first record with a wrong element, unless it does nothing. wrong: by element."""
    offsets, valid = offsets_of(records), valid_of(records)
    for record in np.flatnonzero(valid & (fold.steps != SKIP)).tolist():
        if wrong[offsets[record] : offsets[record + 1]].any():
            raise failed(fold, column, record, "null in the nested key")


COLLECT: Final = ElementFunction(_collect, True, Grouping.IN_ORDER)
MERGE_MAP: Final = ElementFunction(_merge_map, True, Grouping.IN_ORDER)
# A null that removes an entry must be there when the entry is.
MERGE_MAP_BY_TIME: Final = ElementFunction(_merge_map_by_time, False, Grouping.NEVER)
NESTED_UPDATE: Final = ElementFunction(_nested_update, True, Grouping.IN_ORDER)
NESTED_PARTIAL_UPDATE: Final = ElementFunction(_nested_partial_update, False, Grouping.IN_ORDER)
