"""The states of chunks of a job, in the table `<database>.__cdc_<name>`. Raises what writes to a table raise."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import pyarrow as pa

from widetable import Catalog, Table
from widetable.connector import ROW_KIND_COLUMN
from widetable_cdc.copying.chunk_plan import ChunkPlan
from widetable_cdc.copying.chunk_states import KEY, SCHEMA, ChunkState, from_table, to_table
from widetable_cdc.jobs.followed_states import rows_there, state_table


class ChunkStore:
    """Chunks by the oid of their relation. database, job: give the name of the table, which the first chunk makes."""

    def __init__(self, catalog: Catalog, database: str, job: str) -> None:
        self._catalog = catalog
        self._name = f"{database}.__cdc_{job}"

    @property
    def _table(self) -> Table:
        return state_table(self._catalog, self._name, SCHEMA, list(KEY))

    def load(self) -> dict[int, ChunkPlan]:
        """Read the plans of all tables that are copied, by oid."""
        states: dict[int, list[ChunkState]] = defaultdict(list)
        for state in self._states():
            states[state.relation].append(state)
        return {oid: ChunkPlan(of) for oid, of in states.items()}

    def save(self, states: Iterable[ChunkState]) -> None:
        """Write states in one commit."""
        self._table.write(to_table(states))

    def plan(self, plan: ChunkPlan) -> None:
        """Write the states of a table in place of those that an earlier plan has left, in one commit.

        A job that was killed between its plan and its table leaves some, of other ranges perhaps.
        """
        new = {state.chunk for state in plan.states}
        relation = plan.states[0].relation
        left = [state for state in self._states() if state.relation == relation]
        gone = [state for state in left if state.chunk not in new]
        rows = pa.concat_tables([_kinds(gone, "-D"), _kinds(plan.states, "+I")])
        self._table.write(rows)

    def drop(self, plan: ChunkPlan) -> None:
        """Delete the states of a table in one commit."""
        self._table.write(_kinds(plan.states, "-D").select([*KEY, ROW_KIND_COLUMN]))

    def _states(self) -> tuple[ChunkState, ...]:
        return from_table(rows_there(self._catalog, self._name, SCHEMA))


def _kinds(states: Iterable[ChunkState], kind: str) -> pa.Table:
    """Return the rows of states, with a row kind."""
    rows = to_table(states)
    kinds = pa.repeat(pa.scalar(kind), rows.num_rows)
    return rows.append_column(ROW_KIND_COLUMN, kinds)
