"""Random histories of a database and its job: at rest the targets, their changelogs and a session are the source.

WIDETABLE_CDC_HISTORIES: how many (default 3), of WIDETABLE_CDC_HISTORY_STEPS steps each (default 30).
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.cdc.histories.synced_history import SyncedHistory
from tests.support.databases.module_server import server
from tests.support.databases.postgres_server import PostgresServer
from tests.support.databases.synced_database import SyncedDatabase
from tests.support.programs.tallies import Note

__all__ = ["server"]  # a fixture

HISTORIES = int(os.environ.get("WIDETABLE_CDC_HISTORIES", "3"))
STEPS = int(os.environ.get("WIDETABLE_CDC_HISTORY_STEPS", "30"))


@pytest.mark.parametrize("number", range(HISTORIES))
def test_targets_are_the_source_at_rest(
    server: PostgresServer, rng: random.Random, tmp_path: Path, number: int, tally: Note
) -> None:
    with SyncedDatabase.made(server, tmp_path) as database:
        history = SyncedHistory(rng, database)
        try:
            for at in range(STEPS):
                history.step()
                if at == STEPS // 2:
                    history.rest()
            history.rest()
        except Exception as error:
            raise AssertionError("\n".join(history.notes)) from error
        finally:
            history.close()
            tally(cases=1, **history.counts)
