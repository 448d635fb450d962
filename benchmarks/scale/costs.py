"""Unit costs of a table on this engine, as `python -m benchmarks.simulate measure` found them on one machine.

CPU seconds are of one core, in which Python, Arrow and compiled kernels run; bytes are of files as they lie in the
storage. `unit_costs.json` beside this file holds the committed ones. Values only.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.scale.simulated_bucket import FileBytes

UNIT_COSTS: Final = Path(__file__).with_name("unit_costs.json")


@dataclass(frozen=True)
class Requests:
    """To an object store, by what they cost: puts with all that is billed so, gets with HEAD; deletes are free."""

    puts: float = 0
    lists: float = 0
    gets: float = 0
    deletes: float = 0

    def plus(self, other: Requests) -> Requests:
        return Requests(
            self.puts + other.puts,
            self.lists + other.lists,
            self.gets + other.gets,
            self.deletes + other.deletes,
        )

    def times(self, count: float) -> Requests:
        return Requests(
            self.puts * count, self.lists * count, self.gets * count, self.deletes * count
        )

    @property
    def total(self) -> float:
        return self.puts + self.lists + self.gets + self.deletes


@dataclass(frozen=True)
class WriteCpu:
    """Of making level-0 files: per commit, per file, per row."""

    per_commit_s: float
    per_file_s: float
    per_row_s: float

    def of(self, commits: float, files: float, rows: float) -> float:
        return commits * self.per_commit_s + files * self.per_file_s + rows * self.per_row_s


@dataclass(frozen=True)
class CommitCpu:
    """Of publishing a snapshot: whatever it holds, and per file that appears or disappears in it."""

    per_commit_s: float
    per_entry_s: float

    def of(self, commits: float, entries: float) -> float:
        return commits * self.per_commit_s + entries * self.per_entry_s


@dataclass(frozen=True)
class CompactCpu:
    """Of moving level 0 up with its lookup changelog, commits left out: per bucket that is due, per level-0 file, per
    key that changed (its before-image, its changelog), per row written above level 0 (merge, encode, its lookup cache).
    """

    per_bucket_s: float
    per_file_s: float
    per_changed_row_s: float
    per_rewritten_row_s: float

    def of(self, buckets: float, files: float, changed: float, rewritten: float) -> float:
        return (
            buckets * self.per_bucket_s
            + files * self.per_file_s
            + changed * self.per_changed_row_s
            + rewritten * self.per_rewritten_row_s
        )


@dataclass(frozen=True)
class MetadataBytes:
    """Of manifests and lists: per snapshot whatever it holds, per entry in them."""

    per_snapshot: float
    per_entry: float

    def of(self, snapshots: float, entries: float) -> float:
        return snapshots * self.per_snapshot + entries * self.per_entry


@dataclass(frozen=True)
class RequestCosts:
    """append, compaction, expiry: of a commit, a COMPACT commit, a round of expiry, whatever they hold; the others come
    on top per level-0 file that is written, bucket that is compacted, further level-0 file that it reads, snapshot that
    expires (its metadata), data file that goes.

    serial_of_attempt: requests that come one after the other from reading the newest snapshot until the next one is
    published, when an append goes again after a lost race.
    """

    append: Requests
    append_file: Requests
    compaction: Requests
    compacted_bucket: Requests
    compacted_file: Requests
    expiry: Requests
    expired_snapshot: Requests
    expired_file: Requests
    serial_of_attempt: float


@dataclass(frozen=True)
class UnitCosts:
    """plan_cold_file_s, plan_warm_file_s: CPU of planning per live file, in a new process and again in it. cache: of
    the lookup cache of a data file.
    """

    write: WriteCpu
    commit: CommitCpu
    compact: CompactCpu
    plan_cold_file_s: float
    plan_warm_file_s: float
    level0: FileBytes
    full: FileBytes
    changelog: FileBytes
    cache: FileBytes
    metadata: MetadataBytes
    requests: RequestCosts


_PARTS: Final[dict[str, type[Any]]] = {
    "write": WriteCpu,
    "commit": CommitCpu,
    "compact": CompactCpu,
    "level0": FileBytes,
    "full": FileBytes,
    "changelog": FileBytes,
    "cache": FileBytes,
    "metadata": MetadataBytes,
}


def costs_to_json(costs: UnitCosts) -> dict[str, Any]:
    return asdict(costs)


def costs_from_json(found: dict[str, Any]) -> UnitCosts:
    asked: dict[str, Any] = {
        name: Requests(**value) if isinstance(value, dict) else value
        for name, value in found["requests"].items()
    }
    requests = RequestCosts(**asked)
    parts = {
        name: _PARTS[name](**value) if name in _PARTS else value
        for name, value in found.items()
        if name != "requests"
    }
    return UnitCosts(requests=requests, **parts)


def committed_costs() -> UnitCosts:
    """Those on which `docs/scale.md` rests."""
    return costs_from_json(json.loads(UNIT_COSTS.read_text("utf-8"))["costs"])
