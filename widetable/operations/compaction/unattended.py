"""Warns of level-0 files that no one compacts, so that the changelog does not continue.

A `write-only` table with a changelog producer that works in compactions needs a maintainer (`widetable maintain`, or
another client's compaction job), and so does a table with postponed buckets, whose rows nobody reads before. Ours hold
the compaction lease for as long as they run, others show by their COMPACT snapshots. Raises nothing: an append logs
the warning, and its own snapshot tells how many commits wait and since when (`uncompacted`). It reads nothing until
there is a backlog, then the lease, once a minute.

    level-0 files   commits since the last compaction   oldest file    lease held   logged
    2               2                                   -              no           nothing: one may be due next
    3               3                                   -              no           the warning
    1               1                                   61 s           no           the warning
    any             any                                 any            yes          nothing
"""

from __future__ import annotations

import logging
import shlex
from dataclasses import dataclass
from typing import Final

from widetable.commit.notes.lease import holder
from widetable.commit.notes.rate_limited_log import RateLimitedLog
from widetable.commit.snapshots.uncompacted import needs_a_maintainer, uncompacted
from widetable.commit.transaction.committer import Committer
from widetable.errors import WidetableError
from widetable.format.snapshot import Snapshot
from widetable.messages.counted import counted
from widetable.messages.warning_code import WarningCode, warn
from widetable.schema import options as opt
from widetable.schema.options import TableOptions
from widetable.storage.paths import POSTPONED
from widetable.write.table_state import TableState

# The most commits, or time, that pass without a compaction where a maintainer runs.
_PATIENT_COMMITS: Final = 3
_PATIENT_MILLIS: Final = 60_000
_log = logging.getLogger("widetable")
_RATE_LIMITED: Final = RateLimitedLog()
_LEASES: Final = RateLimitedLog(_PATIENT_MILLIS / 1000)


@dataclass(frozen=True)
class Waiting:
    """The files that wait. files: those in level 0, a lower bound where it is unknown. commits: those since the last
    compaction.

    oldest_age_millis: the age of the oldest file, None: unknown.
    """

    files: int
    commits: int
    oldest_age_millis: int | None = None


def unattended_warning(
    path: str, options: TableOptions, waiting: Waiting, *, is_leased: bool
) -> str | None:
    """Return the warning about a table whose level-0 files no one compacts, or None.

    is_leased: whether some process has the compaction lease. Pure.
    """
    if not needs_a_maintainer(options) or is_leased or not waiting.files:
        return None
    is_patient = (
        waiting.commits < _PATIENT_COMMITS and (waiting.oldest_age_millis or 0) < _PATIENT_MILLIS
    )
    if is_patient:
        return None
    if options.get(opt.BUCKET) == POSTPONED:
        kind = "table with postponed buckets"
        files = counted(waiting.files, "file of waiting rows", "files of waiting rows")
    else:
        kind = f"write-only table with changelog-producer={options.get(opt.CHANGELOG_PRODUCER)}"
        files = counted(waiting.files, "level-0 file")
    advice = f"run widetable maintain {shlex.quote(path)}"
    return f"{kind} and {files} that no one compacts: {advice}"


def warn_unattended(state: TableState, committer: Committer, new_files: int) -> None:
    """Log, after an append of so many files, that no one compacts them.

    The table is not checked for a while after its last warning.
    """
    path, waiting = state.paths.root, _waiting(committer.last_published, new_files)
    warning = unattended_warning(path, state.options, waiting, is_leased=False)
    if warning is None or not (_RATE_LIMITED.is_due(path) and _LEASES.is_due(path)):
        return
    _LEASES.note(path)
    try:
        is_leased = holder(state.file_io, state.paths) is not None
    except WidetableError:
        _log.debug("it is not known whether any process compacts %s", path, exc_info=True)
        return
    except Exception:  # noqa: BLE001
        text, level = "it is not known whether any process compacts %s", logging.ERROR
        warn(_log, WarningCode.MAINTAINER_UNKNOWN, text, path, level=level, exc_info=True)
        return
    if not is_leased:
        _RATE_LIMITED.warn(WarningCode.NO_MAINTAINER, path, warning)


def _waiting(published: Snapshot | None, new_files: int) -> Waiting:
    """Return what waits; each commit with records leaves at least one file."""
    pending = None if published is None or not new_files else uncompacted(published)
    if published is None or pending is None:
        return Waiting(0, 0)
    age_millis = published.time_millis - pending.began_millis
    return Waiting(max(new_files, pending.commits), pending.commits, age_millis)
