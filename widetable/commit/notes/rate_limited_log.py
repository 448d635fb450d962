"""Warnings that would come with every commit: said once of a subject, then not for some minutes."""

from __future__ import annotations

import logging
import time
from typing import Final

from widetable.messages.warning_code import WarningCode, warn

_SILENT_SECONDS: Final = 300.0
_log = logging.getLogger("widetable")


class Seldom:
    """Of one process. Thread-safe: two threads at worst say it twice. silent_seconds: how long not again."""

    def __init__(self, silent_seconds: float = _SILENT_SECONDS) -> None:
        self._silent_seconds = silent_seconds
        self._warned_at: dict[str, float] = {}

    def is_due(self, subject: str) -> bool:
        """Whether a warning about the subject would be said now."""
        warned_at = self._warned_at.get(subject)
        return warned_at is None or time.monotonic() - warned_at >= self._silent_seconds

    def note(self, subject: str) -> None:
        """It is said, or looked at, now."""
        self._warned_at[subject] = time.monotonic()

    def warn(self, code: WarningCode, subject: str, message: str) -> None:
        """Say it, if it is due. subject: begins the line."""
        if self.is_due(subject):
            self.note(subject)
            warn(_log, code, "%s: %s", subject, message)
