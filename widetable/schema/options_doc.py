"""Generates the page docs/options.md from the declarations in `widetable.schema.options`.

In: options; out: Markdown text, one row per option in the order of declaration. No I/O but in `main`.
A test compares the page with this output, so a changed sentence needs `make docs`.

    bucket    | `bucket` | integer | `-1` | buckets per partition | Number of buckets .. *Immutable.* |
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from widetable.schema.option import Option
from widetable.schema.options import OPTIONS

_HEAD: Final = """\
# Table options

<!-- Generated from widetable/schema/options.py by `make docs`; do not edit. -->

Pass options to `Catalog.create_table` and `Catalog.alter_table` as text. An option of Paimon that is not listed here
is not honoured yet: it is refused by name, never ignored ([what is refused, and when](refusals.md)). *Immutable*
options keep the value with which the table was created; the meaning says so if an option may be set later.

Options of columns: `fields.<columns>.<what>`, such as `sequence-group`; `index.<column>[,<column>..]` =
`<database>.<table>`, a table that finds rows by these columns (`Table.lookup_index`); `widen.<column>` =
`<database>.<table>(<column>[ as <name>], ..)`, columns that follow a foreign key (docs/keep-facts-wide.md);
`file-index.bloom-filter.columns` and `file-index.bitmap.columns` = `<column>[, <column>..]`, by which scans skip files
(docs/sort-for-queries.md).

| option | kind | default | unit | meaning |
|---|---|---|---|---|
"""
# Sizes of whole mebibytes are shown as such, others as bytes: `parse_value` reads both.
_MEBIBYTE: Final = 1 << 20
_CITED: Final = re.compile(r"docs/([a-z-]+\.md)")


def render(options: Iterable[Option[Any]]) -> str:
    """Return the page for these options. Pages that it cites as docs/x.md become links."""
    page = _HEAD + "".join(_row(option) for option in options)
    return _CITED.sub(r"[\1](\1)", page)


def _row(option: Option[Any]) -> str:
    """Return a row of the table. A | in a cell is escaped; the kind of an enum is the list of its choices."""
    sentence = option.sentence + (" *Immutable.*" if option.immutable else "")
    kind = ", ".join(f"`{choice}`" for choice in option.choices) or option.kind
    cells = (f"`{option.key}`", kind, _default(option), option.unit, sentence)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _default(option: Option[Any]) -> str:
    text = default_text(option)
    return "" if text is None else f"`{text}`"


def default_text(option: Option[Any]) -> str | None:
    """Return the default as a user would write it; None if there is none.

    `parse_value` can parse it: `128 mb` for whole mebibytes, `3600000 ms`, `true`.
    """
    value = option.default
    if value is None or value == ():
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(value)
    if option.kind == "memory size" and value % _MEBIBYTE == 0:
        return f"{value // _MEBIBYTE} mb"
    if option.kind == "duration":
        return f"{value} ms"
    return f"{value}"


def main(arguments: list[str]) -> None:
    """Write the page to the file named by the only argument, or to standard output if there is none.

    `make docs` calls it with docs/options.md and overwrites the file.
    """
    page = render(OPTIONS)
    if arguments:
        Path(arguments[0]).write_text(page, encoding="utf-8")
    else:
        sys.stdout.write(page)


if __name__ == "__main__":
    main(sys.argv[1:])
