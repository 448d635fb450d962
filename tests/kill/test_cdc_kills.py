"""A job of change data capture dies by SIGKILL before and after each durable step, while its source changes on.

WIDETABLE_CDC_KILLS: kills (default 60).
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

import widetable as wt
from tests.kill.changing_source import TABLES, ChangingSource
from tests.kill.killing_cdc import KillPoint, chunk_line, job_ends
from tests.support.databases.postgres_server import PostgresServer, postgres_server
from tests.support.databases.synced_database import SyncedDatabase
from tests.support.faults.patience import PATIENCE_SECONDS
from tests.support.programs.tallies import Note
from widetable_cdc import Sync
from widetable_cdc.applying.target import LSN_PROPERTY

KILLS = max(int(os.environ.get("WIDETABLE_CDC_KILLS", "60")), 1)


def points(*steps: str, calls: Sequence[int] = (0,)) -> list[KillPoint]:
    return [
        KillPoint(step, after, call) for step in steps for after in (False, True) for call in calls
    ]


# What a life comes to, in the order in which it comes to it.
BEGIN: Final = points("publication", "slot", "target", "plan saved", "table state")
COPY: Final = points("chunk read", "chunk rows", "chunk committed", "chunk states", calls=(0, 1))
END: Final = points("copy ended", "table state", "chunk states dropped")
STREAM: Final = points("round committed", calls=(0, 1)) + points("confirmed", "barrier passed")
ALTER: Final = points("table altered", "rows filled", "table state", "round committed", "confirmed")
AGAIN: Final = points(
    "table altered", "chunk states", "table state", "confirmed", "chunk committed"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """Forked jobs have what a job in this process has compiled and opened: a kill costs a tenth of a second."""
    with postgres_server() as started:
        with SyncedDatabase.made(started, tmp_path_factory.mktemp("warm")) as warm:
            source = ChangingSource(warm, random.Random(0))
            warm.run()
            source.change()
            source.add_constant()
            warm.run()
        yield started


class KilledJob:
    """A job that is killed and started again, and what it must not do meanwhile. kills: by point."""

    def __init__(self, shop: SyncedDatabase, rng: random.Random, reads: Path) -> None:
        self.shop = shop
        self.source = ChangingSource(shop, rng)
        self.kills: Counter[str] = Counter()
        self._config = shop.config(limits={"chunk-rows": 30})
        self._reads = reads

    def copy_again(self) -> None:
        """Let the next run copy all tables again."""
        Sync(self._config).drop_slot()

    def dies(self, point: KillPoint | None, *, may_copy: bool = False) -> bool:
        """Run the job until it dies at the point, or until it has all; return whether it died.

        may_copy: tables may be copied again. Else no chunk whose state says that it is in the target is read again.
        """
        finished, streaming = self._finished(), self._streaming()
        self._reads.write_text("")
        code = job_ends(self._config, self._reads, point)
        assert code in (0, -9), f"{point}: the job ended with {code}"
        reads = self._reads.read_text().splitlines()
        if not (may_copy or self.source.rewrites):
            again = [line for line in reads if line in finished or line.split()[0] in streaming]
            assert not again, f"{point}: finished chunks were read again"
        if code:
            self.kills[str(point)] += 1
        return code == -9

    def kill(self, point: KillPoint) -> None:
        """Change the source, and let the job die at the point."""
        self.source.change()
        assert self.dies(point), f"the job did not come to {point}"

    def kill_in_copy(self, point: KillPoint) -> None:
        """Let the job die at a point of a copy; of a new one if the copy ends before it."""
        self.source.change()
        if not self.dies(point):
            self.copy_again()
            self.kill(point)

    def check(self) -> None:
        """Compare the targets with the source, and their changelogs and commits with themselves."""
        assert not self.dies(None)
        for name in TABLES:
            table = self.shop.table(name)
            columns = list(self.shop.source(name)[0])
            target = [{column: row[column] for column in columns} for row in self.shop.target(name)]
            assert target == self.shop.source(name), name
            # The compaction behind the last commit may have died with its job.
            table.compact()
            assert self.shop.folded(name) == self.shop.target(name), name
            report = table.audit(start=0)
            assert report.ok, "\n".join(str(finding) for finding in report.findings)
            rounds = Counter(
                snapshot.commit_identifier
                for snapshot in table.snapshots()
                if LSN_PROPERTY in snapshot.properties and snapshot.commit_kind == "APPEND"
            )
            assert set(rounds.values()) == {1}, name

    def _finished(self) -> set[str]:
        """Return the lines of the chunks that are in the targets, and whose states say so."""
        rows = self._rows(f"__cdc_{self.shop.name}")
        names = dict(self.shop.execute("select oid::int8, relname from pg_class"))
        return {
            chunk_line(names[row["relation"]], row["low"], row["high"])
            for row in rows
            if row["status"] == "copied"
        }

    def _streaming(self) -> set[str]:
        rows = self._rows(f"__cdc_{self.shop.name}_tables")
        return {
            row["relation"].removeprefix("public.") for row in rows if row["status"] == "streaming"
        }

    def _rows(self, name: str) -> list[dict[str, Any]]:
        try:
            table = self.shop.table(name)
        except wt.NotFoundError:
            return []
        rows: list[dict[str, Any]] = table.scan().to_arrow().to_pylist()
        return rows


def live(job: KilledJob) -> None:
    """Kill a job at all points of its life."""
    for point in BEGIN:
        job.kill(point)
    for point in COPY + END:
        job.kill_in_copy(point)
    job.check()
    for point in STREAM:
        job.kill(point)
    job.check()
    for point in ALTER:
        job.source.add_constant()
        job.kill(point)
        # Once its new form is saved, changes of the old form come again: the table is copied again.
        job.dies(None, may_copy=point.step not in ("table altered", "rows filled"))
    job.check()
    for point in AGAIN:
        job.source.add_volatile()
        job.kill(point)
    job.check()


@pytest.mark.slow
@pytest.mark.timeout(PATIENCE_SECONDS + 60 * KILLS)
def test_killed_at_any_step_the_tables_are_the_source(
    server: PostgresServer, tmp_path: Path, rng: random.Random, tally: Note
) -> None:
    kills = 0
    while kills < KILLS:
        folder = tmp_path / str(kills)
        folder.mkdir()
        with SyncedDatabase.made(server, folder) as shop:
            job = KilledJob(shop, rng, folder / "reads")
            live(job)
        kills += job.kills.total()
    tally(kills=kills)
