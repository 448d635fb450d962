"""The word by which a command names one moment of a table: a snapshot's id, or a tag.

    120                 snapshot 120; refused if a tag has that name, too
    january             the tag
    tag:20240129        the tag; its name may have only digits, as names of automatic tags and of other clients do
    snapshot:20240129   the snapshot, whatever tags exist

Raises InvalidError for an ambiguous word, and for an id that is no number.
"""

from __future__ import annotations

from typing import Final

from widetable.errors import InvalidError
from widetable.table import Table

_TAG: Final = "tag:"
_SNAPSHOT: Final = "snapshot:"
# The digits of the largest id, 2**63 - 1. A longer number is a tag's name.
_ID_DIGITS: Final = 19
FORMS: Final = f"a snapshot's id, a tag, {_SNAPSHOT}ID or {_TAG}NAME"


def snapshot_or_tag(word: str, name: str, table: Table) -> int | str:
    """Return an id as a number, or a tag's name as text; it need not exist. name: the argument, for messages."""
    if word.startswith(_TAG):
        return word.removeprefix(_TAG)
    if word.startswith(_SNAPSHOT):
        digits = word.removeprefix(_SNAPSHOT)
        if _is_id(digits):
            return int(digits)
        raise InvalidError(
            name, found=repr(word), expected=FORMS, action="Write the id as a number."
        )
    if not _is_id(word):
        return word
    if word in table._tags.names():
        raise InvalidError(
            name,
            found=f"{word!r}, which is a tag's name and may be a snapshot's id",
            expected="an unambiguous word",
            action=f"Write {_TAG}{word} or {_SNAPSHOT}{word}.",
        )
    return int(word)


def barrier_or_text(word: str) -> int | str:
    """Return an end of the mode `barrier`: a barrier as a number, or the text, which the table then refuses."""
    return int(word) if _is_id(word) else word


def _is_id(word: str) -> bool:
    return word.isascii() and word.isdecimal() and len(word) <= _ID_DIGITS
