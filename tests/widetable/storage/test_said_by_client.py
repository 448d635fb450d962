"""What is said of a client's error: no secrets, in it and in those that led to it; others stay as they were."""

from __future__ import annotations

import traceback

import pytest

from widetable.storage.said_by_client import said_without_secrets

SECRET = "my+secret/word"


class SaysAnAttribute(Exception):
    """As Azure's, whose text is that of the answer."""

    def __init__(self, answer: str) -> None:
        super().__init__("refused")
        self.answer = answer

    def __str__(self) -> str:
        return f"refused: {self.answer}"


@pytest.mark.parametrize(
    "error",
    [
        ValueError(f"no {SECRET}"),
        PermissionError(13, f"no {SECRET}"),
        PermissionError(f"no {SECRET}"),
        ValueError("no my%2Bsecret%2fword"),
        SaysAnAttribute(SECRET),
        ValueError("x", {"key": SECRET}),
    ],
)
def test_neither_the_text_nor_a_traceback_has_a_secret(error: Exception) -> None:
    users = KeyError("user", 7)
    outer = RuntimeError("outer")
    outer.__cause__, error.__context__ = error, users
    for cause in (error, outer, outer):  # twice: what was hidden may be part of another chain
        said = said_without_secrets(cause, [SECRET])
        shown = said + repr(cause) + "".join(traceback.format_exception(outer))
        assert "secret" not in shown.lower()
    assert users.args == ("user", 7)
