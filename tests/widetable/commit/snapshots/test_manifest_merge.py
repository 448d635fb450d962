"""Which manifests are folded, as a script; that folding loses nothing, and what it costs over a table's life."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.support.programs.scripts import check_script
from tests.widetable.commit.transaction.fake_table import added, data_file, deleted
from widetable.commit.snapshots.live_files import live
from widetable.commit.snapshots.manifest_merge import (
    FULL_ENTRIES,
    choose_fold,
    folded,
    split_evenly,
)
from widetable.format.column_stats import EMPTY_STATS
from widetable.format.manifest_entry import ADD, ManifestEntry
from widetable.format.manifest_file import ManifestFileMeta

SCRIPT = Path(__file__).parents[3] / "testdata/manifest_merge/choose.txt"
TARGET = 1 << 20


def manifest(adds: int, deletes: int = 0, size_bytes: int = 1000) -> ManifestFileMeta:
    return ManifestFileMeta("m", size_bytes, adds, deletes, EMPTY_STATS, 0)


def parse(word: str) -> ManifestFileMeta:
    if word == "big":
        return manifest(1, size_bytes=TARGET)
    adds, _, deletes = word.partition("-")
    return manifest(int(adds), int(deletes or 0))


def answer(command: tuple[str, ...]) -> str:
    (line,) = command
    verb, *words = line.split()
    assert verb in ("fold", "reclaim")
    metas = [parse(word) for word in words]
    start = choose_fold(metas, target_size_bytes=TARGET, min_count=4, reclaim=verb == "reclaim")
    return "nothing" if start is None else f"{start} {len(metas)}"


def test_script() -> None:
    check_script(SCRIPT, answer)


def simulate(commits: Sequence[int], min_count: int) -> tuple[int, int]:
    """Longest list and entries written again, over commits that add so many entries each."""
    sizes: list[int] = []
    longest = rewritten = 0
    for entries in commits:
        metas = [manifest(size) for size in sizes]
        start = choose_fold(metas, target_size_bytes=1 << 60, min_count=min_count, reclaim=False)
        if start is not None:
            total = sum(sizes[start:])
            rewritten += total
            sizes[start:] = [len(part) for part in split_evenly(range(total))]  # type: ignore[arg-type]
        sizes.append(entries)
        longest = max(longest, len(sizes))
    return longest, rewritten


def test_the_list_stays_short_and_entries_are_rewritten_log_times() -> None:
    longest, rewritten = simulate([1] * 20_000, min_count=30)
    assert longest <= 30 + 11 + 20_000 // FULL_ENTRIES + 1
    # Each time an entry is written again its manifest has doubled, up to FULL_ENTRIES.
    assert rewritten / 20_000 <= 11


def test_the_list_stays_short_for_commits_of_any_sizes(rng: random.Random) -> None:
    commits = [int(2 ** rng.uniform(0, 11)) for _ in range(2_000)]
    longest, rewritten = simulate(commits, min_count=10)
    assert longest <= 10 * 11 + sum(commits) // FULL_ENTRIES
    assert rewritten / sum(commits) <= 11


FILES = [data_file(f"f{number}", level=level) for number in range(4) for level in (0, 5)]


def history(choices: Sequence[int]) -> list[ManifestEntry]:
    """Entries as commits can make them: a file is added once, and deleted once after that."""
    entries, state = [], [0] * len(FILES)
    for choice in choices:
        state[choice] += 1
        if state[choice] <= 2:
            entries.append((added if state[choice] == 1 else deleted)(FILES[choice]))
    return entries


@given(
    choices=st.lists(st.integers(0, len(FILES) - 1), max_size=30),
    cuts=st.tuples(st.integers(0, 30), st.integers(0, 30)),
)
def test_a_fold_of_any_range_changes_no_live_file(
    choices: list[int], cuts: tuple[int, int]
) -> None:
    entries = history(choices)
    start, end = sorted(min(cut, len(entries)) for cut in cuts)
    after = entries[:start] + folded(entries[start:end]) + entries[end:]
    assert live(after) == live(entries)
    in_fold = folded(entries[start:end])
    adds = {entry.identity for entry in in_fold if entry.kind == ADD}
    assert not adds & {entry.identity for entry in in_fold if entry.kind != ADD}


def test_a_fold_keeps_deletes_of_older_adds_and_their_order() -> None:
    a, b, c = (data_file(name) for name in "abc")
    assert folded([deleted(a), added(b), added(c), deleted(b)]) == [deleted(a), added(c)]
    assert folded([added(a), deleted(a)]) == []


def test_a_fold_does_not_judge_what_others_wrote() -> None:
    twice = [added(FILES[0]), added(FILES[0])]
    assert folded(twice) == twice


def test_parts_are_neither_too_large_nor_ever_folded_again() -> None:
    entry = added(FILES[0])
    for count in (0, 1, FULL_ENTRIES - 1, FULL_ENTRIES, 2 * FULL_ENTRIES, 10 * FULL_ENTRIES + 7):
        parts = split_evenly([entry] * count)
        assert sum(map(len, parts)) == count
        assert all(len(part) < 2 * FULL_ENTRIES for part in parts)
        assert len(parts) <= 1 or all(len(part) >= FULL_ENTRIES for part in parts)
