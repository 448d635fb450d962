"""Options of columns: `fields.<columns>.<what>`, `index.<columns>`, `widen.<column>`; without looking at a schema.

Source: Paimon `CoreOptions`; semantics of each in `merge/`. Names are not trimmed, as Paimon does not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

# columns is greedy: of `fields.a.b.aggregate-function` it is `a.b`, and what has no dot.
FIELD_OPTION: Final = re.compile(r"^fields\.(?P<columns>.+)\.(?P<what>[^.]+)$")
# What an option of columns may say; `merge/aggregate_function.py` reads most of them.
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
# Has the form of no option of columns: there is one dot.
DEFAULT_FUNCTION_KEY: Final = "fields.default-aggregate-function"
# Parsed in `derived_options`.
# index.city,zip: what `index`, columns `city,zip`. Greedy as well: a column's name may have dots.
DERIVED_OPTION: Final = re.compile(r"^(?P<what>index|widen)\.(?P<columns>.+)$")


def sequence_group_options(
    options: Mapping[str, str],
) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """(sequence columns, protected columns) of every `fields.<s1>[,<s2>..].sequence-group`; names are not trimmed.

        fields.a,b.sequence-group = c,d    (("a", "b"), ("c", "d"))

    In the order of the options. That the columns are there is checked by others.
    """
    groups = []
    for key, value in options.items():
        match = FIELD_OPTION.match(key)
        if match is not None and match["what"] == "sequence-group":
            groups.append((tuple(match["columns"].split(",")), tuple(value.split(","))))
    return groups


def field_option_columns(options: Mapping[str, str]) -> list[tuple[str, str]]:
    """(option key, column) of every `fields.<columns>.<what>`: the columns that must exist in the schema.

    Of the key only: what a value names (protected columns) is checked by the engines.
    """
    found: list[tuple[str, str]] = []
    for key in options:
        match = FIELD_OPTION.match(key)
        if match is not None:
            found.extend((key, column) for column in match["columns"].split(","))
    return found
