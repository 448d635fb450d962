"""The warnings of a commit, at a limited rate; the commit proceeds. Raises nothing."""

from __future__ import annotations

from typing import Final

from widetable.commit.notes.rate_limited_log import RateLimitedLog
from widetable.commit.snapshots.committed import MANY_USERS, MAX_USERS
from widetable.commit.snapshots.snapshot_times import is_ahead
from widetable.format.snapshot import Snapshot
from widetable.messages.counted import counted
from widetable.messages.warning_code import WarningCode
from widetable.schema.retention_options import COMMIT_USER_RETENTION

# Two rate limits, so that one warning of a table does not suppress the other.
_MANY_WARNINGS: Final = RateLimitedLog()
_AHEAD_WARNINGS: Final = RateLimitedLog()


def warn_of_many_users(root: str, users: int) -> None:
    """Warn if the newest snapshot records many commit users. users: their number. root: of the table."""
    if users >= MANY_USERS:
        _MANY_WARNINGS.warn(
            WarningCode.MANY_USERS,
            root,
            f"every snapshot records the last commits of {counted(users, 'commit user')}; above {MAX_USERS}, users are "
            f"forgotten that have not committed for {COMMIT_USER_RETENTION.key}: let a job keep its commit "
            "user, instead of using a new one in every run",
        )


def warn_of_clock(root: str, latest: Snapshot, now_millis: int) -> None:
    """Warn if `latest` is ahead of the clock. now_millis: of the machine that commits after `latest`."""
    if is_ahead(latest.time_millis, now_millis):
        _AHEAD_WARNINGS.warn(
            WarningCode.CLOCK_AHEAD,
            root,
            f"snapshot {latest.id}, of the user {latest.commit_user!r}, is "
            f"{(latest.time_millis - now_millis) // 1000} s ahead of this machine's clock, whose time is used: "
            "correct the clock of one of the two machines",
        )
