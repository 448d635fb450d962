"""The progress of the tables of a topology, and the writers for which they wait. Pure.

    frontier    the barrier up to which a table is complete
    common      the newest barrier that is complete and exact in all tables that jobs connect with it
    freshness   the age of the frontier, by the clock; it grows until the next barrier is complete

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
    """A writer that a table waits for.

    Attributes
    ----------
    name : str
        The name of the writer.
    kind : str
        `root` or `derived`.
    barrier : int
        The newest barrier that the writer has completed.
    alive : bool
        Whether its registration is active, so that its process renews it.
    is_missing : bool
        Whether the next barrier of the table waits for it.
    silent_millis : int or None
        For how many milliseconds it has been silent, if it is not alive and was registered.
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
    """How far a table under barriers is. Barriers are epoch milliseconds; None: no barrier is complete.

    Attributes
    ----------
    table : str
        `db.name` of the table.
    layer : int
        0 for a table that no job derives from others, else one more than the highest layer of its sources.
    table_type : str
        `Root` or `Intermediate`.
    interval_millis : int
        The time between two barriers, in milliseconds.
    barrier : int or None
        The newest barrier that is complete in the table.
    common_barrier : int or None
        The newest barrier that is complete in all tables that jobs connect with this one.
    freshness_millis : int or None
        How old the newest complete barrier is, in milliseconds.
    writers : tuple of WaitedWriter
        The writers that the table waits for.
    version : int
        1, and one more with each revision.
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
        """The writers that the next barrier waits for."""
        return tuple(writer.name for writer in self.writers if writer.is_missing)


def barrier_without(one: TableProgress, writer: str) -> int | None:
    """Return the barrier up to which a table would be complete without a writer: that of the slowest other writer, but
    never an earlier one than now; without other writers it does not change.
    """
    others = [each.barrier for each in one.writers if each.name != writer]
    return max(one.barrier or 0, min(others, default=0)) or None


def progress_of(
    tables: Iterable[JobsOfTable],
    jobs: Iterable[Job],
    layers: Sequence[Sequence[str]],
    common: Mapping[str, int],
    versions: Mapping[str, int],
    now_millis: int,
) -> list[TableProgress]:
    """Return the progress of tables, by layer, then by name.

    tables: those under barriers; others in layers are left out. common: for each table the newest barrier that it has
    in common with connected tables, 0 for none.
    """
    under_barriers = {table.name: table for table in tables}
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
