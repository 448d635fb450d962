"""The plan of a bucket's compaction: one pure function from its live files to steps, which `compaction` carries out.

    live files ─► levels ─► which of the newest runs, to which level ─► steps: Move | Merge | MergeWithChangelog
                            (universal_compaction)

    producer            picks                                      before-images               changelog
    none, input         universal                                  -                           -
    full-compaction     universal                                  rows of the oldest run      when all runs are taken
    lookup              universal, else all of level 0 (`forced`)  rows at level >= 1          of the level-0 files
    first-row, any      the same                                   the same                    with lookup the same

With `lookup` a record at level >= 1 is the fully merged row of its key (law 5). For engines whose rows mix records the
sequence numbers show this, decision 0008: a level above the deepest has one number, FULL_ROW_NUMBER plus its place.
Files without such a number were compacted by a client without a changelog; then all runs are merged once (`repairs`).
deduplicate keeps its numbers; if they do not show that newer levels win, all levels are searched (`before`).

A writer divides the work of `lookup` (docs/decisions/0011) and the levels (`levels.division_of`). A commit waits until
level 0 has moved up with its changelog. A pick that would rewrite many rows above level 0 is left to a compaction after
the commit, the rest, which takes only old levels. The table `_COMMIT` says what a commit takes:

    level 0       [c][c]          the commit's files:  UP     to the level above the next older run
    first levels  1 2 3                                ASIDE  as UP, no deeper than the first levels, while the rest
    old levels    4 ─ ─ ─ ┐                                   compacts old ones
                  5 ██    │ rest                       ROOM   after older runs have moved down unchanged, if the rest
                  9 ██████┘                                   has nothing to do
                                                       WHOLE  the universal pick of all levels

Plans of a partial-update table with ten levels and `lookup` (full+n: FULL_ROW_NUMBER + n):

    commit   L0 1, L9 1G            merge L0 to L8, number full+0, before in L9
    commit   L0 1, L1 1, L9 1G      merge L0 to L7, number full+1, before in L1 L9; then move L1 to L8    (room)
    due      L0 1, L3 1M, L9 1G     merge all to L9, number 0: L3 lacks the number of a full row          (repairs)

Source: Paimon `LookupMergeTreeCompactRewriter`, `ForceUpLevel0Compaction`; format.md section 9.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise
from typing import Final, TypeAlias

from widetable.format.data_file_meta import DataFileMeta
from widetable.lsm.fan_in import taken_at_once
from widetable.lsm.levels import Levels, compacts_with_lookup, division_of, levels_of
from widetable.lsm.sorted_run import SortedRun
from widetable.lsm.universal_compaction import (
    RunPick,
    extend,
    pick_all,
    pick_due,
    pick_level0,
    pick_with_room,
)
from widetable.merge.engine import MergeEngine, PartialMerge
from widetable.merge.record_expiry import expires_records
from widetable.schema import options as opt
from widetable.schema.options import TableOptions
from widetable.schema.table_schema import TableSchema

# On disk: never change (docs/decisions/0008). Above the numbers of clients that count, below nanoseconds of any clock.
FULL_ROW_NUMBER: Final = 1 << 40
# How many numbers from there on mark full rows: each compaction that leaves older levels takes a
# number that is one above theirs.
_MAX_LEVELS: Final = 1 << 10
# The bytes that a commit that completes a barrier may merge, whatever else is due.
_LITTLE_BYTES: Final = 1 << 20


class Scope(Enum):
    """The scope of a bucket's plan."""

    FULL = "all runs become one"
    DUE = "all compactions that the rules require"
    EXPIRY = "as FULL, if rows have expired"
    COMMIT = "the compaction that a commit waits for; the rest follows after it"
    REST = "the compaction that commits leave to be done after them"


class Expiry(Enum):
    """How a compaction treats expired rows (merge.record_expiry)."""

    NONE = "they stay"
    DROP = "they are dropped"
    ONLY = "they are dropped; without any, the compaction does nothing"


@dataclass(frozen=True)
class Move:
    """Move files that overlap no others to the level unchanged if they are movable. The others stay, and are merged
    when they are read. movable: files that are allowed at the level, those of level 0 only with all columns.

    The footer of a file shows whether it has all columns; a plan reads only manifests, no footers.
    """

    files: tuple[DataFileMeta, ...]
    level: int
    movable: frozenset[DataFileMeta]


@dataclass(frozen=True)
class Merge(Move):
    """Merge the other files into one sorted run. sequence_number: of all written rows; None: the numbers of the merge.

    keep_deletes: -U and -D rows are written, too: they may hide older rows that are left or still to come.
    """

    keep_deletes: bool
    sequence_number: int | None
    expiry: Expiry


@dataclass(frozen=True)
class MergeWithChangelog(Merge):
    """A merge that emits its changes to readers of changes, who have seen the rows at levels >= known_level.

    before: groups of older runs in which such rows are looked up, oldest group first. In a group, whose runs are newest
    first, the newest run that has the key gives the row; the rows of several groups are merged. repairs: the rows at
    level >= 1 were not full rows. emits: False if rows are looked up, but no changes emitted. marks: the rows that were
    looked up are added to the deletion vectors of their files.
    """

    known_level: int
    before: tuple[tuple[SortedRun, ...], ...]
    repairs: bool
    emits: bool
    marks: bool


# The steps in the order in which they are carried out; empty if nothing is to be done. All steps
# are committed at once, so no reader sees one without the others.
Plan: TypeAlias = tuple[Move, ...]


@dataclass(frozen=True)
class _Bucket:
    schema: TableSchema
    engine: MergeEngine
    levels: Levels
    expiry: Expiry

    @property
    def options(self) -> TableOptions:
        return self.schema.typed_options

    @property
    def has_vectors(self) -> bool:
        """Whether each key has one row above level 0: a compaction marks older rows of its keys as deleted."""
        return bool(self.options.get(opt.DELETION_VECTORS_ENABLED))

    def partial_merge(self, pick: RunPick) -> PartialMerge:
        """Return how a pick may be merged; a file that does not record its number of deletes counts as having some."""
        has_deletes = any(file.delete_row_count != 0 for file in pick.files)
        return self.engine.partial_merge(self.schema, has_deletes=has_deletes)

    def old_levels(self) -> _Bucket:
        """Return the bucket without level 0 and the first levels: commits leave the old levels while the rest runs."""
        first_levels = division_of(self.levels, self.options).commit_levels
        newer = (file for file in self.levels.files if file.level <= first_levels)
        return replace(self, levels=self.levels.remove(newer), expiry=Expiry.NONE)

    def whole(self) -> RunPick:
        """Pick every run, whether that is due or not."""
        return RunPick(self.levels.sorted_runs(), (), self.levels.max_level)

    def with_base(self, pick: RunPick) -> RunPick:
        """Pick every run; if the only run is at the bottom already, return the pick unchanged."""
        return pick_all(self.levels) or pick

    def full(self) -> RunPick | None:
        """Return the pick of a full compaction. Even one run may have expired rows, which `compaction` checks."""
        return pick_all(self.levels) if self.expiry is Expiry.NONE else self.whole()


def plan_bucket(
    schema: TableSchema, engine: MergeEngine, files: Iterable[DataFileMeta], scope: Scope
) -> Plan:
    """Return the plan of a bucket with these live files.

    If rows are merged only when they are read, a full compaction moves files and other compactions leave them:
    otherwise every commit would check all of them again. Of many files at level 0 the oldest are taken (`fan_in`). A
    bucket with files of a newer schema is left to a compactor that has read it: this one would lose their new columns.
    """
    live = tuple(files)
    files = taken_at_once(live, schema.typed_options)
    if any(file.schema_id > schema.id for file in live):
        return ()
    expiry = Expiry.NONE
    # No older record of a dropped row may be left, so none is dropped while files of its bucket are left out.
    if expires_records(schema) and len(files) == len(live):
        expiry = Expiry.ONLY if scope is Scope.EXPIRY else Expiry.DROP
    elif scope is Scope.EXPIRY:
        return ()
    bucket = _Bucket(schema, engine, levels_of(files, schema.typed_options), expiry)
    if compacts_with_lookup(bucket.options):
        return _with_lookup(bucket, scope)
    return () if scope is Scope.REST else _without_lookup(bucket, scope)


def rewrites_much(plan: Plan, options: TableOptions) -> bool:
    """Return whether a commit should not wait for a plan: it merges more above level 0 than may be rewritten inline."""
    return _is_much((file for s in plan if isinstance(s, Merge) for file in s.files), options)


def takes_much(plan: Plan, options: TableOptions) -> bool:
    """Return whether a plan merges so much that a commit whose changelog is not awaited should not wait for it.

    Files of level 0 count, too, and the limit is smaller than that of `rewrites_much`.
    """
    merged_bytes = sum(file.file_size for s in plan if isinstance(s, Merge) for file in s.files)
    return merged_bytes > min(options.get(opt.INLINE_COMPACTION_SIZE), _LITTLE_BYTES)


def new_rows(plans: Iterable[Plan]) -> dict[str, int]:
    """Return the names of the level-0 files that the plans merge, each with its number of rows."""
    merged = (file for plan in plans for s in plan if isinstance(s, Merge) for file in s.files)
    return {file.file_name: file.row_count for file in merged if file.level == 0}


def names_of(plan: Plan) -> list[str]:
    """Return the names of the files that carrying out a plan may read."""
    groups = (runs for step in plan if isinstance(step, MergeWithChangelog) for runs in step.before)
    below = (file for runs in groups for run in runs for file in run.files)
    return [file.file_name for file in (*(file for step in plan for file in step.files), *below)]


def _is_much(files: Iterable[DataFileMeta], options: TableOptions) -> bool:
    rewritten_bytes = sum(file.file_size for file in files if file.level > 0)
    return rewritten_bytes > options.get(opt.INLINE_COMPACTION_SIZE)


def _without_lookup(bucket: _Bucket, scope: Scope) -> Plan:
    """Plan the universal pick, extended as far as the engine requires it (docs/decisions/0002, 0007).

    Changes are emitted only if all runs are picked: then the oldest run is the table as of the last such compaction.
    """
    levels, is_full = bucket.levels, scope in (Scope.FULL, Scope.EXPIRY)
    pick = bucket.full() if is_full else pick_due(levels, bucket.options)
    if pick is not None:
        allowed = bucket.partial_merge(pick)
        if allowed is PartialMerge.WITH_BASE:
            pick = bucket.with_base(pick)
        elif allowed is PartialMerge.NEVER:
            pick = pick if is_full else None
        elif bucket.engine.mixes_records and pick.below:
            pick = extend(levels, pick)
    if pick is None:
        return ()
    emits = bucket.options.get(opt.CHANGELOG_PRODUCER) == "full-compaction" and not pick.below
    return _steps(bucket, pick, levels.base_level() if emits else 0, None, repairs=False)


def _with_lookup(bucket: _Bucket, scope: Scope) -> Plan:
    """Plan the pick of the scope, and the sequence number of its rows. With deletion vectors, and while a bucket is
    repaired, no rest is left to a compaction after commits: see `_VECTORS`; a repair takes all runs.
    """
    is_trusted = bucket.has_vectors or _holds_full_rows(bucket.levels)
    repairs = bucket.engine.mixes_records and not is_trusted
    if scope is Scope.REST:
        bucket = bucket.old_levels()
    pick = None
    if scope is not Scope.REST or not (bucket.has_vectors or repairs):
        picks = _VECTORS if bucket.has_vectors else _LOOKUP
        pick = pick_all(bucket.levels) if repairs else picks[scope](bucket)
    if pick is None:
        return ()
    if bucket.partial_merge(pick) is PartialMerge.WITH_BASE:
        pick = bucket.with_base(pick)
    number = None
    if bucket.engine.stores_keys_once:
        number = 0  # an existing row never changes, so its number does not matter: its run has no other row of the key
    elif bucket.engine.mixes_records:
        highest = max((run.highest_number for run in pick.below), default=-1)
        number = max(FULL_ROW_NUMBER, highest + 1) if pick.below else 0
    return _steps(bucket, pick, 1, number, repairs=repairs)


def _pick_due(bucket: _Bucket) -> RunPick | None:
    pick = pick_due(bucket.levels, bucket.options)
    return pick_level0(bucket.levels) if pick is None and _is_due(bucket) else pick


def _pick_rest(old: _Bucket) -> RunPick | None:
    """Pick what is due among the old levels, if it is much. Commits meanwhile do not change the result."""
    trigger = division_of(old.levels, old.options).rest_trigger
    pick = pick_due(old.levels, old.options, trigger)
    return pick if pick is not None and _is_much(pick.files, old.options) else None


# The universal pick of all levels, classified by the bytes that it rewrites above level 0. OVERDUE: much, and level 1
# has itself outgrown the limit for inline rewrites; with LITTLE it has not, as the pick includes level 1.
_Due = Enum("_Due", "NONE LITTLE MUCH OVERDUE")
_Way = Enum("_Way", "UP ASIDE ROOM WHOLE")

# The ways that a commit tries in turn, first without, then with work for the rest; it takes the
# first one that yields a pick. A way that touches old levels must not be taken while the rest
# compacts them; only an overdue commit does so, and waits for the rest first.
_COMMIT: Final[Mapping[_Due, tuple[tuple[_Way, ...], tuple[_Way, ...]]]] = {
    _Due.NONE: ((_Way.ROOM, _Way.UP), (_Way.ASIDE,)),
    _Due.LITTLE: ((_Way.WHOLE,), (_Way.ASIDE,)),
    _Due.MUCH: ((_Way.ROOM, _Way.UP), (_Way.ASIDE,)),
    _Due.OVERDUE: ((_Way.ROOM, _Way.WHOLE), (_Way.WHOLE,)),
}


def _pick_for_commit(bucket: _Bucket) -> RunPick | None:
    """Pick by `_COMMIT`. Whether the rest has work is decided from the old levels alone, as the rest itself does: so
    both agree without a lock, whether the rest is running, waiting or was killed.
    """
    levels, options = bucket.levels, bucket.options
    whole = pick_due(levels, options)
    if whole is None and not _is_due(bucket):
        return None
    has_rest = _pick_rest(bucket.old_levels()) is not None
    first_levels = division_of(levels, options).commit_levels
    picks: dict[_Way, Callable[[], RunPick | None]] = {
        _Way.UP: lambda: pick_level0(levels),
        _Way.ASIDE: lambda: pick_level0(levels, first_levels),
        _Way.ROOM: lambda: pick_with_room(levels, first_levels),
        _Way.WHOLE: lambda: whole,
    }
    candidates = (picks[way]() for way in _COMMIT[_due(whole, options)][has_rest])
    return next((pick for pick in candidates if pick is not None), None)


def _due(whole: RunPick | None, options: TableOptions) -> _Due:
    if whole is None:
        return _Due.NONE
    if not _is_much(whole.files, options):
        return _Due.LITTLE
    level1 = (file for file in whole.files if file.level == 1)
    return _Due.OVERDUE if _is_much(level1, options) else _Due.MUCH


_LOOKUP: Final[Mapping[Scope, Callable[[_Bucket], RunPick | None]]] = {
    Scope.FULL: _Bucket.full,
    Scope.EXPIRY: _Bucket.full,
    Scope.DUE: _pick_due,
    Scope.COMMIT: _pick_for_commit,
    Scope.REST: _pick_rest,
}
# With deletion vectors a commit marks rows of old levels, so nothing may rewrite these after it.
_VECTORS: Final = {**_LOOKUP, Scope.COMMIT: _pick_due}


def _is_due(bucket: _Bucket) -> bool:
    """Return whether level 0 must move up now: always with `radical`, with `gentle` if enough files wait."""
    waiting = sum(file.level == 0 for file in bucket.levels.files)
    if bucket.options.get(opt.LOOKUP_COMPACT) == "radical":
        return waiting > 0
    trigger = bucket.options.get(opt.NUM_SORTED_RUN_COMPACTION_TRIGGER)
    interval = bucket.options.get(opt.LOOKUP_COMPACT_MAX_INTERVAL)
    return waiting >= max(trigger, 2 * trigger if interval is None else interval, 1)


def _holds_full_rows(levels: Levels) -> bool:
    """Return whether the numbers of every level >= 1 but the deepest show that lookup compactions wrote it.

    The deepest one has no older rows to be merged with.
    """
    runs = [run for run in levels.sorted_runs() if run.level > 0]
    marks = range(FULL_ROW_NUMBER, FULL_ROW_NUMBER + _MAX_LEVELS)
    is_marked = all(run.lowest_number == run.highest_number in marks for run in runs[:-1])
    return is_marked and _ascend(runs)


def _ascend(runs: Iterable[SortedRun]) -> bool:
    """Return whether every row of a newer run sorts after all rows of the older ones; runs: newest first.

    In a table of whole rows a late record may be at a newer level than the record that wins, if it was moved up alone,
    or if its writer was overtaken.
    """
    return all(old.highest_number < new.lowest_number for new, old in pairwise(runs))


def _steps(
    bucket: _Bucket, pick: RunPick, known_level: int, number: int | None, *, repairs: bool
) -> Plan:
    """Return the steps for a pick. known_level: 0 for a compaction without changes to emit. number: of the rows, None
    for any.

    A file may be moved if it is at the level already, or if a merge would write the same rows: readers of changes have
    seen them (otherwise they must be emitted), they have the number, the file has no deletes that must be dropped
    (their number is recorded), and no rows that a vector deletes, which should not stay at the bottom.
    """
    schema, engine = bucket.schema, bucket.engine
    keeps_all = bool(pick.below) and not bucket.has_vectors
    keep_deletes = keeps_all or engine.keeps_deletes(schema)
    movable = frozenset(
        file
        for file in pick.files
        if file.level == pick.level
        or (
            file.level >= known_level
            and (number is None or number == file.min_sequence_number == file.max_sequence_number)
            and file.delete_row_count is not None
            and (keep_deletes or not file.delete_row_count)
            and (file.deleted is None or bool(pick.below))
        )
    )
    if bucket.partial_merge(pick) is PartialMerge.NEVER:
        return (Move(pick.files, pick.level, movable),)
    if engine.mixes_records and not pick.below:
        # No older row stays in the bucket: all later commits sort after these rows
        # (docs/decisions/0007), also that of a writer that took its numbers before this compaction
        # began.
        number = 0
    # No older record of a dropped row may be left that a reader would find instead.
    expiry = bucket.expiry if bucket.levels.files == frozenset(pick.files) else Expiry.NONE
    merge = pick.files, pick.level, movable, keep_deletes, number, expiry
    step = Merge(*merge)
    if known_level:
        is_whole = engine.mixes_records or engine.stores_keys_once
        newest_wins = (
            is_whole or bucket.has_vectors or (not schema.sequence_fields and _ascend(pick.below))
        )
        # One group: the search for a key ends at the newest run that has it. Otherwise each run is
        # searched, oldest first.
        groups = (pick.below,) if newest_wins else tuple((run,) for run in reversed(pick.below))
        before = groups if pick.below else ()
        emits = bucket.options.get(opt.CHANGELOG_PRODUCER) in ("lookup", "full-compaction")
        step = MergeWithChangelog(*merge, known_level, before, repairs, emits, bucket.has_vectors)
    moves = ((file, level) for run, level in pick.moves for file in run.files)
    return (step, *(Move((file,), level, frozenset((file,))) for file, level in moves))
