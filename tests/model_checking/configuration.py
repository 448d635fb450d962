"""What one search is bounded by: tables, writers, batches, barriers, and what may go wrong."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

Mistake = Literal[
    "reader_takes_newest",
    "compaction_not_cut",
    "first_group_is_taken_for_all",
    "next_cut_is_higher",
    "label_not_checked",
    "plan_not_durable",
    "sources_ask_alone",
    "any_source_decides",
    "label_per_sink",
    "follower_pushed",
    "expiry_without_floor",
    "expiry_without_pins",
    "consumer_too_early",
    "join_at_zero",
    "zombie",
    "catch_up_completes",
    "skip_to_newest",
    "reader_takes_newest_revision",
    "old_writer_is_not_refused",
    "what_follows_is_taken",
    "labels_go_back",
    "who_left_is_forgotten",
    "what_waits_is_forgotten",
    "overtaken_is_published",
    "looks_once",
    "only_columns_count",
]


@dataclass(frozen=True)
class Root:
    """A query that reads no table of ours. Its first table leads: there its label is chosen, the others follow."""

    tables: tuple[str, ...]
    batches: int


@dataclass(frozen=True)
class Job:
    """A query over tables of roots, which takes one barrier from all of them."""

    sources: tuple[str, ...]
    sink: str


@dataclass(frozen=True)
class Configuration:
    """compacted: tables whose changelog comes by compaction; in others each commit is its own.
    barriers: the last one. crashes: how many in all. expiring: tables that let snapshots go. sessions: of the reader.
    leaver: a writer that is declared gone. late: a root that joins after the first barrier.
    is_rounding: who skips barriers takes the roundest, else any that is ready. is_racing: a commit looks, then
    publishes, and may lose. is_open: roots also commit without completing a barrier. in_groups: a compaction commits
    file by file, as it does with many buckets.
    """

    roots: Mapping[str, Root]
    jobs: Mapping[str, Job] = field(default_factory=dict)
    compacted: tuple[str, ...] = ()
    barriers: int = 2
    crashes: int = 0
    expiring: tuple[str, ...] = ()
    sessions: int = 0
    leaver: str | None = None
    late: str | None = None
    is_rounding: bool = False
    is_racing: bool = False
    is_open: bool = False
    in_groups: bool = False

    @cached_property
    def root_tables(self) -> frozenset[str]:
        return frozenset(name for root in self.roots.values() for name in root.tables)

    @cached_property
    def tables(self) -> list[str]:
        return sorted(self.root_tables | {job.sink for job in self.jobs.values()})

    def home(self, writer: str) -> str:
        """The table where its membership is declared."""
        return self.roots[writer].tables[0] if writer in self.roots else self.jobs[writer].sink


def roundest(barriers: Collection[int]) -> int:
    """The rule of skipping: of several ready barriers take the one with the most trailing zero bits."""
    return max(barriers, key=lambda barrier: (barrier & -barrier, barrier))
