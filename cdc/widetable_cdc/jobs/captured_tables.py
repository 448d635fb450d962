"""All tables that a job follows: it takes new ones in, gives each its part of a round, and keeps their states.

    the source has          the job knows it as     what happens at `take_in`
    a new table             -                       target made, chunks planned: COPYING
    the same table          COPYING                 the plan is read, and goes on
    the same table          STREAMING               -
    the same table          PARKED, PAUSED          left out, until `resume` plans a new copy
    the same table          PARKED, has no target   tried again
    another table so named  any                     parked: it was dropped and made again
    no table                any                     GONE, its target stays

Raises what the source and the targets raise.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from widetable import Catalog, InvalidError, NotFoundError
from widetable.connector import WarningCode, last_identifier, warn
from widetable_cdc.applying.error_rows import ErrorTable
from widetable_cdc.copying.chunk_plan import ChunkPlan
from widetable_cdc.evolution.applied_form import AppliedForm
from widetable_cdc.evolution.emptied import emptied_by
from widetable_cdc.jobs.captured_table import CapturedTable
from widetable_cdc.jobs.checked_sections import check_sections, section_text
from widetable_cdc.jobs.chunk_store import ChunkStore
from widetable_cdc.jobs.clock_barriers import ClockBarriers
from widetable_cdc.jobs.config import SyncConfig
from widetable_cdc.jobs.evolved_table import Evolution, Evolved, relation_of
from widetable_cdc.jobs.followed_server import SERVER
from widetable_cdc.jobs.followed_states import FollowedState, FollowedStates, Status, no_such_table
from widetable_cdc.jobs.row_reread import RowReread
from widetable_cdc.jobs.shared_target import has_target, other_fillers
from widetable_cdc.jobs.source_link import SourceLink
from widetable_cdc.jobs.sync_status import SyncStatus, synced_tables
from widetable_cdc.jobs.target_table import copied_ranges, fitting_target, leave_target, opened
from widetable_cdc.log.changes import ChangeBatch, Relation, Transactions
from widetable_cdc.source.server_checks import changed_members, table_problem, unsent_parts
from widetable_cdc.source.slot import SlotStatus
from widetable_cdc.source.source_table import SourceTable

_log = logging.getLogger("widetable")


class CapturedTables:
    """The tables of a job.

    states: by schema.table, as they were last saved. server: the one of the last run. chunks: the states of chunks.
    barriers: of the targets whose barriers are moments of the clock. database: the name of that of the source.
    """

    def __init__(self, config: SyncConfig) -> None:
        self._config = config
        self._catalog = Catalog(config.target.warehouse)
        database = config.target.database
        self._store = FollowedStates(self._catalog, database, config.name)
        self.chunks = ChunkStore(self._catalog, database, config.name)
        self.states = self._store.load()
        self.server = self._store.load_server()
        self.database = "" if self.server is None else self.server.facts.database
        is_stopping = config.rules.on_error == "stop"
        self._errors = ErrorTable(self._catalog, database, config.name, stops=is_stopping)
        self.barriers = ClockBarriers(config.user)
        self._open: dict[int, CapturedTable] = {}
        self._behind: set[int] = set()

    def take_in(self, link: SourceLink) -> None:
        """Compare the tables of the source with those of the job, and open those that it follows."""
        now = link.tables()
        self._let_go({name for name in self.states if name not in now})
        new = {name: table for name, table in now.items() if self._is_new(name)}
        left = {name for name, table in new.items() if self._stays_refused(link, name, table)}
        if new.keys() - left:
            link.publish({name: table for name, table in new.items() if name not in left})
        server = link.server()
        self.database = server.facts.database
        again = frozenset[tuple[str, str]]()
        if self.server is not None:
            again = changed_members(self.server.members, server.members)
        unsent = unsent_parts(now.values(), server.members)
        # Transactions that run now may have written a table before it was published: no chunk is read before they end.
        floor = link.floor_xid()
        plans = self.chunks.load()
        for name, table in now.items():
            if name in left:
                continue
            problem = table_problem(table) or unsent.get((table.schema, table.name))
            if problem is not None:
                self._refuse(name, table, problem)
            elif name in new:
                self._try_add(link, name, table, floor)
            elif table.oid != self.states[name].form.table.oid:
                self._park(name, "the table was dropped and made again")
            elif table.oid not in self._open and self._is_reconfigured(self.states[name]):
                self._park(name, "its section says other columns than its target was made by")
            elif table.oid not in self._open and self.states[name].status in _FOLLOWED:
                self._follow(table.oid, self.states[name], plans.get(table.oid), floor)
            followed = self._open.get(table.oid)
            is_out = (table.schema, table.name) in again
            if followed is not None and (why := link.why_again(followed.plan is not None, is_out)):
                self._reopened(followed, Evolved(followed.state.form, copies_again=why), link)
        link.has_failed_over = False
        # Their changes would hold nothing, but cost the server and the job a decoding.
        link.take_out([table for name, table in new.items() if not has_target(self.states[name])])
        if self.server is None or server.differs(self.server):
            self._store.save_server(server)
            self.server = server

    def check_sections(self, link: SourceLink) -> None:
        """Refuse sections of tables that are never taken, and entries that do not fit a table that is new."""
        now = link.tables()
        new = {name: table for name, table in now.items() if self._is_new(name)}
        check_sections(self._config, new, {*now, *self.states}, link.database)

    def _let_go(self, names: set[str]) -> None:
        """Mark tables as gone. A renamed table is gone under its old name, and new under the other one."""
        for name in names:
            state = self.states[name]
            if state.status is not Status.GONE:
                self._open.pop(state.form.table.oid, None)
                self._change(replace(state, status=Status.GONE, reason="not at the source"))

    def apply(
        self,
        link: SourceLink,
        forms: Sequence[Relation],
        batches: Sequence[ChangeBatch],
        transactions: Transactions,
    ) -> int:
        """Apply the part of a round that one relation has, and return the number of commits.

        forms: those in which the log has the relation, in its order. transactions: of the round.
        """
        lsn = int(transactions.end_lsns[-1])
        table = self._open.get(forms[-1].oid)
        if table is None:
            return 0
        if lsn <= table.skips_to:
            table.leave_out(batches)
            return 0
        table.check_truncates(batches)
        evolution = Evolution(self._catalog, self._config, link)
        evolved = evolution.evolve(table, forms, emptied_by(batches))
        table = self._evolved(table, evolved, link)
        if table is None:
            return 0
        if evolved.copies_again is not None:
            table.leave_out(batches)
            return 0
        reread = RowReread(table, self._config.source.dsn, self._config.name)
        is_done = table.apply(batches, transactions, evolved.fills, evolved.names, reread)
        if is_done:
            self._behind |= set(self._open)
            self._behind.discard(forms[-1].oid)
        return int(is_done)

    def copying(self) -> list[CapturedTable]:
        """Return the tables that have chunks to read."""
        return [t for t in self._open.values() if t.plan is not None and not t.plan.is_copied]

    def to_copy(self, position: int) -> list[CapturedTable]:
        """Return those whose next chunk may be read now: the log has come to where the copy begins."""
        return [table for table in self.copying() if table.skips_to <= position]

    def is_open(self, table: CapturedTable) -> bool:
        """Whether the job still follows a table by this object."""
        return self._open.get(table.source.oid) is table

    def altered(self, link: SourceLink, table: CapturedTable) -> None:
        """Copy a table anew with the columns that it has now. The log may not say so before the next change."""
        evolution = Evolution(self._catalog, self._config, link)
        evolved = evolution.to_catalog(table, "it was altered while it was copied")
        self._evolved(table, evolved, link)

    def _evolved(
        self, table: CapturedTable, evolved: Evolved, link: SourceLink
    ) -> CapturedTable | None:
        """Save what has become of a table, and open it again; return None if it is parked."""
        if evolved.park is not None:
            self._park(table.state.relation, evolved.park)
            return None
        if evolved.form != table.state.form or evolved.copies_again is not None:
            return self._reopened(table, evolved, link)
        return table

    def are_ending(self) -> bool:
        """Whether the copy of a table is read, but the log has not passed its snapshots."""
        return any(table.plan is not None for table in self._open.values())

    def end_copies(self, position: int) -> None:
        """Let tables stream whose copy the log has passed."""
        for oid, table in self._open.items():
            if table.streams_from(position):
                plan = table.plan
                assert plan is not None, "a table that is copied has a plan"
                table.end_copy()
                self._change(table.state)
                self.chunks.drop(plan)
                self._behind.add(oid)
                _log.info("%s: %s is copied", self._config.name, table.state.relation)

    def pass_on(self, position: int) -> bool:
        """Complete the barrier of a position for tables that the last rounds did not touch; return whether there were
        any. Barriers of the clock are others (`complete_barriers`).
        """
        behind = [self._open[oid] for oid in self._behind if oid in self._open]
        for table in behind:
            if table.plan is None and table.clock is None:
                table.target.complete(position)
        self._behind = {
            oid for oid in self._behind if oid in self._open and self._open[oid].plan is not None
        }
        return any(table.plan is None for table in behind)

    def complete_barriers(self, position: int, *, ends: bool = False) -> None:
        """Complete the clock's barrier, if the log is confirmed up to a position. ends: the job ends there."""
        self.barriers.complete(self._open.values(), position, ends=ends)

    def opened(self, name: str | None = None) -> list[CapturedTable]:
        """Return the tables that are copied or streaming, opened for reading; one alone if it is named."""
        every = [state for _, state in sorted(self.states.items())]
        states = every if name is None else [self._state(name)]
        return [self._opened(state) for state in states if state.status in _FOLLOWED]

    def _opened(self, state: FollowedState) -> CapturedTable:
        return opened(
            self._catalog, self._config, state, self._errors, self.barriers, self.database
        )

    def mark(self, name: str, status: Status, reason: str) -> None:
        """Save another status of a table."""
        self._change(replace(self._state(name), status=status, reason=reason))

    def resume(self, name: str, *, recopy: bool) -> None:
        """Let the next start copy a table again. The target of a parked table is made again: its key may differ now.

        A wide table that has a group of the source stays: other streams fill it, too. The target of a table that is
        followed stays as well, and is made if somebody dropped it.
        """
        state = self._state(name)
        if state.status in _FOLLOWED and not recopy:
            return
        if not recopy:
            raise InvalidError(
                f"table {name}",
                found=f"a table that is {state.status.value}, whose changes were not kept",
                expected="a new copy",
                action="Resume it with recopy.",
            )
        is_another = state.status is Status.PARKED or self._is_reconfigured(state)
        if is_another and self._is_ours(state):
            self._catalog.drop_table(state.target, if_exists=True)
        self._forget(state)

    def forget(self) -> None:
        """Forget all tables, so that the next start copies them again. Targets stay: each chunk replaces its range.

        Those under barriers of the clock do not wait for the job any more, also where their tables are left out.
        """
        for state in list(self.states.values()):
            leave_target(self._catalog, self._config, state)
            self._forget(state)
        self._store.delete(SERVER)

    def status(self, slot: SlotStatus) -> SyncStatus:
        """Return the state of the job. slot: its standing."""
        states = [state for _, state in sorted(self.states.items())]
        plans = self._plans() if self._open else self.chunks.load()
        tables = synced_tables(states, plans, self.positions())
        return SyncStatus.of(self._config.name, slot, self._errors.in_table(), tables)

    def _plans(self) -> dict[int, ChunkPlan]:
        return {oid: table.plan for oid, table in self._open.items() if table.plan is not None}

    def positions(self) -> dict[str, int | None]:
        """Return the position of each target, by relation."""
        return {each.relation: self._position(each) for each in self.states.values()}

    def _position(self, state: FollowedState) -> int | None:
        table = self._open.get(state.form.table.oid)
        if table is not None:
            return table.position or None
        try:
            return last_identifier(self._catalog.table(state.target), self._config.user)
        except NotFoundError:
            return None

    def _is_new(self, name: str) -> bool:
        """Whether a table has no target yet. One that was refused before is tried again: its cause may be mended."""
        state = self.states.get(name)
        return state is None or state.status is Status.GONE or not has_target(state)

    def _is_reconfigured(self, state: FollowedState) -> bool:
        """Whether the section of a followed table is another one than its target was made by."""
        try:
            is_followed = state.status in _FOLLOWED
            return is_followed and state.form.section != self._section(state.form.table)
        except InvalidError:
            return True

    def _is_ours(self, state: FollowedState) -> bool:
        """Whether the job alone fills the target of a table."""
        source = state.form.table
        is_group = self._config.of(source.schema, source.name).group is not None
        is_alone = not is_group and has_target(state)
        return is_alone and not other_fillers(
            self._catalog, self._config, state.relation, state.target
        )

    def _stays_refused(self, link: SourceLink, name: str, table: SourceTable) -> bool:
        """Whether no target fits a table that was refused before: it is not published for another try."""
        state = self.states.get(name)
        if state is None or has_target(state) or table_problem(table) is not None:
            return False
        made = self._target(link, name, table)
        if isinstance(made, str):
            self._refuse(name, table, made)
        return isinstance(made, str)

    def _try_add(self, link: SourceLink, name: str, table: SourceTable, floor: int) -> None:
        """Take a new table in; park it if no target fits it."""
        made = self._target(link, name, table)
        if isinstance(made, str):
            self._refuse(name, table, made)
        else:
            self._add(name, table, floor, *made)

    def _target(
        self, link: SourceLink, name: str, table: SourceTable
    ) -> tuple[str, dict[int, int]] | str:
        highest = link.highest_position()
        return fitting_target(self._catalog, self._config, table, link.database, highest)

    def _section(self, table: SourceTable) -> str:
        return section_text(self._config, table, self.database)

    def _add(
        self, name: str, table: SourceTable, floor: int, target: str, fields: dict[int, int]
    ) -> None:
        plan = self._planned(table)
        form = AppliedForm(relation_of(table), table, fields, self._section(table))
        state = FollowedState(name, Status.COPYING, target, form)
        self._change(state)
        self._follow(table.oid, state, plan, floor)

    def _follow(self, oid: int, state: FollowedState, plan: ChunkPlan | None, floor: int) -> None:
        is_copying = state.status is Status.COPYING
        # A job that was killed at the end of a copy leaves its plan, and one that planned no copy has none.
        if plan is not None and not is_copying:
            self.chunks.drop(plan)
        if plan is None and is_copying:
            plan = self._planned(state.form.table)
        table = self._opened(state)
        table.position = table.target.position() or 0
        self.barriers.join(table)
        table.plan = plan if is_copying else None
        table.floor_xid = floor
        self._open[oid] = table

    def _reopened(self, table: CapturedTable, evolved: Evolved, link: SourceLink) -> CapturedTable:
        """Save what a change of the schema has made of a table, and open it.

        Form and status are saved in one commit, behind the plan of a new copy: a form alone would say that there is
        nothing left to do.
        """
        state, plan = replace(table.state, form=evolved.form), table.plan
        oid, again = table.source.oid, evolved.copies_again
        if again is not None:
            warn(
                _log,
                WarningCode.TABLE_COPIED_AGAIN,
                "%s: %s is copied again: %s",
                self._config.name,
                state.relation,
                again,
            )
            plan = self._planned(state.form.table)
            state = replace(state, status=Status.COPYING)
        self._change(state)
        self._follow(oid, state, plan, link.floor_xid())
        after = self._open[oid]
        if again is not None:
            after.skips_to = link.server_lsn()
        else:
            after.inherit(table)
        return after

    def _planned(self, table: SourceTable) -> ChunkPlan:
        """Plan the copy of a table, and save the plan in place of an earlier one."""
        plan = ChunkPlan.planned(table.oid, copied_ranges(self._config, table))
        self.chunks.plan(plan)
        return plan

    def _refuse(self, name: str, table: SourceTable, problem: str) -> None:
        """Park a table that cannot be followed."""
        before = self.states.get(name)
        if before is not None and not has_target(before) and before.reason == problem:
            return
        if self._is_new(name):
            target = self._config.target_name(table.schema, table.name)
            form = AppliedForm(relation_of(table), table, {})
            self.states[name] = FollowedState(name, Status.COPYING, target, form)
        self._park(name, problem)

    def _park(self, name: str, reason: str) -> None:
        state = self.states[name]
        if state.status is Status.PARKED:
            return
        warn(
            _log,
            WarningCode.TABLE_PARKED,
            "%s: %s is parked: %s",
            self._config.name,
            name,
            reason,
        )
        self._open.pop(state.form.table.oid, None)
        self._change(replace(state, status=Status.PARKED, reason=reason))

    def _forget(self, state: FollowedState) -> None:
        # Chunks last: a table whose state is there without them would seem to be copied.
        self._store.delete(state.relation)
        del self.states[state.relation]
        plan = self.chunks.load().get(state.form.table.oid)
        if plan is not None:
            self.chunks.drop(plan)

    def _state(self, name: str) -> FollowedState:
        state = self.states.get(name)
        if state is None:
            raise no_such_table(name, self._config.name, self.states)
        return state

    def _change(self, state: FollowedState) -> None:
        self._store.save(state)
        self.states[state.relation] = state
        table = self._open.get(state.form.table.oid)
        if table is not None:
            table.state = state


_FOLLOWED = (Status.COPYING, Status.STREAMING)
