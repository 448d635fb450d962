"""A job whose database Debezium reads: the full copy and the log, by one engine, exactly once across restarts.

    state ─► the engine's files ─► engine ─► rounds ─► one commit for each touched table ─► state, in one commit

Where the engine begins is a row of a table in the warehouse, written after the tables of a round. A job that is killed
anywhere gets the round again, cut elsewhere perhaps, and each table leaves out the changes that it has. The engine's
own files are made of that state in a temporary directory, and forgotten at the end.

What has no meaning without PostgreSQL's slot is refused by its name. Raises UnsupportedError for it and without the
extra, InvalidError for a table or a log that the job cannot follow, StorageError for a server that does not answer.
"""

from __future__ import annotations

import logging
import tempfile
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from widetable import Catalog, UnsupportedError
from widetable.connector import now_millis, temporary_directory
from widetable_cdc.applying.error_rows import ErrorTable
from widetable_cdc.debezium.debezium_apply import DebeziumSettings
from widetable_cdc.debezium.unavailable import DEFAULT
from widetable_cdc.embedded.binlog_position import offset_position
from widetable_cdc.embedded.binlog_server import end_of_log, read_to
from widetable_cdc.embedded.caught_up import CaughtUp
from widetable_cdc.embedded.connectors import Connector, connector_of
from widetable_cdc.embedded.engine_feed import EngineFeed, write_offset_file
from widetable_cdc.embedded.engine_properties import engine_properties
from widetable_cdc.embedded.engine_source import PLACEHOLDER, EngineSource
from widetable_cdc.embedded.engine_state import EngineState, EngineStates
from widetable_cdc.embedded.engine_tables import EngineTables, MirrorRules
from widetable_cdc.embedded.java_machine import JavaMachine, jar_files
from widetable_cdc.embedded.rounds import EngineRound, RoundCutter
from widetable_cdc.jobs.config import SyncConfig
from widetable_cdc.jobs.followed_states import Status
from widetable_cdc.jobs.sync_status import EngineStatus, SyncedTable

_log = logging.getLogger("widetable")
# The state is saved that often where no round has changes: positions move, and need not be exact.
_SAVE_SECONDS: Final = 30.0
COPIED: Final = "copied"
CAUGHT_UP: Final = "caught-up"


@dataclass
class EngineJob:
    """A job. source: the database, of the configuration."""

    config: SyncConfig
    source: EngineSource

    def run(self, until: str | int | None, stop: threading.Event) -> EngineStatus:
        """Copy and follow the database, until a goal or `stop`."""
        base = temporary_directory("for the files of Debezium's engine")
        with tempfile.TemporaryDirectory(prefix="widetable-engine-", dir=base) as folder:
            run = EngineRun.started(self.config, self.source, Path(folder), until)
            try:
                run.follow(stop)
            finally:
                run.close()
        return self.status()

    def status(self) -> EngineStatus:
        """Read the state of the job from its tables. The server is not asked."""
        catalog = Catalog(self.config.target.warehouse)
        state = _states(catalog, self.config).load()
        tables = EngineTables(catalog, mirror_rules(self.config), dict(state.forms))
        followed = Status.COPYING if state.offset is None else Status.STREAMING
        position = None if state.offset is None else state.position
        return EngineStatus(
            name=self.config.name,
            confirmed_lsn=position,
            server_lsn=position or 0,
            held_bytes=0,
            wal_status=None,
            errors=ErrorTable(catalog, self.config.target.database, self.config.user).in_table(),
            tables=tuple(
                SyncedTable(relation, tables.target(relation), followed, "", at, 0, 0)
                for relation, at in sorted(tables.positions().items())
            ),
            connector=self.source.connector,
        )

    def refused(self, what: str, action: str) -> UnsupportedError:
        """Return the error for what such a job cannot do."""
        return UnsupportedError(
            what,
            found=f"a database that Debezium's connector {self.source.connector!r} reads",
            expected="a database of kind 'postgresql'",
            action=action,
        )


@dataclass
class EngineRun:
    """One run of the engine."""

    config: SyncConfig
    states: EngineStates
    state: EngineState
    tables: EngineTables
    cutter: RoundCutter
    feed: EngineFeed
    history: Path
    until: str | int | None
    caught_up: CaughtUp | None
    machine: JavaMachine
    connector: Connector
    _saved: EngineState = field(init=False)
    _saved_at: float = field(default_factory=time.monotonic, init=False)

    def __post_init__(self) -> None:
        self._saved = self.state

    @staticmethod
    def started(
        config: SyncConfig, source: EngineSource, folder: Path, until: str | int | None
    ) -> EngineRun:
        """Write the engine's files of the state, and start the engine."""
        catalog = Catalog(config.target.warehouse)
        states = _states(catalog, config)
        state = states.load()
        connector = connector_of(source.connector)
        machine = JavaMachine(jar_files(source.jars), folder)
        goal = until if isinstance(until, int) else None
        if until == CAUGHT_UP:
            goal = end_of_log(machine, connector, source.properties)
        prefix = _prefix(config)
        offsets, history = folder / "offsets", folder / "history"
        if state.offset is not None:
            history.write_text("".join(f"{line}\n" for line in state.history), encoding="utf-8")
            write_offset_file(machine, offsets, prefix, state.offset)
        properties = engine_properties(
            connector,
            prefix,
            source.properties,
            config.tables,
            config.exclude,
            offsets=str(offsets),
            history=str(history),
        )
        return EngineRun(
            config=config,
            states=states,
            state=state,
            tables=EngineTables(catalog, mirror_rules(config), dict(state.forms)),
            cutter=RoundCutter(prefix, state.offset),
            feed=EngineFeed(machine, properties),
            history=history,
            until=until,
            caught_up=None if goal is None else CaughtUp(goal, now_millis),
            machine=machine,
            connector=connector,
        )

    def follow(self, stop: threading.Event) -> None:
        """Apply rounds until the goal or `stop`."""
        while not stop.is_set():
            self._read()
            for round in self.cutter.take():
                self._apply(round)
            if self._is_reached():
                break
            if self.state != self._saved and time.monotonic() - self._saved_at > _SAVE_SECONDS:
                self._save()
        if self.state != self._saved:
            self._save()

    def close(self) -> None:
        """End the engine."""
        self.feed.close()

    def _read(self) -> None:
        """Take what the engine has, up to the limit of a round; wait for it if there is nothing."""
        if self.caught_up is not None and self.caught_up.waits_for_reading:
            self.caught_up.read_to(read_to(self.machine, self.connector, _prefix(self.config)))
        batch = self.feed.take(self.config.limits.max_delay_millis / 1000)
        while batch is not None:
            if self.caught_up is not None:
                self.caught_up.see(batch)
            self.cutter.add(batch)
            is_full = self.cutter.waiting >= self.config.limits.max_changes
            batch = None if is_full else self.feed.take(0)

    def _apply(self, round: EngineRound) -> None:
        before = self.state
        start = 0 if before.offset is None else offset_position(before.offset)
        position = self.tables.apply(round, before.position, start)
        if round.ends_copy:
            assert round.offset is not None, "the copy ends with one"
            position = offset_position(round.offset)
            _log.info("%s: the full copy is complete", self.config.name)
        offset = before.offset if round.offset is None else round.offset
        self.state = replace(
            before, offset=offset, position=position, forms=dict(self.tables.forms)
        )
        if round.ends_copy or len(round):
            self._save()

    def _save(self) -> None:
        """Write the state behind the tables, with the lines that the engine's history has by now."""
        if self.state.offset is not None:
            self.state = replace(self.state, history=_whole_lines(self.history))
        if self.state != self._saved:
            self.states.save(self.state, len(self._saved.history))
        self._saved, self._saved_at = self.state, time.monotonic()

    def _is_reached(self) -> bool:
        if self.until == COPIED:
            return self.state.offset is not None
        return self.caught_up is not None and self.caught_up.is_reached


def mirror_rules(config: SyncConfig) -> MirrorRules:
    """Return what a configuration says of the mirrors of its tables."""
    properties = {} if config.engine is None else config.engine.properties
    return MirrorRules(
        name=config.name,
        user=config.user,
        tables=config.tables,
        exclude=config.exclude,
        settings=DebeziumSettings(
            placeholder=properties.get(PLACEHOLDER, DEFAULT),
            on_error=config.rules.on_error,
            truncate=config.rules.truncate,
        ),
        target=config.target_name,
        key=lambda database, name: config.of(database, name).key,
        options=lambda database, name: {
            **config.target.options,
            **config.of(database, name).options,
        },
    )


def _states(catalog: Catalog, config: SyncConfig) -> EngineStates:
    return EngineStates(catalog, config.target.database, config.name, config.user)


def _prefix(config: SyncConfig) -> str:
    """The prefix of the engine's topics. A change of it would lose the offset."""
    return f"widetable_{config.name}"


def _whole_lines(path: Path) -> tuple[str, ...]:
    """Return the lines of a file that the engine may be writing to."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return tuple(text.split("\n")[:-1])
