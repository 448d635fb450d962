"""From unit costs and what a table has to carry to what that needs, and which part breaks first. Pure.

    load ─► fewest buckets that are rewritten soon enough ─► a bucket's history (simulated_bucket) ─► per second: files,
    rows, commits, requests, CPU ─► machines, storage, money; each part's use as a share of its limit

All buckets are alike, all keys equally likely, all jobs write at the same pace, and a writer's task has rows of every
bucket. Rounds of the maintainer follow each other every `round_s` at most.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import Final

from benchmarks.scale.costs import Requests, UnitCosts
from benchmarks.scale.prices import CLOUD, DAYS_OF_MONTH, GB, HOURS_OF_MONTH, Cloud
from benchmarks.scale.simulated_bucket import BucketLoad, SimulatedHistory, drawn, history
from widetable.operations.compaction.compaction_job import _GROUP_BUCKETS
from widetable.schema import options as opt
from widetable.storage.remote.object_store import _PART_BYTES

DAY_S: Final = 86_400
# So many level-0 files reach the compaction trigger by themselves; more of them are picked in the same way.
_SIMULATED_FILES: Final = 5
_ROUNDS: Final = 12_000
_CYCLES: Final = 2


@dataclass(frozen=True)
class TableLoad:
    """keys: that the table has. rows_a_day: of all jobs. commit_s: between two commits of a job. round_s: between two
    rounds of the maintainer. retention_s: how long snapshots are kept. writer_tasks: of a job, each of which writes a
    file per bucket. tables: among which keys, rows and jobs are divided evenly.
    """

    name: str
    keys: float
    rows_a_day: float
    jobs: int
    commit_s: float = 60
    round_s: float = 60
    retention_s: float = 3_600
    writer_tasks: int = 1
    tables: int = 1


@dataclass(frozen=True)
class Traffic:
    """Of one table per second. kept_rows: that are left of the rows of a file, one per key. due: buckets that are
    compacted. rewritten: rows written above level 0.
    """

    appends: float
    files: float
    rows: float
    kept_rows: float
    compactions: float
    due: float
    changed: float
    rewritten: float

    @property
    def commits(self) -> float:
        return self.appends + self.compactions


@dataclass(frozen=True)
class Needs:
    """Of all tables together, but `buckets` and `uses`, which are of one. requests: a day. uses: of each part, what is
    asked of it as a share of its limit; above 1 it cannot be had. cycles: how many times the bottom of a bucket was
    rewritten in the rounds that were simulated; without one, the amplification is still on its way up.
    """

    buckets: int
    rounds: int
    cycles: int
    amplification: float
    cores: float
    machines: int
    live_bytes: float
    kept_bytes: float
    cache_bytes: float
    live_files: float
    manifest_bytes: float
    snapshots: float
    files_a_day: float
    file_rows: float
    commits_per_s: float
    network_bytes_per_s: float
    requests: Requests
    dollars_machines: float
    dollars_storage: float
    dollars_requests: float
    uses: dict[str, float]

    @property
    def dollars(self) -> float:
        """A month."""
        return self.dollars_machines + self.dollars_storage + self.dollars_requests

    @property
    def first(self) -> str:
        """The part that breaks first."""
        return max(self.uses, key=lambda part: self.uses[part])


def needs_of(load: TableLoad, costs: UnitCosts, cloud: Cloud = CLOUD) -> Needs:
    """What the load needs, with as few buckets as the cloud's limits of time allow."""
    one = replace(
        load,
        keys=load.keys / load.tables,
        rows_a_day=load.rows_a_day / load.tables,
        jobs=max(round(load.jobs / load.tables), 1),
    )
    rewrite_s = one.keys * costs.compact.per_rewritten_row_s
    buckets = max(math.ceil(rewrite_s / cloud.rewrite_s), 1)
    while True:
        table = _Table(one, buckets, costs, cloud)
        busy = table.busy_share / cloud.bucket_share
        if busy <= 1 or table.least_busy_share > table.busy_share / 2:
            return table.needs(load.tables)
        buckets = math.ceil(buckets * min(max(busy, 1.1), 4))


@dataclass(frozen=True)
class _Table:
    """One table with so many buckets. Rates are per second."""

    load: TableLoad
    buckets: int
    costs: UnitCosts
    cloud: Cloud

    @property
    def round_s(self) -> float:
        """Without a commit there is no round."""
        return max(self.load.round_s, self.load.commit_s / self.load.jobs)

    @property
    def task_rows(self) -> float:
        """Of one writer's task in one commit."""
        commits = self.load.jobs * DAY_S / self.load.commit_s
        return self.load.rows_a_day / commits / self.load.writer_tasks

    @property
    def touched_share(self) -> float:
        """Of the buckets, those that have rows of one task."""
        return drawn(self.buckets, self.task_rows) / self.buckets

    @property
    def round_files(self) -> float:
        """Level-0 files of one bucket between two rounds."""
        tasks = self.load.jobs * self.load.writer_tasks * self.round_s / self.load.commit_s
        return tasks * self.touched_share

    @property
    def file_draws(self) -> float:
        """Rows of one task for one bucket that it has any for."""
        return self.task_rows / (self.buckets * self.touched_share)

    @property
    def file_rows(self) -> float:
        return drawn(self.load.keys / self.buckets, self.file_draws)

    @functools.cached_property
    def bucket(self) -> SimulatedHistory:
        """Over the rounds in which it has files."""
        keys, files = self.load.keys / self.buckets, max(self.round_files, 1.0)
        simulated = min(round(files), _SIMULATED_FILES)
        rows = drawn(keys, self.file_draws * files / simulated)
        return _history(BucketLoad(keys, keys, simulated, rows, seed=0), self.costs)

    @functools.cached_property
    def traffic(self) -> Traffic:
        files, bucket = self.round_files, self.bucket
        due = self.buckets * (-math.expm1(-files) if files < 1 else 1.0)
        return Traffic(
            appends=self.load.jobs / self.load.commit_s,
            files=self.buckets * files / self.round_s,
            rows=self.load.rows_a_day / DAY_S,
            kept_rows=self.buckets * files / self.round_s * self.file_rows,
            compactions=math.ceil(due / _GROUP_BUCKETS) / self.round_s,
            due=due / self.round_s,
            changed=due * bucket.changed_rows / bucket.rounds / self.round_s,
            rewritten=due * bucket.rewritten_rows / bucket.rounds / self.round_s,
        )

    @property
    def compact_cpu(self) -> float:
        """CPU seconds per second, commits left out."""
        now = self.traffic
        return self.costs.compact.of(now.due, now.files, now.changed, now.rewritten)

    @property
    def busy_share(self) -> float:
        """How much of the time one bucket's task takes: one core."""
        return self.compact_cpu / self.buckets

    @property
    def least_busy_share(self) -> float:
        """What more buckets do not make less: what each costs however few rows it has."""
        return self.costs.compact.of(self.traffic.due, self.traffic.files, 0, 0) / self.buckets

    @property
    def entries(self) -> float:
        """Files that appear or disappear in snapshots: level-0 files do both."""
        return 2 * self.traffic.files + 4 * self.traffic.due

    @property
    def full_rows(self) -> float:
        return self.buckets * self.bucket.mean_rows

    @property
    def runs(self) -> float:
        return self.buckets * self.bucket.mean_runs

    @property
    def live_bytes(self) -> float:
        waiting = self.costs.level0.of(self.traffic.kept_rows, self.traffic.files) * self.round_s
        return self.costs.full.of(self.full_rows, self.runs) + waiting

    @property
    def live_files(self) -> float:
        """Right before a round: level-0 files wait."""
        size = opt.TARGET_FILE_SIZE.default or math.inf
        split = self.costs.full.of(self.full_rows) / size
        return max(self.runs, split) + self.traffic.files * self.round_s

    @property
    def written_bytes(self) -> float:
        now = self.traffic
        return (
            self.costs.level0.of(now.kept_rows, now.files)
            + self.costs.full.of(now.rewritten, now.due)
            + self.costs.changelog.of(2 * now.changed, now.due)
        )

    @property
    def cpu(self) -> float:
        """CPU seconds per second: cores that are never idle."""
        now = self.traffic
        return (
            self.costs.write.of(now.appends, now.files, now.rows)
            + self.compact_cpu
            + self.costs.commit.of(now.commits, self.entries)
            + self.live_files * self.costs.plan_warm_file_s / self.round_s
        )

    @property
    def requests(self) -> Requests:
        """What was written goes again: level-0 files, merged ones and changelog files. Of its level-0 files a bucket's
        compaction counts the first as the bucket's. Large files go up in parts, each a put.
        """
        now, asked = self.traffic, self.costs.requests
        return (
            asked.append.times(now.appends)
            .plus(asked.append_file.times(now.files))
            .plus(asked.compaction.times(now.compactions))
            .plus(asked.compacted_bucket.times(now.due))
            .plus(asked.compacted_file.times(max(now.files - now.due, 0)))
            .plus(asked.expiry.times(1 / self.round_s))
            .plus(asked.expired_snapshot.times(now.commits))
            .plus(asked.expired_file.times(now.files + 2 * now.due))
            .plus(Requests(puts=self.written_bytes / _PART_BYTES))
        )

    @property
    def uses(self) -> dict[str, float]:
        now, costs, cloud = self.traffic, self.costs, self.cloud
        asked = self.requests
        attempts_s = now.commits * costs.requests.serial_of_attempt * cloud.request_s
        groups_s = now.compactions * costs.requests.compaction.total * cloud.request_s
        planning_s = self.live_files * costs.plan_warm_file_s / self.round_s
        publish_s = costs.commit.of(now.compactions, 4 * now.due + now.files)
        return {
            "commits, one after the other": attempts_s,
            "puts and deletes of one prefix": (asked.puts + asked.deletes) / cloud.puts_per_s,
            "gets of one prefix": (asked.gets + asked.lists) / cloud.gets_per_s,
            "the maintainer's driver": groups_s + planning_s + publish_s,
            "one bucket's compaction": self.busy_share / cloud.bucket_share,
            "the first plan of a reader": self.live_files * costs.plan_cold_file_s / cloud.plan_s,
        }

    def needs(self, tables: int) -> Needs:
        """Of so many tables like this one."""
        cloud, prices, now = self.cloud, self.cloud.prices, self.traffic
        cores = self.cpu / cloud.core_share * tables
        cache_bytes = self.costs.cache.of(self.full_rows, self.runs) * tables
        disks = cache_bytes / (cloud.disk_bytes * cloud.disk_share)
        machines = math.ceil(max(cores / cloud.cores, disks))
        kept_bytes = (self.live_bytes + self.written_bytes * self.load.retention_s) * tables
        daily = self.requests.times(DAY_S * tables)
        read_bytes = self.costs.level0.of(now.kept_rows, now.files)
        paid = (daily.puts + daily.lists) * prices.put + daily.gets * prices.get
        return Needs(
            buckets=self.buckets,
            rounds=self.bucket.rounds,
            cycles=self.bucket.cycles,
            amplification=self.bucket.amplification,
            cores=cores,
            machines=machines,
            live_bytes=self.live_bytes * tables,
            kept_bytes=kept_bytes,
            cache_bytes=cache_bytes,
            live_files=self.live_files * tables,
            manifest_bytes=self.live_files * self.costs.metadata.per_entry * tables,
            snapshots=now.commits * self.load.retention_s * tables,
            files_a_day=now.files * DAY_S * tables,
            file_rows=self.file_rows,
            commits_per_s=now.commits * tables,
            network_bytes_per_s=(self.written_bytes + read_bytes) * tables,
            requests=daily,
            dollars_machines=machines * HOURS_OF_MONTH * prices.hour,
            dollars_storage=kept_bytes / GB * prices.gb_month,
            dollars_requests=paid * DAYS_OF_MONTH,
            uses=self.uses,
        )


@functools.lru_cache(maxsize=64)
def _history(load: BucketLoad, costs: UnitCosts) -> SimulatedHistory:
    return history(load, costs.level0, costs.full, _ROUNDS, most_cycles=_CYCLES)
