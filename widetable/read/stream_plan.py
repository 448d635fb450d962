"""Plans which snapshots a reader of changes reads next, and how far. Pure: values in, values out.

A stream is either in its full phase, where it reads the rows of one snapshot, or it reads the changes of one snapshot
after the other:

    scan mode              starts with
    default                latest-full; from-snapshot or from-timestamp if a snapshot id or timestamp is given
    latest-full            the rows of the newest snapshot, then changes; without a snapshot yet: all changes
    latest                 changes after the newest snapshot
    from-snapshot          changes of snapshot N, which may not exist yet
    from-snapshot-full     the rows of snapshot N, which may not exist yet, then changes
    from-timestamp         changes of the first snapshot that is kept and was committed at that time or later

A consumer with progress continues there, whatever the mode (as in Paimon). An `Offset` is the position of a stream,
which may be inside a snapshot: limits end batches between splits, which have a fixed order. Raises InvalidError for an
invalid mode or offset, for a mode without its argument, and for an offset that the table cannot have (`check_offset`).

Batches of at most 25 rows of a stream that begins with the rows of snapshot 7, in splits of 10
rows each; snapshot 8 changes nothing, 9 has splits of 5 and 100 rows, 10 one of a single row:

    from               to                 splits
    7 full, 0          7 full, 2          two of the rows
    7 full, 2          9, 1               the third of the rows, the first of snapshot 9
    9, 1               10, 0              the one of 100 rows, as it is the first of its batch
    10, 0              11, 0              one; 11 does not exist yet

So an offset and the snapshots determine the content of a batch. A repeated batch has the same
splits, which `pieces_between` computes from its two offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, NamedTuple

from widetable.arguments import LARGEST, flag, mapping, text, whole_number
from widetable.errors import InvalidError
from widetable.read.change_plan import ChangeSplit
from widetable.read.split import Split

DEFAULT: Final = "default"
LATEST_FULL: Final = "latest-full"
LATEST: Final = "latest"
FROM_SNAPSHOT: Final = "from-snapshot"
FROM_SNAPSHOT_FULL: Final = "from-snapshot-full"
FROM_TIMESTAMP: Final = "from-timestamp"
_NEEDS: Final[Mapping[str, str | None]] = {
    DEFAULT: None,
    LATEST_FULL: None,
    LATEST: None,
    FROM_SNAPSHOT: "snapshot id",
    FROM_SNAPSHOT_FULL: "snapshot id",
    FROM_TIMESTAMP: "timestamp",
}
SCAN_MODES: Final = tuple(_NEEDS)

# Stored in checkpoints of other programs: never change the meaning of a version. Version 1 has no `table` and no
# `awaited`; version 2 has no marks.
OFFSET_VERSION: Final = 3
_REQUIRED: Final = {"next_snapshot", "is_full", "position"}
_FIELDS: Final[Mapping[str, Callable[[Any, str], Any]]] = {
    "next_snapshot": partial(whole_number, least=1),
    "is_full": flag,
    "position": partial(whole_number, least=0),
    "watermark": whole_number,
    "barrier": whole_number,
    "table": text,
    "awaited": flag,
    "last_read": text,
    "partly_read": text,
}
_NOTHING: Final[Set[str]] = frozenset()
_NAMES: Final[Mapping[int, Set[str]]] = {
    1: _FIELDS.keys() - {"table", "awaited", "last_read", "partly_read"},
    2: _FIELDS.keys() - {"last_read", "partly_read"},
    3: _FIELDS.keys(),
}


@dataclass(frozen=True)
class Start:
    """The start of a new stream. `start_of` makes it.

    Attributes
    ----------
    mode : str
        A scan mode, but not `default`.
    snapshot_id, timestamp_millis : int or None
        What the mode needs.
    """

    mode: str
    snapshot_id: int | None = None
    timestamp_millis: int | None = None


def start_of(mode: str, snapshot_id: int | None, timestamp_millis: int | None) -> Start:
    """Check where a new stream starts, and resolve the mode `default`.

    Parameters
    ----------
    mode : str
        The mode.
    snapshot_id : int or None
        The snapshot, for modes that need one.
    timestamp_millis : int or None
        Epoch milliseconds, for modes that need a time.

    Returns
    -------
    Start
        The start.

    Raises
    ------
    InvalidError
        The mode is unknown, or the arguments do not fit it.
    """
    if snapshot_id is not None:
        snapshot_id = whole_number(snapshot_id, "snapshot id", least=1, most=LARGEST - 1)
    if text(mode, "scan mode") not in SCAN_MODES:
        raise _invalid("scan mode", repr(mode), f"one of {', '.join(SCAN_MODES)}")
    if mode == DEFAULT and snapshot_id is not None:
        mode = FROM_SNAPSHOT
    elif mode == DEFAULT:
        mode = LATEST_FULL if timestamp_millis is None else FROM_TIMESTAMP
    for name, value in (("snapshot id", snapshot_id), ("timestamp", timestamp_millis)):
        if (value is not None) != (_NEEDS.get(mode) == name):
            problem = f"no {name}" if value is None else f"the {name} {value}"
            expected = f"a {name}" if value is None else f"no {name}"
            raise _invalid(f"scan mode {mode!r}", problem, expected)
    return Start(mode, snapshot_id, timestamp_millis)


@dataclass(frozen=True)
class Offset:
    """The position of a stream. next_snapshot: the first snapshot that is not completely read; `position` of its splits
    are read. is_full: its rows are read, not its changes.

    watermark: the largest one of the snapshots that are completely read, milliseconds. barrier: that of the last of
    them that has one (reserved: `widetable.barrier`). table: the identity of the table; None: written by a version
    without it. awaited: the user chose a start that the table had not reached; nothing is read yet.

    last_read: the mark (commit.snapshot_mark) of the snapshot before the next one; partly_read: that of the next one
    itself, if some of its splits are read. None: not known.
    """

    next_snapshot: int
    is_full: bool = False
    position: int = 0
    watermark: int | None = None
    barrier: int | None = None
    table: str | None = None
    awaited: bool = False
    last_read: str | None = None
    partly_read: str | None = None

    @property
    def marks(self) -> dict[int, str]:
        """The marks of snapshots by id that the table must still have, if the snapshots are kept."""
        marks = {self.next_snapshot - 1: self.last_read, self.next_snapshot: self.partly_read}
        return {id: mark for id, mark in marks.items() if mark is not None}

    def to_json(self) -> dict[str, Any]:
        """Return the values for a checkpoint, by name, without those that are None. The version is the lowest one that
        has them, so that an offset of an older version is not changed.
        """
        version = 1 if self.table is None else OFFSET_VERSION if self.marks else 2
        body = {"version": version, **vars(self), "awaited": self.awaited or None}
        return {key: value for key, value in body.items() if value is not None}


def offset_from_json(body: Mapping[str, Any]) -> Offset:
    """Return the offset of the JSON object of a checkpoint. Raise InvalidError for an object that is not an offset, or
    that a later version wrote.
    """
    fields = mapping(body, "stream offset")
    version = fields.pop("version", None)
    names = _NAMES.get(version, _NOTHING) if type(version) is int else _NOTHING
    if not _REQUIRED <= fields.keys() <= names:
        raise _invalid(
            "stream offset",
            f"version {version!r} with {', '.join(sorted(fields))}",
            f"version {OFFSET_VERSION} or an earlier one",
            "Use the version of widetable that wrote the checkpoint, or start with a new checkpoint.",
        )
    return Offset(
        **{name: _FIELDS[name](each, f"{name} of a stream offset") for name, each in fields.items()}
    )


def check_offset(offset: Offset, table: str, newest: int | None, path: str) -> None:
    """Raise InvalidError for an offset of another table, and for one past the newest snapshot.

    table: the table's identity; newest: its newest snapshot. The snapshots that such a stream has read are gone; if it
    continued it would skip the present ones. The offset right after the newest snapshot is that of a stream that has
    read all; a later one may only be an awaited start.
    """
    subject = f"offset of a stream at snapshot {offset.next_snapshot} of {path}"
    if offset.table not in (None, table):
        raise _invalid(
            subject,
            f"an offset of the table {offset.table}; the present table is {table}",
            "an offset of the same table: it was dropped and made again at this path since",
            "Start again from the beginning, with a new checkpoint and a new consumer id.",
        )
    if not offset.awaited and offset.next_snapshot > (newest or 0) + 1:
        raise _invalid(
            subject,
            f"an offset past the newest snapshot, {newest}"
            if newest
            else "an offset in a table without snapshots",
            f"{(newest or 0) + 1} at most: a rollback, or a table that was made again, has removed the snapshots "
            "that were read",
            "Restore the snapshots, or start again with a new checkpoint and a new consumer id.",
        )


def check_marks(offset: Offset, kept_marks: Mapping[int, str], path: str) -> None:
    """Raise InvalidError if the table has another snapshot with an id that the stream has read: since then it was taken
    back to an older state and written again. kept_marks: those of kept snapshots that `offset.marks` names.
    """
    for id, mark in offset.marks.items():
        if id in kept_marks and kept_marks[id] != mark:
            raise _invalid(
                f"offset of a stream at snapshot {offset.next_snapshot} of {path}",
                f"another snapshot {id} ({kept_marks[id]}) than the one that was read ({mark})",
                "the snapshots that were read: the table was taken back to an older state and written again since",
                "Restore the snapshots, or start again with a new checkpoint and a new consumer id.",
            )


def went_back(snapshot_id: int, target: str, path: str) -> InvalidError:
    """Create the error for a stream at a rollback, a snapshot that restores the rows of an older one. No changes tell
    which rows were removed, so a follower would keep them. target: the older snapshot.
    """
    return _invalid(
        f"stream at snapshot {snapshot_id} of {path}",
        f"a rollback to snapshot {target}: it removed rows that the stream has returned, and no changes tell which",
        "changes that apply to the rows that were read",
        "Start again with a new checkpoint or consumer id: with the present rows (scan mode latest-full), or, if "
        f"removed rows may stay downstream, from snapshot {snapshot_id + 1} on (scan mode from-snapshot).",
    )


def range_went_back(step: Step, path: str) -> InvalidError:
    """Create the error for a range of changes with a rollback: the changes do not add up to the rows at its end."""
    id = step.snapshot_id
    return _invalid(
        f"changes of {path}",
        f"snapshot {id} in the range, a rollback: it removed earlier rows, and no changes tell which",
        f"a range that ends before snapshot {id}, or begins after it",
        f"Choose the mode 'diff', which compares both ends, or two ranges: up to {id - 1}, and after {id}. The mode "
        "'delta' returns all records that were written, also those that the rollback removed.",
    )


def check_step(step: Step) -> None:
    """Raise the refusal of a step, if it has one."""
    if step.refusal is not None:
        raise step.refusal


class Kept(NamedTuple):
    """The first and the last id of the kept snapshots; both None for a table without snapshots."""

    first: int | None
    last: int | None


def first_offset(
    start: Start, kept: Kept, consumer_next: int | None, first_at_time: int | None
) -> Offset:
    """Return the first offset of a new stream.

    consumer_next: the progress of its consumer. first_at_time: for `from-timestamp`, the first snapshot of that time or
    later, None if there is none yet. With snapshots 3 to 9:

        default                               9, full
        latest                                10
        from-timestamp, a future time         10
        from-snapshot-full 20                 20, full, awaited
        any, its consumer at 4                4, never full: the consumer has read rows before
    """
    after_last = 1 if kept.last is None else kept.last + 1
    if consumer_next is not None:
        return Offset(consumer_next)
    if start.mode == LATEST_FULL:
        return Offset(1) if kept.last is None else Offset(kept.last, is_full=True)
    if start.mode == FROM_TIMESTAMP:
        return Offset(after_last if first_at_time is None else first_at_time)
    if start.snapshot_id is None:
        return Offset(after_last)
    is_full, awaited = start.mode == FROM_SNAPSHOT_FULL, start.snapshot_id > after_last
    return Offset(start.snapshot_id, is_full=is_full, awaited=awaited)


@dataclass(frozen=True)
class Step:
    """One snapshot of a stream: its rows (is_full) or its changes, in splits of a fixed order. mark: that of the
    snapshot. refusal: the error for a stream that would read it (`went_back`).
    """

    snapshot_id: int
    is_full: bool
    splits: Sequence[ChangeSplit | Split]
    watermark: int | None = None
    barrier: int | None = None
    mark: str | None = None
    refusal: InvalidError | None = None


@dataclass(frozen=True)
class Limits:
    """The limits of one batch, of which the first split is taken whatever its size.

    Attributes
    ----------
    snapshots, rows, bytes, files : int or None
        The most snapshots with splits, rows and bytes of their files, and files. None: unlimited.
    """

    snapshots: int | None = None
    rows: int | None = None
    bytes: int | None = None
    files: int | None = None


class Advance(NamedTuple):
    """The end of a batch, and its number of splits."""

    offset: Offset
    splits: int


def advance(
    offset: Offset, step_of: Callable[[int, bool], Step], last: int | None, limits: Limits
) -> Advance:
    """Decide how far one batch of a stream goes.

    Snapshots without splits cost no limit: a stream passes all compactions of a table without a producer at once. A
    refused step is raised when it comes next; what is before it is a batch of its own.

    Parameters
    ----------
    offset : Offset
        Where the stream is.
    step_of : callable
        (snapshot id, is_full) to the step of that snapshot; called as far as needed.
    last : int or None
        The newest snapshot. None: there is none.
    limits : Limits
        What the batch may hold.

    Returns
    -------
    Advance
        How far the batch goes.
    """
    used = _Used(limits)
    while last is not None and offset.next_snapshot <= last:
        step = step_of(offset.next_snapshot, offset.is_full)
        if step.refusal is not None and used.splits:
            break
        check_step(step)
        if step.splits[offset.position :] and not used.takes_snapshot():
            break
        position = offset.position
        while position < len(step.splits) and used.takes(step.splits[position]):
            position += 1
        if position < len(step.splits):
            partly_read = step.mark if position else None
            offset = replace(offset, position=position, partly_read=partly_read)
            break
        offset = after(step, offset)
    return Advance(offset, used.splits)


def after(step: Step, offset: Offset) -> Offset:
    """Return the offset of a stream that has read the whole step."""
    return Offset(
        step.snapshot_id + 1,
        table=offset.table,
        watermark=max(
            (w for w in (offset.watermark, step.watermark) if w is not None), default=None
        ),
        barrier=offset.barrier if step.barrier is None else step.barrier,
        last_read=step.mark,
    )


class Piece(NamedTuple):
    """The splits `first` to `end` - 1 of a step."""

    step: Step
    first: int
    end: int


def pieces_between(start: Offset, end: Offset, step_of: Callable[[int, bool], Step]) -> list[Piece]:
    """Return what lies between two offsets of one stream, in order; nothing for equal offsets. The rows of a snapshot
    come before the changes of the same number. step_of: as in `advance`.
    """
    pieces = []
    at = start
    while (at.next_snapshot, not at.is_full) < (end.next_snapshot, not end.is_full):
        step = step_of(at.next_snapshot, at.is_full)
        check_step(step)
        pieces.append(Piece(step, at.position, len(step.splits)))
        at = after(step, at)
    if at.position < end.position:
        step = step_of(at.next_snapshot, at.is_full)
        pieces.append(Piece(step, at.position, end.position))
    return [piece for piece in pieces if piece.first < piece.end]


class _Used:
    """Counts the content of a batch."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._rows = self._bytes = self._files = self._snapshots = 0
        self.splits = 0

    def takes_snapshot(self) -> bool:
        if self._limits.snapshots is not None and self._snapshots >= self._limits.snapshots:
            return False
        self._snapshots += 1
        return True

    def takes(self, split: ChangeSplit | Split) -> bool:
        """Count a split and return True, if it fits or is the first."""
        limits = self._limits
        rows = self._rows + sum(file.row_count for file in split.files)
        size = self._bytes + sum(file.file_size for file in split.files)
        files = self._files + len(split.files)
        counts = ((rows, limits.rows), (size, limits.bytes), (files, limits.files))
        if self.splits and any(limit is not None and count > limit for count, limit in counts):
            return False
        self._rows, self._bytes, self._files = rows, size, files
        self.splits += 1
        return True


def _invalid(
    subject: str, problem: str, expected: str, action: str = "Correct the choice."
) -> InvalidError:
    return InvalidError(subject, found=problem, expected=expected, action=action)
