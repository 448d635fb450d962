"""Picks of universal compaction: scripts computed by hand, and the history of a table that Java wrote."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.programs.scripts import check_script
from tests.support.tables.fixture_tables import JAVA_TABLES
from widetable.commit.snapshots.live_files import LiveFiles
from widetable.commit.snapshots.snapshot_store import SnapshotStore
from widetable.format.binary_row import EMPTY_ROW
from widetable.format.column_stats import EMPTY_STATS
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.manifest_entry import ManifestEntry
from widetable.lsm.levels import Levels, levels_of
from widetable.lsm.universal_compaction import RunPick, extend, pick_all, pick_due
from widetable.schema.options import TableOptions
from widetable.storage.local import LocalFileIO
from widetable.storage.paths import TablePaths

SCRIPTS = Path(__file__).resolve().parents[2] / "testdata/universal_compaction"
_RUN = re.compile(r"L(\d+) (\d+)")


def file_of(number: int, level: int, size: int) -> DataFileMeta:
    """number: grows with the age of the commit, newest largest."""
    return DataFileMeta(
        file_name=f"data-{number}.parquet",
        file_size=size,
        row_count=1,
        min_key=EMPTY_ROW,
        max_key=EMPTY_ROW,
        key_stats=EMPTY_STATS,
        value_stats=EMPTY_STATS,
        min_sequence_number=number,
        max_sequence_number=number,
        schema_id=0,
        level=level,
        delete_row_count=0,
    )


def files_of(text: str) -> list[DataFileMeta]:
    """Files of runs given newest first."""
    runs = _RUN.findall(text)
    return [file_of(len(runs) - i, int(level), int(size)) for i, (level, size) in enumerate(runs)]


def options_of(words: Sequence[str]) -> TableOptions:
    return TableOptions(dict(word.split("=", 1) for word in words if "=" in word))


def said(pick: RunPick | None, levels: Levels) -> str:
    if pick is None:
        return "nothing"
    assert pick.runs + pick.below == levels.sorted_runs()
    deletes = "keep" if pick.below else "drop"
    return f"take {len(pick.files)} to level {pick.level}, {deletes} deletes"


def answer_pick(command: tuple[str, ...]) -> str:
    """`pick` or `full`, options as key=value; then a line per run."""
    words = command[0].split()
    options = options_of(words)
    levels = levels_of(files_of("\n".join(command[1:])), options)
    return said(pick_all(levels) if words[0] == "full" else pick_due(levels, options), levels)


def answer_history(command: tuple[str, ...]) -> str:
    """`commits`, options and the runs to begin with; then the sizes of the commits."""
    words = command[0].split()
    options = options_of([word for word in words if not word.startswith("survivors=")])
    survivors = next((int(w.split("=")[1]) for w in words if w.startswith("survivors=")), None)
    levels = levels_of(files_of(command[0]), options)
    lines, number = [], 1000
    for commit, size in enumerate(command[1].split(), 1):
        number += 1
        levels = levels_of({*levels.files, file_of(number, 0, int(size))}, options)
        pick = pick_due(levels, options)
        if pick is not None:
            number += 1
            merged = sum(f.file_size for f in pick.files) if survivors is None else survivors
            left = levels.remove(pick.files).files
            levels = levels_of({*left, file_of(number, pick.level, merged)}, options)
        runs = ", ".join(f"L{run.level} {run.size_bytes}" for run in levels.sorted_runs())
        lines.append(f"{commit}: {runs}")
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("script", "answer"), [("pick.txt", answer_pick), ("history.txt", answer_history)]
)
def test_script(script: str, answer: object) -> None:
    assert callable(answer)
    check_script(SCRIPTS / script, answer)


sizes = st.integers(1, 10**6)
buckets = st.tuples(
    st.lists(sizes, max_size=9), st.dictionaries(st.integers(1, 6), sizes), st.integers(1, 6)
)


@given(buckets, st.booleans())
def test_a_pick_is_the_newest_runs_and_lands_above_all_others(
    bucket: tuple[list[int], dict[int, int], int], full: bool
) -> None:
    level0, deeper, trigger = bucket
    options = TableOptions({"num-sorted-run.compaction-trigger": str(trigger)})
    files = [file_of(100 + i, 0, size) for i, size in enumerate(level0)]
    files += [file_of(level, level, size) for level, size in deeper.items()]
    levels = levels_of(files, options)
    pick = pick_all(levels) if full else pick_due(levels, options)
    if pick is None:
        assert full or len(levels.sorted_runs()) <= max(trigger, 1)
        return
    runs = levels.sorted_runs()
    assert pick.runs + pick.below == runs
    assert 1 <= pick.level <= levels.max_level
    assert all(run.level > pick.level for run in pick.below)


@given(buckets)
def test_a_pick_of_all_takes_everything(bucket: tuple[list[int], dict[int, int], int]) -> None:
    level0, deeper, _ = bucket
    files = [file_of(100 + i, 0, size) for i, size in enumerate(level0)]
    files += [file_of(level, level, size) for level, size in deeper.items()]
    levels = levels_of(files, TableOptions({}))
    pick = pick_all(levels)
    if pick is not None:
        assert set(pick.files) == set(files)
        assert (pick.level, pick.below) == (levels.max_level, ())


def test_level_0_is_ordered_by_sequence_numbers_not_by_names() -> None:
    newest, middle, oldest = file_of(9, 0, 1), file_of(8, 0, 1), file_of(7, 0, 1)
    levels = levels_of([middle, newest, oldest], TableOptions({}))
    assert [run.files for run in levels.sorted_runs()] == [(newest,), (middle,), (oldest,)]


def test_remove_leaves_the_old_value() -> None:
    one, two = file_of(1, 0, 1), file_of(2, 0, 1)
    levels = levels_of([one, two], TableOptions({}))
    assert levels.remove([one]).files == {two}
    assert levels.files == {one, two}


def test_picks_are_those_of_java_over_seven_tiny_commits() -> None:
    """fx.levels, trigger 3: after each APPEND we pick the files, and the level, of Java's COMPACT."""
    (table,) = (t for t in JAVA_TABLES if t.path.name == "levels")
    paths, file_io = TablePaths(str(table.path)), LocalFileIO()
    snapshots, live_files = SnapshotStore(file_io, paths), LiveFiles(file_io, paths, [])
    options, compacted = table.schema.typed_options, []
    for id in snapshots.ids():
        snapshot = snapshots.load(id)
        if snapshot.commit_kind != "APPEND":
            continue
        live = [entry.file for entry in live_files.live_entries(snapshot)]
        pick = pick_due(levels_of(live, options), options)
        following: list[ManifestEntry] = []
        if id + 1 in snapshots.ids() and snapshots.load(id + 1).commit_kind == "COMPACT":
            following = live_files.delta_entries(snapshots.load(id + 1))
            compacted.append(id + 1)
        gone = {entry.file.file_name for entry in following if entry.kind == 1}
        assert {file.file_name for file in (pick.files if pick else ())} == gone
        if pick is not None:
            assert {e.file.level for e in following if e.kind == 0} == {pick.level} == {3}
    assert compacted == [4, 7, 10]


@pytest.mark.parametrize(
    ("numbers", "taken", "output_level"),
    [
        ({"new": 40, "late": 35, "block": 30, "base": 0}, {"new", "late"}, 3),
        ({"new": 40, "late": 20, "block": 30, "base": 0}, {"new", "late", "block"}, 4),
        ({"new": 40, "late": 30, "block": 30, "base": 0}, {"new", "late", "block"}, 4),
        ({"new": 40, "late": 20, "block": 30, "base": 25}, {"new", "late", "block", "base"}, 5),
    ],
    ids=["apart", "overtaken", "equal", "overtaken by the base"],
)
def test_a_pick_is_extended_until_its_numbers_lie_above_what_stays(
    numbers: dict[str, int], taken: set[str], output_level: int
) -> None:
    """docs/decisions/0007: two files of level 0 are picked, a block at level 4 and the base at level 5 stay."""
    level = {"new": 0, "late": 0, "block": 4, "base": 5}
    files = {
        name: file_of(number, level[name], 100)._replace(file_name=name)
        for name, number in numbers.items()
    }
    levels = Levels(6, frozenset(files.values()))
    runs = levels.sorted_runs()
    pick = extend(levels, RunPick(runs[:2], runs[2:], 3))
    assert pick is not None
    assert {file.file_name for file in pick.files} == taken
    assert (pick.level, not pick.below) == (output_level, output_level == 5)
