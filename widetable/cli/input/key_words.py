"""A key on the command line: `user=7 day=2026-01-31`, or `7` if the key is one column.

In: words, the schema. Out: an Arrow table of one row. Values have the form in which rows are printed and written
(format/parsed_text.py). Raises InvalidError for words that are no value of the column; the caller checks whether the
key is complete.

    key                    words                      row
    user, day              user=7 day=2026-01-31      (7, 2026-01-31)
    id, one column         7                          (7)
    name, one column       x=1                        ("x=1"): there is no column x
    name, one column       name=x=1                   ("x=1"): a value goes from the first = to the end
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from widetable.acceptance.acceptance import Use, accept
from widetable.arguments import text
from widetable.errors import InvalidError
from widetable.format.parsed_text import parsed_texts
from widetable.schema.table_schema import TableSchema


def key_of_words(words: Sequence[str], schema: TableSchema) -> pa.Table:
    """Return the key; its columns are in the order of the words."""
    accept(schema, Use.LOOK_UP)
    return _row_of(words, schema, schema.primary_keys, "KEY")


def partition_of_words(words: Sequence[str], schema: TableSchema) -> pa.Table:
    """Return the partition that the words name, as `key_of_words` does for keys."""
    return _row_of(words, schema, schema.partition_keys, "--partition")


# subject: the argument, for messages. names: columns that may be given, each at most once.
def _row_of(
    words: Sequence[str], schema: TableSchema, names: Sequence[str], subject: str
) -> pa.Table:
    # If there is one word for one column, it may be the value alone.
    pairs = [word.partition("=") for word in words]
    if len(words) == len(names) == 1 and pairs[0][0] not in names:
        pairs = [(names[0], "=", words[0])]
    key: dict[str, pa.Array] = {}
    for name, sign, word in pairs:
        if not sign or name not in names or name in key:
            what = f"the column {name!r}" if sign else f"{name!r} without a column name"
            raise InvalidError(
                subject,
                found=what + (" twice" if sign and name in key else ""),
                expected=f"a value for each of {', '.join(names)}, as in {''.join(names[:1]) or 'no'}=7",
                action=f"Correct {subject}."
                if names
                else "Omit it: the table has no such columns.",
            )
        key[name] = _value(word, schema, name, "Correct the key.")
    return pa.table(key)


def values_of_words(pairs: Mapping[str, str], schema: TableSchema) -> dict[str, Any]:
    """Return the values of columns that are given as texts, in the form in which rows are printed."""
    return {
        name: _value(word, schema, name, "Correct the value.")[0].as_py()
        for name, word in pairs.items()
    }


def _value(word: str, schema: TableSchema, name: str, action: str) -> pa.Array:
    """Return the value of a word. An error is raised again with the typed word, because the parser knows neither column
    nor argument.
    """
    kind = schema.field(name).type
    try:
        return parsed_texts(pa.array([text(word, name)], pa.string()), kind)
    except InvalidError as cause:
        raise InvalidError(
            f"column {name!r}", found=repr(word), expected=cause.expected, action=action
        ) from cause
