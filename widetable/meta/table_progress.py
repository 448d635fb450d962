"""How far the tables of a topology are, and what they wait for. Pure.

    frontier    the barrier up to which a table is complete
    common      the newest one that is complete and exact in all tables that jobs connect with it
    freshness   how long ago the frontier was, by the clock; it grows until the next barrier is complete

Raises nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from widetable.commit.barrier_state import BarrierState
from widetable.commit.writer_registration import DERIVED, Job

# Source: F22 of FLIP-276.
ROOT_TABLE: Final = "Root"
INTERMEDIATE_TABLE: Final = "Intermediate"
FIRST_VERSION: Final = 1


@dataclass(frozen=True)
class WaitedWriter:
    """A writer that a table waits for. barrier: it has completed this one and all before. alive: its registration is in
    force, so its process renews it. is_missing: the table's next barrier waits for it.
    """

    __module__ = "widetable"

    name: str
    kind: str
    barrier: int
    alive: bool
    is_missing: bool


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


@dataclass(frozen=True)
class TableFacts:
    """Of one table, as `registered_jobs` has read it. alive: names of jobs whose registration in
    this table is in force, and of wideners that somebody runs.
    """

    state: BarrierState
    alive: frozenset[str]


def progress_of(
    facts: Mapping[str, TableFacts],
    jobs: Iterable[Job],
    layers: Sequence[Sequence[str]],
    common: Mapping[str, int],
    now_millis: int,
    versions: Mapping[str, int] | None = None,
) -> list[TableProgress]:
    """By layer, then by name. facts: of the tables under barriers; others in layers are left out. common: the barrier
    of each that it has in common with those that jobs connect with it, 0 for none. versions: of tables that are not of
    the first.
    """
    made = {table for job in jobs if job.kind == DERIVED for table in job.tables}
    return [
        replace(
            _progress(table, layer, facts[table], table in made, common[table] or None, now_millis),
            version=(versions or {}).get(table, FIRST_VERSION),
        )
        for layer, tables in enumerate(layers)
        for table in tables
        if table in facts
    ]


def _progress(
    table: str, layer: int, facts: TableFacts, is_made: bool, common: int | None, now_millis: int
) -> TableProgress:
    state = facts.state
    missing = state.behind(state.frontier + state.interval)
    kinds = {member.kind for member in state.members.values()}
    writers = tuple(
        WaitedWriter(name, member.kind, member.frontier, name in facts.alive, name in missing)
        for name, member in sorted(state.members.items())
    )
    return TableProgress(
        table,
        layer,
        INTERMEDIATE_TABLE if is_made or DERIVED in kinds else ROOT_TABLE,
        state.interval,
        state.frontier or None,
        common,
        now_millis - state.frontier if state.frontier else None,
        writers,
    )
