"""The changelog of a merge: the rows before and after it. Pure.

In: a window whose first rows, up to a row number, are the table that readers have seen, and whose other rows are new;
and the plan of the whole window. Out: per key with new rows, in key order:

    before   after    rows
    absent   present  +I after
    present  absent   -D before
    present  present  -U before, +U after      nothing when `row-deduplicate` is set and they are equal
    absent   absent   nothing

A key whose row is a retraction is absent. Source: Paimon `LookupChangelogMergeFunctionWrapper`,
`FullChangelogMergeFunctionWrapper`; semantics.md section 9, format.md section 10. Sequence numbers: -U and -D have the
number of the row before, +I and +U that of the key's newest record. Raises what the engine raises.

    seen, numbers 1 2 3      new, numbers 10 11 12 13     changelog rows, with their numbers
    1:1  2:2  3:3            1:9  -D 2  4:4  -D 5         -U 1:1 (1)  +U 1:9 (10)  -D 2:2 (2)  +I 4:4 (12)

Key 3 has no new row, key 5 did not exist before. A second plan, over the old rows of touched
keys (`_before`), gives the rows before; values of both sides are gathered together, one gather
per column, by indices that take each row from its side (`_Images`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.kernels.array_types import Mask
from widetable.kernels.gather import take
from widetable.merge.engine import MergeEngine, plan_of, unchecked_engine
from widetable.merge.gather import gather
from widetable.merge.merge_engine import RowOrigin
from widetable.merge.plan import Computed, MergePlan, Pick, Source, SourceList
from widetable.merge.row_equality import equal_values
from widetable.merge.window import Window
from widetable.schema import options as opt
from widetable.schema.row_kind import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, is_retraction
from widetable.schema.table_schema import TableSchema

_Rows = npt.NDArray[np.int64]
# The changelog of a key range is gathered in so many parts, one after the other. A changed row appears twice, before
# and after, so one part is half as large as the window.
_PARTS: Final = 4


@dataclass(frozen=True)
class ChangelogRule:
    """Which changes are emitted. compared: columns of which one must differ for an update to be emitted; None: every
    update is emitted; empty: no update is. only_new: rows never change, so only new rows are emitted, as +I
    whatever kind their record has, and rows that expire.
    """

    compared: frozenset[str] | None = None
    only_new: bool = False


def changelog_rule(schema: TableSchema) -> ChangelogRule:
    """Return the rule by the options `changelog-producer.row-deduplicate` and `..-ignore-fields`."""
    options = schema.typed_options
    if unchecked_engine(options).origin is RowOrigin.FIRST:
        return ChangelogRule(only_new=True)
    if not options.get(opt.ROW_DEDUPLICATE):
        return ChangelogRule()
    ignored: tuple[str, ...] = options.get(opt.ROW_DEDUPLICATE_IGNORE_FIELDS)
    passed_over = {*ignored, *schema.trimmed_primary_key}
    return ChangelogRule(frozenset(schema.names).difference(passed_over))


def changelog(
    window: Window,
    first_new_row: int,
    engine: MergeEngine,
    after: MergePlan,
    columns: Sequence[str],
    rule: ChangelogRule,
    gone: _Rows,
) -> Iterator[pa.RecordBatch]:
    """Return the changelog rows of a window. after: its plan, deletes included. gone: places of keys whose row expires
    although the key has no new row.

    The call decides what is emitted; each batch is gathered when the iterator reaches it.
    """
    is_new = window.order >= first_new_row
    touched = _any_per_key(window, is_new)
    touched[gone] = True
    if not touched.any():
        return iter(())
    before = _before(window, touched, is_new, engine, columns)
    rows = _Images(window, before, after)
    emitted = touched & (before.present | rows.present)
    if rule.only_new:
        emitted = touched & (before.present != rows.present)
    updated = np.flatnonzero(emitted & before.present & rows.present)
    if rule.compared is not None and len(updated):
        emitted[updated[rows.are_equal(updated, rule.compared)]] = False
    parts = np.array_split(np.flatnonzero(emitted), _PARTS)
    return (rows.gather(keys, columns) for keys in parts if len(keys))


def _any_per_key(window: Window, rows: Mask) -> Mask:
    return np.add.reduceat(rows, window.starts[:-1], dtype=np.int64) > 0


@dataclass(frozen=True)
class _Before:
    """The merged rows before. plan: of the keys with old rows; at int64[g]: a key's place in it; present bool[g]."""

    plan: MergePlan
    at: _Rows
    present: Mask


def _before(
    window: Window, touched: Mask, is_new: Mask, engine: MergeEngine, columns: Sequence[str]
) -> _Before:
    """Merge the old rows of touched keys. With a big base and few new rows hardly any key is
    touched. For a key without old rows `at` is another key's place, and `present` is false.
    """
    chosen = ~is_new & window.by_row(touched)
    has_old_rows = _any_per_key(window, chosen)
    at = np.cumsum(has_old_rows) - 1
    present = np.zeros(len(has_old_rows), np.bool_)
    if not has_old_rows.any():
        none = MergePlan(np.zeros(0, np.int8), np.zeros(0, np.int64), ())
        return _Before(none, at, present)
    old = window.layer(chosen)
    plan = plan_of(old, engine, columns)
    present[has_old_rows] = ~is_retraction(plan.kinds)
    return _Before(plan, at, present)


class _Images:
    """Rows before and after, by the source of each column. present bool[g]: keys that have a row after the merge."""

    def __init__(self, window: Window, before: _Before, after: MergePlan) -> None:
        self._window = window
        self._before = before
        self._before_of = _source_of_columns(before.plan)
        self._after = after
        self._after_of = _source_of_columns(after)
        self.present = ~is_retraction(after.kinds)

    def are_equal(self, keys: _Rows, compared: Collection[str]) -> Mask:
        """Return bool[k]: whether all these columns have the same value before and after.

        A column that no piece of the window holds is null in both.
        """
        equal = np.ones(len(keys), np.bool_)
        # Each column is compared for the keys that are equal so far.
        at = self._before.at[keys]
        for name in self._window.chosen(compared):
            now = self._after_of[name]
            was, suspects = self._before_of[name], np.flatnonzero(equal)
            if isinstance(was, Pick) and isinstance(now, Pick):  # a row is equal to itself
                differ = was.indices[at[suspects]] != now.indices[keys[suspects]]
                suspects = suspects[differ]
            if len(suspects):
                equal[suspects] = equal_values(
                    was.take(self._window, name, at[suspects]),
                    now.take(self._window, name, keys[suspects]),
                )
                self._window.forget(name)
        return equal

    def gather(self, keys: _Rows, columns: Sequence[str]) -> pa.RecordBatch:
        """Return the changelog rows of these keys, each of which has at least one."""
        was, now = self._before.present[keys], self.present[keys]
        # 1 or 2 rows per key. first: where the rows of each key begin, with the row before if there is one.
        per_key = was.astype(np.int64) + now
        rows = int(per_key.sum())
        key = np.repeat(keys, per_key)
        first = np.concatenate([[0], np.cumsum(per_key)[:-1]])
        is_old = np.zeros(rows, np.bool_)
        is_old[first[was]] = True
        kinds = np.full(rows, INSERT, np.int8)
        kinds[first[was]] = np.where(now[was], UPDATE_BEFORE, DELETE)
        kinds[first[was & now] + 1] = UPDATE_AFTER
        numbers = self._window.sequence_numbers[self._window.last_rows[key]]
        if is_old.any():
            numbers[is_old] = self._before.plan.sequence_numbers[self._before.at[key[is_old]]]
        plan = MergePlan(kinds, numbers, self._sources(key, is_old, columns))
        return gather(self._window, plan, columns)

    def _sources(self, key: _Rows, is_old: Mask, columns: Sequence[str]) -> tuple[Source, ...]:
        """Return the sources of changelog rows: a pick where both sides are picks, otherwise computed values."""
        old_at = self._before.at[key[is_old]]
        mixed: dict[tuple[int, int], _Rows] = {}
        sources = SourceList()
        for name in columns:
            now = self._after_of.get(name)
            if now is None:
                continue
            was = self._before_of.get(name)
            if not isinstance(now, Pick) or isinstance(was, Computed):
                values = self._mixed_values(name, was, now, key, is_old)
                sources.add(name, Computed(name, values))
                continue
            pair = (id(was), id(now))
            if pair not in mixed:
                indices = now.indices[key]
                if was is not None:
                    indices[is_old] = was.indices[old_at]
                mixed[pair] = indices
            sources.add(name, mixed[pair])
        return sources.sources()

    def _mixed_values(
        self, name: str, was: Source | None, now: Source, key: _Rows, is_old: Mask
    ) -> pa.Array:
        """Return the values of one column: the value before where `is_old`, otherwise the value after."""
        both = [now.take(self._window, name, key[~is_old])]
        if was is not None:
            both.append(was.take(self._window, name, self._before.at[key[is_old]]))
        places = np.where(is_old, np.cumsum(is_old) + len(both[0]), np.cumsum(~is_old)) - 1
        return take(pa.concat_arrays(both), places)


def _source_of_columns(plan: MergePlan) -> dict[str, Source]:
    return {name: source for source in plan.sources for name in source.columns}
