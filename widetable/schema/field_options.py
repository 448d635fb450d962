"""Parses options of columns: `fields.<columns>.<what>`, `index.<columns>`, `widen.<column>`; without a schema.

Source: Paimon `CoreOptions`; semantics of each in `merge/`. Names are not trimmed, as Paimon does not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

# columns is greedy: in `fields.a.b.aggregate-function` it is `a.b`, and `what` has no dot.
FIELD_OPTION: Final = re.compile(r"^fields\.(?P<columns>.+)\.(?P<what>[^.]+)$")
# The valid last parts of `fields.<columns>.<what>`; `merge/aggregate_function.py` reads most of them.
FIELD_WORDS: Final = frozenset(
    [
        "sequence-group",
        "aggregate-function",
        "ignore-retract",
        "distinct",
        "list-agg-delimiter",
        "nested-key",
        "nested-sequence-field",
        "nested-key-null-strategy",
        "count-limit",
        "ts-field",
    ]
)
# It has one dot only, and so not the form of an option of columns.
DEFAULT_FUNCTION_KEY: Final = "fields.default-aggregate-function"
# Parsed in `derived_options`. For index.city,zip `what` is `index`, and columns is `city,zip`. columns is greedy as
# well: a column's name may have dots.
DERIVED_OPTION: Final = re.compile(r"^(?P<what>index|widen)\.(?P<columns>.+)$")


def sequence_group_options(
    options: Mapping[str, str],
) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Return (sequence columns, protected columns) of every `fields.<s1>[,<s2>..].sequence-group`, not trimmed.

        fields.a,b.sequence-group = c,d    (("a", "b"), ("c", "d"))

    They have the order of the options. Others check that the columns exist.
    """
    groups = []
    for key, value in options.items():
        match = FIELD_OPTION.match(key)
        if match is not None and match["what"] == "sequence-group":
            groups.append((tuple(match["columns"].split(",")), tuple(value.split(","))))
    return groups


def field_option_columns(options: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return (option key, column) of every `fields.<columns>.<what>`: the columns that must exist in the schema.

    Only the key is read; the engines check columns in values (protected columns).
    """
    columns: list[tuple[str, str]] = []
    for key in options:
        match = FIELD_OPTION.match(key)
        if match is not None:
            columns.extend((key, column) for column in match["columns"].split(","))
    return columns
