"""What a slow reader may do next: choose the newest common barrier, pin table after table, read. Raises Broken."""

from __future__ import annotations

from dataclasses import dataclass

from tests.model_checking.chain import Ids, fold, view_by_snapshot
from tests.model_checking.invariants import Invariants
from tests.model_checking.search import Broken
from tests.model_checking.state import ReaderState, Session, State, Steps
from tests.model_checking.world import World


@dataclass(frozen=True)
class ReaderProcess:
    world: World
    invariants: Invariants

    def steps(self, state: State) -> Steps:
        session, left, seen = state.reader
        if session is None:
            barrier = self.world.common(state) if left else 0
            if barrier:
                assert barrier >= seen
                chosen = ReaderState(Session(barrier), left - 1, barrier)
                yield f"reader chooses {barrier}", state._replace(reader=chosen)
        elif len(session.pins) < len(self.world.configuration.tables):
            yield self.pin(state, session)
        else:
            for name, pin in session.pins:
                self.read(state, session.barrier, name, pin)
            yield "reader is done", state._replace(reader=ReaderState(None, left, seen))

    def pin(self, state: State, session: Session) -> tuple[str, State]:
        _, left, seen = state.reader
        name = self.world.configuration.tables[len(session.pins)]
        table = self.world.table(state, name)
        if self.world.mistake == "reader_takes_newest":
            at = len(table.chain)
        else:
            view = view_by_snapshot(table, session.barrier)
            if view is None:
                # Expired between choosing and pinning; a newer barrier is there: let go, choose again.
                return "reader goes again", state._replace(reader=ReaderState(None, left + 1, seen))
            at = view.at
        pinned = Session(session.barrier, (*session.pins, (name, at)))
        return f"reader pins {name}", state._replace(reader=ReaderState(pinned, left, seen))

    def read(self, state: State, barrier: int, name: str, pin: int) -> None:
        table = self.world.table(state, name)
        if pin < table.first:
            raise Broken(f"{name} lost snapshot {pin} under a reader of barrier {barrier}")
        files: Ids
        if self.world.mistake == "reader_takes_newest":
            snapshot = fold(table.chain[:pin])
            files = (*snapshot.level0, *snapshot.upper)
        else:
            view = view_by_snapshot(table, barrier)
            assert view is not None
            files = view.files
        self.invariants.compare(state.tables, name, barrier, files)
