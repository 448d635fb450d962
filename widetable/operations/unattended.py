"""Level-0 files that nobody moves up, so that a changelog does not go on: when to say so, and what.

A `write-only` table with a changelog producer that works in compactions needs a maintainer (`widetable maintain`, or
another client's compaction job). Ours hold the compaction lease for as long as they run, others show by their COMPACT
snapshots. Raises nothing: it is logged on the way of an append.

    level-0 files   commits since the last compaction   oldest file    lease held   said
    2               2                                   -              no           nothing: one may be due next
    3               3                                   -              no           the warning
    1               1, none among those looked at       -              no           the warning
    1               1                                   61 s           no           the warning
    any             any                                 any            yes          nothing
"""

from __future__ import annotations

import logging
import shlex
from dataclasses import dataclass
from typing import Final

from widetable import options as opt
from widetable.commit.committer import Committer
from widetable.commit.lease import holder
from widetable.commit.seldom import Seldom
from widetable.errors import WidetableError
from widetable.format.snapshot import COMMIT_KIND_COMPACT
from widetable.options import TableOptions
from widetable.warning_code import WarningCode, warn
from widetable.write.table_state import TableState

# Which changelogs come of compactions, and what moves their level-0 files up.
MADE_BY_COMPACTION: Final = ("lookup", "full-compaction")
# So many commits, or so much time, without a compaction are what a maintainer lets pass at most.
_PATIENT_COMMITS: Final = 3
_PATIENT_MILLIS: Final = 60_000
# How far back an append looks for a compaction.
_LOOKS_BACK: Final = 8
_log = logging.getLogger("widetable")
_SELDOM: Final = Seldom()


@dataclass(frozen=True)
class Waiting:
    """files: in level 0; where it is not known, a lower bound. commits: since the last compaction.

    was_compacted: whether one is among the snapshots looked at. oldest_age_millis: of the files, None: unknown.
    """

    files: int
    commits: int
    was_compacted: bool
    oldest_age_millis: int | None = None


def unattended_warning(
    path: str, options: TableOptions, waiting: Waiting, *, is_leased: bool
) -> str | None:
    """What to say of a table whose level-0 files nobody moves up; None when there is nothing to say.

    is_leased: somebody has the compaction lease. Pure.
    """
    producer = options.get(opt.CHANGELOG_PRODUCER)
    needs_somebody = options.get(opt.WRITE_ONLY) and producer in MADE_BY_COMPACTION
    if not needs_somebody or is_leased or not waiting.files:
        return None
    is_patient = (
        waiting.was_compacted
        and waiting.commits < _PATIENT_COMMITS
        and (waiting.oldest_age_millis or 0) < _PATIENT_MILLIS
    )
    if is_patient:
        return None
    return (
        f"write-only table with changelog-producer={producer} and {waiting.files} level-0 files "
        f"that nobody moves up: run widetable maintain {shlex.quote(path)}"
    )


def warn_unattended(state: TableState, committer: Committer, new_files: int) -> None:
    """Say in the log, after an append of so many files, that nobody moves them up. A few small reads, seldom.
    None while a warning of this table was said not long ago, and none for a producer that needs no
    compaction.
    """
    path = state.paths.root
    if not new_files or state.options.get(opt.CHANGELOG_PRODUCER) not in MADE_BY_COMPACTION:
        return
    if not _SELDOM.is_due(path):
        return
    try:
        is_leased = holder(state.file_io, state.paths) is not None
        # With a lease nothing is said whatever waits: no snapshots are read.
        waiting = Waiting(0, 0, True) if is_leased else _waiting(committer, new_files)
    except WidetableError:
        _log.debug("it is not known whether anybody compacts %s", path, exc_info=True)
        return
    except Exception:  # noqa: BLE001
        warn(
            _log,
            WarningCode.MAINTAINER_UNKNOWN,
            "it is not known whether anybody compacts %s",
            path,
            level=logging.ERROR,
            exc_info=True,
        )
        return
    warning = unattended_warning(path, state.options, waiting, is_leased=is_leased)
    if warning is not None:
        _SELDOM.warn(WarningCode.NO_MAINTAINER, path, warning)


def _waiting(committer: Committer, new_files: int) -> Waiting:
    """By the last few snapshots: each commit with records leaves one file at least; one of a barrier may have none."""
    latest_id = committer.snapshots.latest_id() or 0
    commits = 0
    for id in range(latest_id, max(latest_id - _LOOKS_BACK, 0), -1):
        snapshot = committer.snapshots.load(id)
        if snapshot.commit_kind == COMMIT_KIND_COMPACT:
            return Waiting(max(new_files, commits), commits, True)
        commits += bool(snapshot.delta_record_count)
    return Waiting(max(new_files, commits), commits, False)
