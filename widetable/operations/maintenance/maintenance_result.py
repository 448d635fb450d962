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
    """What one round of maintenance did, or all rounds together.

    Attributes
    ----------
    rounds : int
        How many rounds there were.
    compactions, full_compactions : int
        How many compactions were committed, and how many of them were full.
    expired_snapshots : int
        How many snapshots expired.
    orphan_files : int
        How many orphan files were deleted.
    waits : int
        In how many rounds another maintainer had the lease.
    failures : int
        How many rounds failed.
    snapshot_id : int or None
        The snapshot of the last compaction. None: there was no compaction.
    freed_files, freed_bytes : int
        Number and size of the files of expired snapshots and of orphans.
    damaged_buckets : int
        How many buckets a round skipped because they are quarantined, at most.
    derived_rows : int
        How many rows were written to derived tables.
    derived_failures : int
        How many derived tables failed in a round, at most.
    derived_barriers : int
        How many barriers the wideners of the table completed.
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
        """Add the results of two rounds.

        Parameters
        ----------
        other : MaintenanceResult
            The later result.

        Returns
        -------
        MaintenanceResult
            The result of both.
        """
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
