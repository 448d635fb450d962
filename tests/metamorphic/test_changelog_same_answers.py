"""The same commits with other layouts, compactors and ways to look rows up: the same changes, commit by commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.models.changelog_follower import change_texts, changes_of
from tests.support.models.model import Model
from tests.support.models.random_table import (
    TableSpec,
    changelog_specs,
    data_of,
    make,
    may_have_changelog,
    stamped_commits,
)
from tests.support.models.strategies import Commit


@dataclass(frozen=True)
class Way:
    """How changes come to be. compacts: "inline", or by a compactor after each commit, "full" or not."""

    options: Mapping[str, str] = field(default_factory=dict)
    compacts: str = "inline"


PLAIN: Final = {
    "bucket": "1",
    "changelog-producer": "lookup",
    "lookup-compact": "radical",
    "widetable.lookup-strategy": "scan",
    "widetable.level0-columns": "written",
    "write-buffer-size": "256 mb",
    "target-file-size": "128 mb",
    "manifest.merge-min-count": "30",
    "num-sorted-run.compaction-trigger": "5",
    "num-levels": "6",
}
LOOKUP: Final = {"widetable.lookup-strategy": "lookup"}
FULL: Final = {"changelog-producer": "full-compaction"}
BEHIND: Final = {"widetable.inline-compaction-size": "0 b"}
SMALL: Final = {"write-buffer-size": "1 kb", "target-file-size": "1 kb"}
WAYS: Final = {
    "scans": Way(),
    "lookups": Way(LOOKUP),
    "lookups without caches": Way({**LOOKUP, "lookup.cache-max-disk-size": "0 b"}),
    "by cost": Way({"widetable.lookup-strategy": "auto", "bucket": "3"}),
    "small files and buffers, scans": Way(SMALL),
    "small files and buffers, lookups": Way({**LOOKUP, **SMALL, "bucket": "2"}),
    "eager": Way({**LOOKUP, "num-sorted-run.compaction-trigger": "2"}),
    "behind commits": Way({**BEHIND, "num-sorted-run.compaction-trigger": "3"}),
    "behind commits, lookups, more levels": Way(
        {**BEHIND, **LOOKUP, "num-sorted-run.compaction-trigger": "2", "num-levels": "9"}
    ),
    "full-width level 0": Way({**LOOKUP, "widetable.level0-columns": "all"}),
    "a compactor, scans": Way({"num-levels": "3"}, compacts="beside"),
    "a compactor, lookups": Way(LOOKUP, compacts="beside"),
    "full compactions": Way(compacts="full"),
    "producer full-compaction": Way(FULL, compacts="full"),
    "producer full-compaction, small files": Way({**FULL, **SMALL, "bucket": "2"}, compacts="full"),
}


@st.composite
def operations(draw: st.DrawFn) -> tuple[TableSpec, list[Commit]]:
    spec = draw(changelog_specs("lookup"))
    drawn = st.lists(stamped_commits(spec.schema, spec.keys), min_size=1, max_size=5)
    return spec, draw(drawn)


@settings(max_examples=max(5, settings().max_examples // 4))
@given(drawn=operations())
def test_changes_do_not_depend_on_layout_or_lookups(drawn: tuple[TableSpec, list[Commit]]) -> None:
    spec, commits = drawn
    model = Model(spec.schema)
    expected = []
    for commit in commits:
        earlier = model.copy()
        model.write(commit.records)
        expected.append(change_texts(model.changes_since(earlier)))
    ways = {name: way for name, way in WAYS.items() if _is_possible(spec, way)}
    found = {name: _changes_after(spec, commits, way) for name, way in ways.items()}
    assert found == dict.fromkeys(ways, expected)


def _is_possible(spec: TableSpec, way: Way) -> bool:
    """Another producer than `lookup` is not for every table."""
    producer = way.options.get("changelog-producer", "lookup")
    has_vectors = spec.options.get("deletion-vectors.enabled") == "true"
    if has_vectors and producer == "full-compaction":
        return False
    return may_have_changelog(spec.schema, producer)


def _changes_after(spec: TableSpec, commits: Sequence[Commit], way: Way) -> list[list[str]]:
    """The changes of each commit, by key."""
    write_only = "false" if way.compacts == "inline" else "true"
    model = Model(spec.schema)
    found = []
    with TemporaryDirectory() as folder:
        chosen = {**PLAIN, **way.options, "write-only": write_only}
        table = make(folder, spec.with_options(chosen))
        for commit in commits:
            before = _latest_id(table.snapshots())
            table.write(data_of(spec.schema, commit))
            table.wait_for_compactions()
            if way.compacts != "inline":
                table.compact(full=way.compacts == "full")
            latest = _latest_id(table.snapshots())
            changes = changes_of(table, before, latest) if latest else []
            changes.sort(key=lambda change: model.key_of(change[1]))
            found.append(change_texts(changes))
    return found


def _latest_id(snapshots: Sequence[object]) -> int:
    return len(snapshots)
