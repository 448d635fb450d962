"""Suggests the valid word nearest to a misspelt one, for messages. Raises nothing; imports little, for the CLI."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Write a question for the end of a message.

    Parameters
    ----------
    word : str
        The unknown word.
    known : list of str
        The known words.

    Returns
    -------
    str
        A space and the question with the most similar word; "" where none is similar.
    """
    close = get_close_matches(word, list(known), 1)
    return f" Did you mean {close[0]}?" if close else ""
