"""Writes a number and the noun that it counts, in the singular or the plural. Pure; raises nothing.

counted(1, "row")                                         1 row
counted(2, "level-0 file")                                2 level-0 files
counted(1, "file comes back", "files come back")          1 file comes back
counted(1500, "row", form=",")                            1,500 rows
"""

from __future__ import annotations


def counted(count: int, noun: str, plural: str | None = None, form: str = "") -> str:
    """Write a number and its noun.

    Parameters
    ----------
    count : int
        The number.
    noun : str
        The singular, with the verb if one follows.
    plural : str, default None
        The plural. None: the noun and an s.
    form : str, default ""
        The format of the number, as `format` takes it.

    Returns
    -------
    str
        The text.
    """
    return f"{count:{form}} {noun if count == 1 else plural or f'{noun}s'}"
