"""The known word that a misspelt one is most like, for messages. Raises nothing; imports little, as the CLI does."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A question for the end of a message, with a space before it: the word that is spelt most like it, if one is."""
    close = get_close_matches(word, list(known), 1)
    return f" Did you mean {close[0]}?" if close else ""
