"""Which compactions a producer gets, and what it takes to trust the rows above level 0."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from types import MappingProxyType

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.widetable.lsm.test_universal_compaction import file_of
from widetable.format.data_file_meta import DataFileMeta, upgrade
from widetable.lsm.changelog_compaction import (
    FULL_ROW_NUMBER,
    Share,
    plan_bucket,
    rewrites_much,
)
from widetable.lsm.universal_compaction import Choice
from widetable.merge.engine import engine_of
from widetable.schema import TableSchema, new_schema

PARTIAL = {"merge-engine": "partial-update"}
BOTTOM = 9
NOW = 1_795_000_000_000_000_000


def schema_with(options: dict[str, str]) -> TableSchema:
    arrow = pa.schema([pa.field("k", pa.int64(), nullable=False), ("a", pa.int64())])
    return new_schema(arrow, primary_key=["k"], options=options)


def file_at(level: int, number: int, *, size: int = 100, deletes: int = 0) -> DataFileMeta:
    return replace(file_of(number, level, size), delete_row_count=deletes)


def planned(
    files: Sequence[DataFileMeta],
    options: Mapping[str, str] = MappingProxyType({}),
    *,
    full: bool = False,
    producer: str = "lookup",
    share: Share = Share.ALL,
) -> Choice | None:
    schema = schema_with({"changelog-producer": producer, **options})
    return plan_bucket(schema, engine_of(schema), files, full=full, share=share)


def test_a_single_commit_moves_up_at_once() -> None:
    base, fresh = file_at(5, 0, size=10_000), file_at(0, NOW)
    choice = planned([base, fresh], PARTIAL)
    assert choice is not None
    assert (choice.files, choice.output_level, choice.known_level) == ((fresh,), 4, 1)
    assert [run.files for run in choice.below] == [(base,)]
    assert choice.sequence_number == FULL_ROW_NUMBER


def test_without_a_producer_a_single_commit_stays() -> None:
    files = [file_at(5, 0, size=10_000), file_at(0, NOW)]
    assert planned(files, PARTIAL, producer="none") is None
    assert planned(files, PARTIAL, producer="input") is None
    assert planned(files, PARTIAL, producer="full-compaction") is None


def test_each_level_has_a_higher_number_than_the_one_below() -> None:
    files = [file_at(5, 0), file_at(4, FULL_ROW_NUMBER), file_at(3, FULL_ROW_NUMBER + 1)]
    choice = planned([*files, file_at(0, NOW, size=1)], PARTIAL)
    assert choice is not None
    assert choice.output_level == 2
    assert choice.sequence_number == FULL_ROW_NUMBER + 2
    assert len(choice.below) == 3


def test_what_takes_all_has_the_number_of_the_base() -> None:
    choice = planned([file_at(0, NOW), file_at(0, NOW + 1)], PARTIAL)
    assert choice is not None
    assert (choice.sequence_number, choice.below, choice.repairs) == (0, (), False)


def test_rows_of_deduplicate_keep_their_numbers() -> None:
    choice = planned([file_at(5, 7), file_at(4, 9), file_at(0, NOW, size=1)])
    assert choice is not None
    assert (choice.sequence_number, choice.repairs, choice.output_level) == (None, False, 3)


def test_the_newest_row_counts_only_where_numbers_show_that_it_wins() -> None:
    in_order, fresh = [file_at(5, 7), file_at(4, 9)], file_at(0, NOW, size=1)
    overtaken = [file_at(5, 9), file_at(4, 7)]
    by_value = {"sequence.field": "a"}
    for files, options, wins in (
        (in_order, {}, True),
        (overtaken, {}, False),
        (in_order, by_value, False),
    ):
        choice = planned([*files, fresh], options)
        assert choice is not None
        assert choice.newest_wins == wins


@pytest.mark.parametrize(
    "above", [file_at(4, NOW - 1), file_at(4, 1), file_at(4, FULL_ROW_NUMBER + 5000)]
)
def test_levels_without_the_mark_are_merged_once(above: DataFileMeta) -> None:
    files = [file_at(5, 0, size=10_000), above, file_at(0, NOW)]
    choice = planned(files, PARTIAL)
    assert choice is not None
    assert (choice.repairs, set(choice.files), choice.known_level) == (True, set(files), 1)
    assert (choice.sequence_number, choice.output_level) == (0, BOTTOM)


def test_a_level_that_does_not_sort_after_the_one_below_is_not_trusted() -> None:
    files = [file_at(5, 0), file_at(4, FULL_ROW_NUMBER), file_at(3, FULL_ROW_NUMBER)]
    choice = planned([*files, file_at(0, NOW)], PARTIAL)
    assert choice is not None
    assert choice.repairs


def test_the_deepest_level_is_trusted_whoever_wrote_it() -> None:
    """Numbers of a counting writer stand there; new rows must sort after them."""
    choice = planned([file_at(5, 1_000_000, size=10_000), file_at(0, NOW)], PARTIAL)
    assert choice is not None
    assert (choice.repairs, choice.sequence_number) == (False, FULL_ROW_NUMBER)
    high = file_at(5, FULL_ROW_NUMBER + 77, size=10_000)
    choice = planned([high, file_at(0, NOW)], PARTIAL)
    assert choice is not None
    assert choice.sequence_number == FULL_ROW_NUMBER + 78


def test_deletes_that_remove_take_the_base_along() -> None:
    options = PARTIAL | {"partial-update.remove-record-on-delete": "true"}
    files = [file_at(5, 0, size=10_000), file_at(0, NOW, deletes=1)]
    choice = planned(files, options)
    assert choice is not None
    assert set(choice.files) == set(files)
    kept = planned([files[0], file_at(0, NOW)], options)
    assert kept is not None
    assert len(kept.files) == 1


def test_gentle_waits_for_enough_files() -> None:
    gentle = PARTIAL | {"lookup-compact": "gentle", "num-sorted-run.compaction-trigger": "20"}
    waiting = [file_at(0, NOW + number) for number in range(39)]
    base = file_at(5, 0, size=10**9)
    assert planned([base, *waiting[:18]], gentle) is None
    asked = gentle | {"lookup-compact.max-interval": "25", "num-sorted-run.compaction-trigger": "3"}
    few = planned([base, *waiting[:1]], asked)
    assert few is None
    due = gentle | {"lookup-compact.max-interval": "2", "num-sorted-run.compaction-trigger": "2"}
    assert planned([base, *waiting[:2]], due) is not None


def test_level_1_goes_along_when_nothing_fits_between() -> None:
    levels = [
        file_at(5 - n, 0 if n == 0 else FULL_ROW_NUMBER + n - 1, size=10**6) for n in range(5)
    ]
    choice = planned(
        [*levels, file_at(0, NOW, size=1)],
        PARTIAL | {"num-sorted-run.compaction-trigger": "9", "num-levels": "6"},
    )
    assert choice is not None
    assert choice.output_level == 1
    assert {file.level for file in choice.files} == {0, 1}


def test_full_compaction_emits_what_changed_against_the_bottom() -> None:
    files = [file_at(5, 0, size=10_000), file_at(4, 9), file_at(0, NOW)]
    choice = planned(files, full=True, producer="full-compaction")
    assert choice is not None
    assert (choice.known_level, choice.below, choice.repairs) == (5, (), False)


def test_files_of_a_newer_schema_are_left_alone() -> None:
    newer = replace(file_at(0, NOW), schema_id=1)
    assert planned([file_at(5, 0), newer], PARTIAL) is None


LARGE = 20 << 20
# Five runs, the newer ones together more than twice as large as the base.
OLD = tuple(file_at(level, FULL_ROW_NUMBER + 8 - level, size=LARGE) for level in (8, 7, 6, 5))
BASE = file_at(BOTTOM, 0, size=LARGE)


def test_a_commit_leaves_a_large_pick_to_the_compaction_behind_it() -> None:
    fresh = file_at(0, NOW, size=LARGE)
    files = [BASE, *OLD[:3], fresh]
    whole = planned(files, PARTIAL)
    assert whole is not None
    assert set(whole.files) == set(files)
    choice = planned(files, PARTIAL, share=Share.COMMIT)
    assert choice is not None
    assert (choice.files, choice.output_level, choice.moves) == ((fresh,), 5, ())
    assert choice.sequence_number == FULL_ROW_NUMBER + 3
    assert [run.level for run in choice.below] == [6, 7, 8, 9]


def test_the_compaction_behind_a_commit_takes_old_levels_only() -> None:
    newest = file_at(3, FULL_ROW_NUMBER + 4, size=LARGE)
    for newer in ((), (newest,), (newest, file_at(0, NOW))):
        choice = planned([BASE, *OLD, *newer], PARTIAL, share=Share.REST)
        assert choice is not None
        assert set(choice.files) == {BASE, *OLD}
        assert (choice.output_level, choice.below, choice.sequence_number) == (BOTTOM, (), 0)
        assert choice.drop_deletes


def test_what_stays_below_a_compaction_behind_a_commit_sorts_before_it() -> None:
    base = file_at(BOTTOM, 7, size=100 * LARGE)
    choice = planned([base, *OLD, file_at(1, FULL_ROW_NUMBER + 4)], PARTIAL, share=Share.REST)
    assert choice is not None
    assert set(choice.files) == set(OLD)
    assert (choice.output_level, choice.sequence_number) == (8, FULL_ROW_NUMBER)
    assert not choice.drop_deletes


def test_commits_go_to_the_first_levels_while_old_ones_are_rewritten() -> None:
    """Level 4 would be free: what lies there now is what the compaction behind the commits takes."""
    files = [BASE, *OLD]
    for number, level in enumerate((3, 2, 1)):
        fresh = file_at(0, NOW + number)
        choice = planned([*files, fresh], PARTIAL, share=Share.COMMIT)
        assert choice is not None
        assert (choice.files, choice.output_level) == ((fresh,), level)
        files.append(file_at(level, FULL_ROW_NUMBER + 4 + number))
    choice = planned([*files, file_at(0, NOW)], PARTIAL, share=Share.COMMIT)
    assert choice is not None
    assert {file.level for file in choice.files} == {0, 1}


def test_runs_of_commits_move_down_once_the_old_levels_are_free() -> None:
    newer = [file_at(3, FULL_ROW_NUMBER + 4), file_at(2, FULL_ROW_NUMBER + 5)]
    fresh = file_at(0, NOW)
    choice = planned([BASE, *newer, fresh], PARTIAL, share=Share.COMMIT)
    assert choice is not None
    assert (choice.files, choice.output_level) == ((fresh,), 6)
    assert choice.moves == ((newer[0], 8), (newer[1], 7))
    assert (choice.sequence_number, choice.drop_deletes) == (FULL_ROW_NUMBER + 6, False)


def test_a_table_of_few_levels_keeps_one_for_commits() -> None:
    options = PARTIAL | {"num-levels": "6"}
    old = [file_at(level, FULL_ROW_NUMBER + 4 - level, size=LARGE) for level in (4, 3, 2)]
    files = [file_at(5, 0, size=LARGE), *old]
    rest = planned(files, options, share=Share.REST)
    assert rest is not None
    assert set(rest.files) == set(files)
    choice = planned([*files, file_at(0, NOW)], options, share=Share.COMMIT)
    assert choice is not None
    assert choice.output_level == 1


@given(st.data())
def test_commits_and_the_compaction_behind_them_stay_apart(data: st.DataObject) -> None:
    """Commits of any sizes, with the rewriting of old levels in hand for as long as it likes: levels hold one run each,
    newer runs have higher numbers, level 0 is empty after each commit, and what the rewriting took stays as it is.
    """
    trigger = data.draw(st.integers(1, 6), "trigger")
    options = PARTIAL | {"num-sorted-run.compaction-trigger": str(trigger)}
    if data.draw(st.booleans(), "few levels"):
        options["num-levels"] = str(data.draw(st.integers(2, 9), "levels"))
    sizes = st.integers(0, 3).map(lambda power: 100 * 1000**power // 10)
    files: frozenset[DataFileMeta] = frozenset()
    taken: Choice | None = None
    for number in range(data.draw(st.integers(1, 40), "commits")):
        files |= {file_at(0, NOW + number, size=data.draw(sizes, "size"))}
        choice = planned(sorted_files(files), options, share=Share.COMMIT)
        assert choice is not None
        if taken is not None and (data.draw(st.booleans(), "is done") or waits(choice, options)):
            files, taken = carried_out(files, taken), None
            choice = planned(sorted_files(files), options, share=Share.COMMIT)
            assert choice is not None
        assert taken is None or not set(taken.files) & touched(choice)
        files = carried_out(files, choice)
        check_levels(files)
        if taken is None:
            taken = planned(sorted_files(files), options, share=Share.REST)
        else:
            assert planned(sorted_files(files), options, share=Share.REST) == taken


def sorted_files(files: Iterable[DataFileMeta]) -> list[DataFileMeta]:
    return sorted(files, key=lambda file: (file.level, file.min_sequence_number))


def waits(choice: Choice, options: Mapping[str, str]) -> bool:
    """As operations.compaction does: a commit that rewrites much waits for who is at the old levels."""
    return rewrites_much(choice, schema_with(dict(options)).typed_options)


def touched(choice: Choice) -> set[DataFileMeta]:
    return {*choice.files, *(file for file, _ in choice.moves)}


def carried_out(files: frozenset[DataFileMeta], choice: Choice) -> frozenset[DataFileMeta]:
    """What a compaction leaves, when every row is kept."""
    assert touched(choice) <= files
    assert choice.sequence_number is not None
    size = sum(file.file_size for file in choice.files)
    merged = file_at(choice.output_level, choice.sequence_number, size=size)
    moved = {upgrade(file, level) for file, level in choice.moves}
    return files - touched(choice) | moved | {merged}


def check_levels(files: frozenset[DataFileMeta]) -> None:
    runs = sorted(files, key=lambda file: file.level)
    assert all(newer.level < older.level for newer, older in pairwise(runs))
    assert all(
        newer.min_sequence_number > older.max_sequence_number for newer, older in pairwise(runs)
    )
    assert runs[0].level > 0


@pytest.mark.parametrize("trigger", ["1", "2"])
def test_a_low_trigger_does_not_rewrite_the_base_behind_every_commit(trigger: str) -> None:
    options = PARTIAL | {"num-sorted-run.compaction-trigger": trigger, "num-levels": "6"}
    base = file_at(5, 0, size=100 * LARGE)
    small = file_at(4, FULL_ROW_NUMBER, size=LARGE)
    assert planned([base], options, share=Share.REST) is None
    assert planned([base, small], options, share=Share.REST) is None
    newer = file_at(3, FULL_ROW_NUMBER + 1, size=LARGE)
    choice = planned([base, small, newer], options, share=Share.REST)
    assert choice is not None
    assert set(choice.files) == {small, newer}


def test_a_commit_takes_all_once_level_1_is_as_large() -> None:
    full = [file_at(level, FULL_ROW_NUMBER + 8 - level, size=LARGE) for level in (3, 2, 1)]
    files = [BASE, *OLD, *full, file_at(0, NOW)]
    choice = planned(files, PARTIAL, share=Share.COMMIT)
    assert choice is not None
    assert set(choice.files) == set(files)


def test_a_small_pick_is_done_by_the_commit() -> None:
    files = [replace(file, file_size=1000) for file in (BASE, *OLD)]
    assert planned(files, PARTIAL, share=Share.REST) is None
    choice = planned([*files, file_at(0, NOW, size=1000)], PARTIAL, share=Share.COMMIT)
    assert choice is not None
    assert len(choice.files) == 6


def test_old_levels_that_are_not_full_rows_are_left_to_the_commit() -> None:
    files = [BASE, *(replace(file, max_sequence_number=NOW) for file in OLD)]
    assert planned(files, PARTIAL, share=Share.REST) is None
    choice = planned([*files, file_at(0, NOW)], PARTIAL, share=Share.COMMIT)
    assert choice is not None
    assert (choice.repairs, len(choice.files)) == (True, 6)


def test_only_the_lookup_producer_has_a_compaction_behind_the_commit() -> None:
    for producer in ("none", "input", "full-compaction"):
        assert planned([BASE, *OLD], PARTIAL, producer=producer, share=Share.REST) is None
