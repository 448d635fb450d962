"""How far the tables of a topology are, and what they wait for. Pure.

    frontier    the barrier up to which a table is complete
    common      the newest one that is complete and exact in all tables that jobs connect with it
    freshness   how long ago the frontier was, by the clock; it grows until the next barrier is complete

Raises nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from widetable.commit.barriers.writer_registration import DERIVED, Job
from widetable.topology.registered_jobs import JobsOfTable

# Source: F22 of FLIP-276.
ROOT_TABLE: Final = "Root"
INTERMEDIATE_TABLE: Final = "Intermediate"
FIRST_VERSION: Final = 1


@dataclass(frozen=True)
class WaitedWriter:
    """A writer that a table waits for. barrier: it has completed this one and all before. alive: its registration is in
    force, so its process renews it. is_missing: the table's next barrier waits for it. silent_millis: for how long it
    has not been heard of, where it is not alive and was registered.
    """

    __module__ = "widetable"

    name: str
    kind: str
    barrier: int
    alive: bool
    is_missing: bool
    silent_millis: int | None = None


@dataclass(frozen=True)
class TableProgress:
    """layer: 0 for tables that no job makes of others. table_type: `Root` or `Intermediate`. version: 1, and one more
    with each revision. barrier, common_barrier: None where none is complete.
    """

    __module__ = "widetable"

    table: str
    layer: int
    table_type: str
    interval_millis: int
    barrier: int | None
    common_barrier: int | None
    freshness_millis: int | None
    writers: tuple[WaitedWriter, ...]
    version: int = FIRST_VERSION

    @property
    def missing(self) -> tuple[str, ...]:
        """Writers that the next barrier waits for."""
        return tuple(writer.name for writer in self.writers if writer.is_missing)


def barrier_without(one: TableProgress, writer: str) -> int | None:
    """Up to which barrier a table would be complete without a writer: as far as the slowest of the others, and never
    back; without any it stays where it is.
    """
    others = [each.barrier for each in one.writers if each.name != writer]
    return max(one.barrier or 0, min(others, default=0)) or None


def progress_of(
    found: Iterable[JobsOfTable],
    jobs: Iterable[Job],
    layers: Sequence[Sequence[str]],
    common: Mapping[str, int],
    versions: Mapping[str, int],
    now_millis: int,
) -> list[TableProgress]:
    """By layer, then by name. found: the tables under barriers; others in layers are left out. common: the barrier
    of each that it has in common with those that jobs connect with it, 0 for none.
    """
    under_barriers = {table.name: table for table in found}
    made = {table for job in jobs if job.kind == DERIVED for table in job.tables}
    return [
        _progress(
            under_barriers[name], layer, name in made, common[name], versions[name], now_millis
        )
        for layer, names in enumerate(layers)
        for name in names
        if name in under_barriers
    ]


def _progress(
    table: JobsOfTable, layer: int, is_made: bool, common: int, version: int, now_millis: int
) -> TableProgress:
    state, alive, silent = table.state, table.alive(), table.silent()
    missing = state.behind(state.frontier + state.interval)
    kinds = {member.kind for member in state.members.values()}
    writers = tuple(
        WaitedWriter(
            name, member.kind, member.frontier, name in alive, name in missing, silent.get(name)
        )
        for name, member in sorted(state.members.items())
    )
    return TableProgress(
        table.name,
        layer,
        INTERMEDIATE_TABLE if is_made or DERIVED in kinds else ROOT_TABLE,
        state.interval,
        state.frontier or None,
        common or None,
        now_millis - state.frontier if state.frontier else None,
        writers,
        version,
    )
