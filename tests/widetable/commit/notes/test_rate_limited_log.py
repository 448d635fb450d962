"""Warnings that would come with every commit."""

from __future__ import annotations

import pytest

from widetable.commit.notes.rate_limited_log import RateLimitedLog
from widetable.messages.warning_code import WarningCode


def test_the_same_is_said_once_in_a_while(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings = RateLimitedLog()
    for _ in range(3):
        warnings.warn(WarningCode.MANY_USERS, "/wh/a", "is slow")
        warnings.warn(WarningCode.MANY_USERS, "/wh/b", "is slow")
    assert [record.getMessage() for record in caplog.records] == [
        "WT-W102 /wh/a: is slow",
        "WT-W102 /wh/b: is slow",
    ]
    assert not warnings.is_due("/wh/a")
    assert warnings.is_due("/wh/c")
    monkeypatch.setattr(warnings, "_silent_seconds", 0.0)
    warnings.warn(WarningCode.MANY_USERS, "/wh/a", "is still slow")
    assert caplog.records[-1].getMessage() == "WT-W102 /wh/a: is still slow"
