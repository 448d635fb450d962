"""Suggests the valid word nearest to a misspelt one, for messages. Raises nothing; imports little, for the CLI."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """Return a question for the end of a message, with a space before it; "" if no choice is spelt alike."""
    close = get_close_matches(word, list(choices), 1)
    return f" Did you mean {close[0]}?" if close else ""
