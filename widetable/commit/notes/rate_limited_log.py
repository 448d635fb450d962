"""A log for warnings that would recur with every commit: once for a subject, then not again for some minutes."""

from __future__ import annotations

import logging
import time
from typing import Final

from widetable.messages.warning_code import WarningCode, warn

_SILENT_SECONDS: Final = 300.0
_log = logging.getLogger("widetable")


class RateLimitedLog:
    """The rate limit of one process. Thread-safe: at worst two threads log the same warning.

    silent_seconds: the time before a warning about the same subject is logged again.
    """

    def __init__(self, silent_seconds: float = _SILENT_SECONDS) -> None:
        self._silent_seconds = silent_seconds
        self._warned_at: dict[str, float] = {}

    def is_due(self, subject: str) -> bool:
        """Return whether a warning about the subject would be logged now."""
        warned_at = self._warned_at.get(subject)
        return warned_at is None or time.monotonic() - warned_at >= self._silent_seconds

    def note(self, subject: str) -> None:
        """Record that the subject is logged or checked now."""
        self._warned_at[subject] = time.monotonic()

    def warn(self, code: WarningCode, subject: str, message: str) -> None:
        """Log the warning if it is due. subject: begins the line."""
        if self.is_due(subject):
            self.note(subject)
            warn(_log, code, "%s: %s", subject, message)
