"""Faults that are put into the product one by one, each where two features meet: a decision of it is another one.

`plant` changes this process only; `values` are what a scenario must have for the fault to show.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pytest

from tests.support.models.model import Row
from widetable.format import data_file_reader
from widetable.lsm import moved_rows
from widetable.merge import sorted_merge
from widetable.merge.changelog import ChangelogRule
from widetable.merge.window import Window
from widetable.operations.compaction import postponed_rows
from widetable.operations.handle import snapshot_choice
from widetable.operations.history.named_files import NamedFiles
from widetable.read import scan_plan
from widetable.read.barrier_view import BarrierViews
from widetable.read.indexed import indexed_files
from widetable.schema.row_kind import DELETE, INSERT
from widetable.write import write_batch
from widetable.write.dynamic_buckets import PartitionBuckets


@dataclass(frozen=True)
class Fault:
    """values: by dimension, those that show it."""

    plant: Callable[[pytest.MonkeyPatch], None]
    values: Mapping[str, tuple[str, ...]]

    def shows_in(self, row: Row) -> bool:
        return all(row[name] in values for name, values in self.values.items())


def _first_record_wins(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Window, "last_rows", property(lambda window: window.first_rows))


def _deletes_are_inserts(patch: pytest.MonkeyPatch) -> None:
    kinds_of = write_batch.row_kinds

    def row_kinds(*given: Any) -> Any:
        kinds = kinds_of(*given)
        return np.where(kinds == DELETE, np.int8(INSERT), kinds)

    patch.setattr(write_batch, "row_kinds", row_kinds)


def _columns_by_name(patch: pytest.MonkeyPatch) -> None:
    columns_of = data_file_reader._columns

    def by_name(found: Any, wanted: Any, schema: Any, _: Any, *more: Any) -> Any:
        return columns_of(found, wanted, schema, schema, *more)

    patch.setattr(data_file_reader, "_columns", by_name)


def _tags_keep_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(NamedFiles, "of_tag", lambda *_: {})


def _vectors_are_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(data_file_reader, "deleted_rows", lambda *_: np.empty(0, np.int64))


def _barrier_is_the_next_one(patch: pytest.MonkeyPatch) -> None:
    base = BarrierViews._base
    patch.setattr(
        BarrierViews, "_base", lambda views, barrier: base(views, barrier + views.interval)
    )


def _updates_are_not_emitted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sorted_merge, "changelog_rule", lambda _: ChangelogRule(only_new=True))


def _known_keys_get_new_buckets(patch: pytest.MonkeyPatch) -> None:
    assign = PartitionBuckets.assign

    def anew(buckets: PartitionBuckets, hashes: Any) -> Any:
        buckets._indexed = buckets._added
        return assign(buckets, hashes)

    patch.setattr(PartitionBuckets, "assign", anew)


def _merged_values_are_asked(patch: pytest.MonkeyPatch) -> None:
    columns = indexed_files._columns
    patch.setattr(
        indexed_files,
        "_columns",
        lambda table, predicate, merges: columns(table, predicate, merges=False),
    )


def _postponed_rows_are_turned_around(patch: pytest.MonkeyPatch) -> None:
    placed = moved_rows.placed_at_last

    def turned(state: Any, count: int, files: Any, numbers: Any) -> Any:
        return placed(state, count, files[::-1], numbers)

    patch.setattr(postponed_rows, "placed_at_last", turned)


def _runs_are_not_merged(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(scan_plan, "needs_merge", lambda _: False)


def _snapshot_is_the_newest(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(snapshot_choice, "load_snapshot", lambda store, _: store.latest())


_THAT_DELETE: Final = ("deduplicate", "deduplicate by order", "partial-update that removes")
FAULTS: Final[Mapping[str, Fault]] = {
    "the first record of a key wins": Fault(_first_record_wins, {"engine": ("deduplicate",)}),
    "a -D is written as +I": Fault(
        _deletes_are_inserts, {"engine": _THAT_DELETE, "removal": ("records",)}
    ),
    "columns of a file are found by name": Fault(_columns_by_name, {"evolution": ("swap",)}),
    "a tag keeps nothing from expiry": Fault(
        _tags_keep_nothing, {"history": ("tag and expiry",), "vectors": ("32 bits", "64 bits")}
    ),
    "vectors are ignored": Fault(
        _vectors_are_ignored,
        # Where the newest row of a key wins, a merge hides the rows that a vector deletes.
        {
            "engine": ("aggregation",),
            "vectors": ("32 bits", "64 bits"),
            "compaction": ("inline", "by a job"),
        },
    ),
    "a barrier has the rows of the next one": Fault(
        _barrier_is_the_next_one, {"barrier": ("barriers", "staged")}
    ),
    "updates are not emitted": Fault(
        _updates_are_not_emitted, {"producer": ("lookup",), "reader": ("follow",)}
    ),
    "a known key gets a new bucket": Fault(_known_keys_get_new_buckets, {"bucket": ("dynamic",)}),
    "indexes of values are asked of merged files": Fault(
        _merged_values_are_asked,
        {
            "engine": ("partial-update", "aggregation", "deduplicate"),
            "indexes": ("bloom", "bitmaps", "inline"),
            "reader": ("condition on values",),
            "compaction": ("write-only", "by a job"),
        },
    ),
    "postponed rows are placed in another order": Fault(
        _postponed_rows_are_turned_around, {"bucket": ("postponed",), "writers": ("overtaken",)}
    ),
    "runs are not merged": Fault(_runs_are_not_merged, {"compaction": ("write-only",)}),
    "time travel gives the newest rows": Fault(
        _snapshot_is_the_newest, {"reader": ("time travel",)}
    ),
}
