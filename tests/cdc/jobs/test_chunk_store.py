"""The states of chunks of a job: a plan replaces what a killed job has left of an earlier one."""

from __future__ import annotations

import itertools
from pathlib import Path

import widetable as wt
from widetable_cdc.copying.chunk_plan import ChunkPlan
from widetable_cdc.jobs.chunk_store import ChunkStore
from widetable_cdc.source.chunk_range import ChunkRange, KeyKind
from widetable_cdc.source.source_snapshot import SourceSnapshot


def planned(relation: int, *bounds: int) -> ChunkPlan:
    ends = [None, *bounds, None]
    ranges = [
        ChunkRange("id", KeyKind.INTEGER, low, high) for low, high in itertools.pairwise(ends)
    ]
    return ChunkPlan.planned(relation, ranges)


def test_a_plan_of_fewer_chunks_leaves_none_of_an_earlier_one(tmp_path: Path) -> None:
    store = ChunkStore(wt.Catalog(str(tmp_path)), "shop", "job")
    other = planned(2, 7)
    store.plan(other)
    store.plan(planned(1, 100, 200, 300))
    fewer = planned(1, 150)
    store.plan(fewer)
    read = ChunkStore(wt.Catalog(str(tmp_path)), "shop", "job").load()
    assert {relation: plan.states for relation, plan in read.items()} == {
        1: fewer.states,
        2: other.states,
    }


def test_a_plan_takes_back_what_was_copied(tmp_path: Path) -> None:
    store = ChunkStore(wt.Catalog(str(tmp_path)), "shop", "job")
    plan = planned(1, 100)
    store.plan(plan)
    store.save(plan.copied(0, SourceSnapshot(5, 7, (6,)), 11).states)
    store.plan(plan)
    assert [state.snapshot for state in store.load()[1].states] == [None, None]


def test_a_dropped_plan_leaves_no_state(tmp_path: Path) -> None:
    store = ChunkStore(wt.Catalog(str(tmp_path)), "shop", "job")
    store.plan(planned(1, 100))
    store.drop(planned(1, 100))
    assert store.load() == {}
