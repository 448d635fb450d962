"""What the compaction of a bucket does: one pure function from its live files to steps, which `compaction` carries out.

    live files ─► levels ─► which of the newest runs, to which level ─► steps: Move | Merge | MergeWithChangelog
                            (universal_compaction)

    producer            picks                                      before-images               changelog
    none, input         universal                                  -                           -
    full-compaction     universal                                  rows of the oldest run      when all runs are taken
    lookup              universal, else all of level 0 (`forced`)  rows at level >= 1          of the level-0 files
    first-row, any      the same                                   the same                    with lookup the same

With `lookup` a record at level >= 1 is the fully merged row of its key (law 5). For engines whose rows mix records this
shows in the sequence numbers, decision 0008: a level above the deepest has one number, FULL_ROW_NUMBER plus its place.
Files without it were compacted by somebody who kept no changelog; then all runs are merged once (`repairs`).
deduplicate keeps its numbers; where they do not show that newer levels win, all levels are looked at (`before`).

A writer divides the work of `lookup` (docs/decisions/0011) and the levels (`levels.division_of`): what a commit waits
for moves level 0 up with its changelog, and a pick that would rewrite much of what lies above level 0 is left to a
compaction behind the commit, the rest, which takes none but old levels. What a commit takes is one table, `_COMMIT`:

    level 0       [c][c]          the commit's files:  _UP    to the level above the next older run
    first levels  1 2 3                                _ASIDE the same, no deeper than the first levels: old ones are
    old levels    4 ─ ─ ─ ┐                                   what the rest is at
                  5 ██    │ rest                       _ROOM  below older runs that move down as they are, once the
                  9 ██████┘                                   rest has nothing to do
                                                       _WHOLE the universal pick of all levels

Plans of a partial-update table with ten levels and `lookup` (full+n: FULL_ROW_NUMBER + n):

    commit   L0 1, L9 1G            merge L0 to L8, number full+0, before in L9
    commit   L0 1, L1 1, L9 1G      merge L0 to L7, number full+1, before in L1 L9; then move L1 to L8    (room)
    due      L0 1, L3 1M, L9 1G     merge all to L9, number 0: L3 has not the number of a full row        (repairs)

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
from widetable.lsm.levels import Levels, division_of, levels_of, looks_up
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

# On disk: never change (docs/decisions/0008). Above what counting writers reach, below nanoseconds of any clock.
FULL_ROW_NUMBER: Final = 1 << 40
# So many numbers above it are known as such: each compaction that leaves older levels takes one
# more than they have.
_MOST_LEVELS: Final = 1 << 10
# What a commit that completes a barrier may wait for, whatever else is due.
_LITTLE_BYTES: Final = 1 << 20


class Scope(Enum):
    """What a bucket is planned for."""

    FULL = "every run becomes one"
    DUE = "all that the rules ask for"
    EXPIRY = "as FULL, where rows are too old"
    COMMIT = "what a commit waits for; the rest is done behind it"
    REST = "what commits leave to a compaction behind them"


class Expiry(Enum):
    """What becomes of rows that are too old (merge.record_expiry)."""

    NONE = "they stay"
    DROP = "they go"
    ONLY = "they go; where there are none, nothing is done"


@dataclass(frozen=True)
class Move:
    """Files that overlap no others go to the level as they are, where they are movable. The others stay: they are
    merged when they are read. movable: files that may lie at the level, those of level 0 only with all columns.

    Whether a file has all columns stands in its footer, which a plan, made of manifests alone,
    does not read.
    """

    files: tuple[DataFileMeta, ...]
    level: int
    movable: frozenset[DataFileMeta]


@dataclass(frozen=True)
class Merge(Move):
    """The others become one sorted run. sequence_number: of all rows that are written; None: as they were merged.

    keep_deletes: rows that are -U or -D are written too: something older is left that they
    hide, or may come.
    """

    keep_deletes: bool
    sequence_number: int | None
    expiry: Expiry


@dataclass(frozen=True)
class MergeWithChangelog(Merge):
    """A merge that emits what it changes for readers of changes, who have seen the rows from known_level on.

    before: where such rows are looked up below the files, oldest first: of a group of runs, newest first, the row of
    the newest one that has the key; the rows of several groups are merged. repairs: the rows at level >= 1 were not
    full rows. emits: False where rows are looked up, and nothing is emitted. marks: the rows that were looked up get
    into the deletion vectors of their files.
    """

    known_level: int
    before: tuple[tuple[SortedRun, ...], ...]
    repairs: bool
    emits: bool
    marks: bool


# In the order in which they are carried out; empty when there is nothing to do. All steps go
# into one commit, so no reader sees one without the others.
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
        """Whether a key is in one row above level 0: rows below a compaction that has their key are deleted."""
        return bool(self.options.get(opt.DELETION_VECTORS_ENABLED))

    def partial_merge(self, pick: RunPick) -> PartialMerge:
        """A file that does not say how many deletes it has counts as one with some."""
        has_deletes = any(file.delete_row_count != 0 for file in pick.files)
        return self.engine.partial_merge(self.schema, has_deletes=has_deletes)

    def old_levels(self) -> _Bucket:
        """Without level 0 and the first levels: what commits leave as it is while the rest is done."""
        first_levels = division_of(self.levels, self.options).commit_levels
        newer = (file for file in self.levels.files if file.level <= first_levels)
        return replace(self, levels=self.levels.remove(newer), expiry=Expiry.NONE)

    def whole(self) -> RunPick:
        """Every run, whatever there is to do."""
        return RunPick(self.levels.sorted_runs(), (), self.levels.max_level)

    def with_base(self, pick: RunPick) -> RunPick:
        """Every run. One that lies at the bottom already is all that any pick has, and stays picked."""
        return pick_all(self.levels) or pick

    def full(self) -> RunPick | None:
        """What a full compaction takes. One run may hold rows that are too old; who carries it out looks."""
        return pick_all(self.levels) if self.expiry is Expiry.NONE else self.whole()


def plan_bucket(
    schema: TableSchema, engine: MergeEngine, files: Iterable[DataFileMeta], scope: Scope
) -> Plan:
    """What to compact in a bucket with these live files.

    Where rows are only merged when they are read, files are moved in a full compaction and left alone otherwise: else
    every commit would look at all of them again. Of many files at level 0 it takes the oldest (`fan_in`). A bucket with
    files of a newer schema is left to a compactor that knows it: this one would lose their new columns.
    """
    live = tuple(files)
    files = taken_at_once(live, schema.typed_options)
    if any(file.schema_id > schema.id for file in live):
        return ()
    expiry = Expiry.NONE
    # Of a row that goes nothing may be left, so none goes while files of its bucket are left out.
    if expires_records(schema) and len(files) == len(live):
        expiry = Expiry.ONLY if scope is Scope.EXPIRY else Expiry.DROP
    elif scope is Scope.EXPIRY:
        return ()
    bucket = _Bucket(schema, engine, levels_of(files, schema.typed_options), expiry)
    if looks_up(bucket.options):
        return _with_lookup(bucket, scope)
    return () if scope is Scope.REST else _without_lookup(bucket, scope)


def rewrites_much(plan: Plan, options: TableOptions) -> bool:
    """Whether a commit should not wait for it: it merges more above level 0 than may be rewritten inline."""
    return _is_much((file for s in plan if isinstance(s, Merge) for file in s.files), options)


def takes_much(plan: Plan, options: TableOptions) -> bool:
    """The same where nobody waits for what it emits: files of level 0 count, too, and little is much."""
    merged_bytes = sum(file.file_size for s in plan if isinstance(s, Merge) for file in s.files)
    return merged_bytes > min(options.get(opt.INLINE_COMPACTION_SIZE), _LITTLE_BYTES)


def new_rows(plans: Iterable[Plan]) -> dict[str, int]:
    """The files of level 0 that are merged, and how many rows each has."""
    merged = (file for plan in plans for s in plan if isinstance(s, Merge) for file in s.files)
    return {file.file_name: file.row_count for file in merged if file.level == 0}


def names_of(plan: Plan) -> list[str]:
    """The files that carrying out a plan may read."""
    groups = (runs for step in plan if isinstance(step, MergeWithChangelog) for runs in step.before)
    below = (file for runs in groups for run in runs for file in run.files)
    return [file.file_name for file in (*(file for step in plan for file in step.files), *below)]


def _is_much(files: Iterable[DataFileMeta], options: TableOptions) -> bool:
    known_bytes = sum(file.file_size for file in files if file.level > 0)
    return known_bytes > options.get(opt.INLINE_COMPACTION_SIZE)


def _without_lookup(bucket: _Bucket, scope: Scope) -> Plan:
    """The universal pick, made larger as far as the engine needs it (docs/decisions/0002, 0007).

    Changes are emitted only from a pick of everything: then the oldest run is the table as it
    was at the last time.
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
    """The pick of the scope, and the number that its rows get. With vectors, and while a bucket
    is repaired, nothing is left to a compaction behind commits: see `_VECTORS`; a repair takes
    all runs.
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
    if bucket.engine.looks_up:
        number = 0  # a key that is there stays as it is, whatever number comes: its run holds no other row of it
    elif bucket.engine.mixes_records:
        highest = max((run.highest_number for run in pick.below), default=-1)
        number = max(FULL_ROW_NUMBER, highest + 1) if pick.below else 0
    return _steps(bucket, pick, 1, number, repairs=repairs)


def _pick_due(bucket: _Bucket) -> RunPick | None:
    pick = pick_due(bucket.levels, bucket.options)
    return pick_level0(bucket.levels) if pick is None and _is_due(bucket) else pick


def _pick_rest(old: _Bucket) -> RunPick | None:
    """What is due among the old levels, when it is much. Commits that come meanwhile do not change the answer."""
    trigger = division_of(old.levels, old.options).rest_trigger
    pick = pick_due(old.levels, old.options, trigger)
    return pick if pick is not None and _is_much(pick.files, old.options) else None


# What the universal rules pick of all levels, by what it rewrites above level 0. OVERDUE: much, and level 1 has grown
# as large as what may be rewritten inline; a pick that rewrites little shows that it has not, for it takes level 1.
_Due = Enum("_Due", "NONE LITTLE MUCH OVERDUE")
_Way = Enum("_Way", "UP ASIDE ROOM WHOLE")

# What a commit takes when the rest has nothing to do, and while it has: the first way that is
# there. A way that touches old levels must not be taken while the rest is at them; only an
# overdue commit does, and waits for it first.
_COMMIT: Final[Mapping[_Due, tuple[tuple[_Way, ...], tuple[_Way, ...]]]] = {
    _Due.NONE: ((_Way.ROOM, _Way.UP), (_Way.ASIDE,)),
    _Due.LITTLE: ((_Way.WHOLE,), (_Way.ASIDE,)),
    _Due.MUCH: ((_Way.ROOM, _Way.UP), (_Way.ASIDE,)),
    _Due.OVERDUE: ((_Way.ROOM, _Way.WHOLE), (_Way.WHOLE,)),
}


def _pick_for_commit(bucket: _Bucket) -> RunPick | None:
    """The way of `_COMMIT`. Whether the rest has something to do is found from the old levels
    alone, as it finds it: so both agree without a lock, whether it is running, waiting or was
    killed.
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
    found = (picks[way]() for way in _COMMIT[_due(whole, options)][has_rest])
    return next((pick for pick in found if pick is not None), None)


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
# With deletion vectors a commit marks rows of old levels, so nothing may rewrite these behind it.
_VECTORS: Final = {**_LOOKUP, Scope.COMMIT: _pick_due}


def _is_due(bucket: _Bucket) -> bool:
    """Whether level 0 must move up now: always with `radical`, with `gentle` when enough files wait."""
    waiting = sum(file.level == 0 for file in bucket.levels.files)
    if bucket.options.get(opt.LOOKUP_COMPACT) == "radical":
        return waiting > 0
    trigger = bucket.options.get(opt.NUM_SORTED_RUN_COMPACTION_TRIGGER)
    asked = bucket.options.get(opt.LOOKUP_COMPACT_MAX_INTERVAL)
    return waiting >= max(trigger, 2 * trigger if asked is None else asked, 1)


def _holds_full_rows(levels: Levels) -> bool:
    """Whether every level >= 1 shows that lookup compactions wrote it; the deepest has nothing to be merged with."""
    runs = [run for run in levels.sorted_runs() if run.level > 0]
    marks = range(FULL_ROW_NUMBER, FULL_ROW_NUMBER + _MOST_LEVELS)
    is_marked = all(run.lowest_number == run.highest_number in marks for run in runs[:-1])
    return is_marked and _ascend(runs)


def _ascend(runs: Iterable[SortedRun]) -> bool:
    """Whether every row of a newer run sorts after all rows of the older ones; newest first. In a table of whole rows a
    late record may lie above the one that wins: where it was moved up alone, or is of a writer that was overtaken.
    """
    return all(old.highest_number < new.lowest_number for new, old in pairwise(runs))


def _steps(
    bucket: _Bucket, pick: RunPick, known_level: int, number: int | None, *, repairs: bool
) -> Plan:
    """known_level: 0 for a compaction that emits nothing. number: of rows that may be moved, None for any.

    A file may be moved, if it is not there already, when it would be written the same: its rows
    were seen by readers of changes (else they must be emitted), it has the number, no deletes
    that must go (it says how many), and no rows that a vector took out, which the bottom should
    be rid of.
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
        # Nothing older stays in the bucket: whatever is committed from now on sorts after it
        # (docs/decisions/0007), a writer included that took its numbers before this compaction
        # began.
        number = 0
    # Of a key whose row goes nothing may be left that a reader would find instead.
    expiry = bucket.expiry if bucket.levels.files == frozenset(pick.files) else Expiry.NONE
    merge = pick.files, pick.level, movable, keep_deletes, number, expiry
    step = Merge(*merge)
    if known_level:
        is_whole = engine.mixes_records or engine.looks_up
        newest_wins = (
            is_whole or bucket.has_vectors or (not schema.sequence_fields and _ascend(pick.below))
        )
        # One group: the search for a key ends at the newest run that has it. Else each run is
        # asked, oldest first.
        groups = (pick.below,) if newest_wins else tuple((run,) for run in reversed(pick.below))
        before = groups if pick.below else ()
        emits = bucket.options.get(opt.CHANGELOG_PRODUCER) in ("lookup", "full-compaction")
        step = MergeWithChangelog(*merge, known_level, before, repairs, emits, bucket.has_vectors)
    moves = ((file, level) for run, level in pick.moves for file in run.files)
    return (step, *(Move((file,), level, frozenset((file,))) for file, level in moves))
