"""How long a commit waits after a lost race, and after how many lost races it fails. Pure."""

from __future__ import annotations

from typing import Final

from widetable.commit.transaction.attempts import Attempts
from widetable.commit.transaction.commit_request import Append, Compact
from widetable.errors import ConflictError
from widetable.messages.error_code import ErrorCode
from widetable.schema import options as opt
from widetable.schema.options import TableOptions

_FIRST_WAIT_MILLIS: Final = 1.0
LONGEST_WAIT_MILLIS: Final = 100.0  # the first wait doubles with each lost race, up to this


def longest_wait_millis(
    run: Attempts, elapsed_millis: float, options: TableOptions, path: str
) -> float:
    """Return the longest wait before the next attempt. Raises ConflictError after the timeout, and for an overwrite
    that has lost too often.
    """
    timeout_millis = options.get(opt.COMMIT_TIMEOUT)
    too_late = timeout_millis is not None and elapsed_millis >= timeout_millis
    is_overwrite = not isinstance(run.request, Append | Compact)
    if too_late or (is_overwrite and run.retries > options.get(opt.COMMIT_MAX_RETRIES)):
        raise ConflictError(
            path,
            found=f"{run.retries} lost races in {elapsed_millis:.0f} ms",
            expected="one attempt that wins its race",
            action="Commit again with the same user and identifier, or raise commit.timeout or commit.max-retries.",
            code=ErrorCode.RETRIES_EXHAUSTED,
        )
    doubled: float = _FIRST_WAIT_MILLIS * 2 ** min(run.retries, 10)
    return min(LONGEST_WAIT_MILLIS, doubled)
