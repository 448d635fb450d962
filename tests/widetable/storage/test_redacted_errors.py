"""What is said of a client's error: no secrets, in it and in those that led to it; others stay as they were."""

from __future__ import annotations

import traceback
from html import escape
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from widetable.storage.remote.redacted_errors import redacted_message

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
        ValueError("no my+secret%2Fword"),
        SaysAnAttribute(SECRET),
        ValueError("x", {"key": SECRET}),
    ],
)
def test_neither_the_text_nor_a_traceback_has_a_secret(error: Exception) -> None:
    users = KeyError("user", 7)
    outer = RuntimeError("outer")
    outer.__cause__, error.__context__ = error, users
    for cause in (error, outer, outer):  # twice: what was hidden may be part of another chain
        said = redacted_message(cause, [SECRET])
        shown = said + repr(cause) + "".join(traceback.format_exception(outer))
        assert "secret" not in shown.lower()
    assert users.args == ("user", 7)


def _written(char: str) -> tuple[str, ...]:
    """As stores, proxies and browsers write it."""
    encoded = "".join(f"%{byte:02X}" for byte in char.encode())
    numbers = f"&#{ord(char)};", f"&#x{ord(char):X};"
    return (char, encoded, encoded.lower(), escape(char), *numbers, quote_plus(char))


@given(st.data())
def test_a_secret_is_hidden_whichever_of_its_characters_are_encoded(data: st.DataObject) -> None:
    secret = data.draw(st.text("ab+/=&<>\"' %2;#ü€", min_size=4))
    written = "".join(data.draw(st.sampled_from(_written(char))) for char in secret)
    assert redacted_message(ValueError(f"[{written}]"), [secret]) == "[***]"


def test_long_secrets_are_hidden_and_what_is_nearly_one_is_not() -> None:
    key = "%25" * 1000 + "+"
    near = key[:-1] + "-"
    assert redacted_message(ValueError(near), [key]) == near[:300]
    assert redacted_message(ValueError(quote(key)), [key]) == "***"
