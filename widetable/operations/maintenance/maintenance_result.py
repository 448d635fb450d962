"""The result of maintenance: what one round, or all rounds of a maintainer, have done.

In: counts. Out: their combination: a sum, a maximum, or the newer value. Pure, raises nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import add
from typing import Any, Final


@dataclass(frozen=True)
class MaintenanceResult:
    """Counts what one round, or all rounds, have done.

    waits: rounds in which another maintainer had the lease. failures: rounds that failed. snapshot_id: the snapshot of
    the last compaction. freed_files, freed_bytes: from expired snapshots and orphans. damaged_buckets: the most buckets
    that one round skipped. derived_rows: rows written to derived tables; derived_failures: the most derived tables that
    failed in one round; derived_barriers: barriers that wideners of the table completed.
    """

    __module__ = "widetable"

    rounds: int = 0
    compactions: int = 0
    full_compactions: int = 0
    expired_snapshots: int = 0
    orphan_files: int = 0
    waits: int = 0
    failures: int = 0
    snapshot_id: int | None = None
    freed_files: int = 0
    freed_bytes: int = 0
    damaged_buckets: int = 0
    derived_rows: int = 0
    derived_failures: int = 0
    derived_barriers: int = 0

    @property
    def is_idle(self) -> bool:
        """Whether there was nothing to do."""
        return self == MaintenanceResult(rounds=self.rounds)

    def plus(self, other: MaintenanceResult) -> MaintenanceResult:
        mine, theirs = vars(self), vars(other)
        return MaintenanceResult(
            **{name: _COMBINED.get(name, add)(mine[name], theirs[name]) for name in mine}
        )


def _newer(before: int | None, after: int | None) -> int | None:
    return before if after is None else after


# How fields of two rounds are combined that are not added.
_COMBINED: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "snapshot_id": _newer,
    "damaged_buckets": max,
    "derived_failures": max,
}
