"""Numbers of things as people read them: one place for the word behind a number. Pure; raises nothing.

counted(1, "row")                                         1 row
counted(2, "level-0 file")                                2 level-0 files
counted(1, "file comes back", "files come back")          1 file comes back
counted(1500, "row", form=",")                            1,500 rows
"""

from __future__ import annotations


def counted(count: int, noun: str, plural: str | None = None, form: str = "") -> str:
    """A number and what it counts. noun: in the singular, with a verb behind it where one follows the number; plural:
    where it is not the noun with an s. form: of the number, as `format` takes it.
    """
    return f"{count:{form}} {noun if count == 1 else plural or f'{noun}s'}"
