"""Format facts as a small piece of HTML for notebooks: a title, a table of names and values, and tables of rows.

The HTML needs no style sheet, script or other file. Every text is escaped. Pure; raises nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any


def html_facts(title: str, facts: Mapping[str, Any], *tables: str) -> str:
    """Return the HTML of a title and facts. facts: None is left out. tables: results of `html_rows`."""
    lines = (
        f"<tr><th>{_text(name)}</th><td>{_text(value)}</td></tr>"
        for name, value in facts.items()
        if value is not None
    )
    return f"<div><b>{_text(title)}</b><table>{''.join(lines)}</table>{''.join(tables)}</div>"


def html_rows(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table with a header row."""
    head = "".join(f"<th>{_text(name)}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{_text(value)}</td>" for value in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _text(value: Any) -> str:
    """Return a value as escaped text; invalid characters, such as half a surrogate pair, become backslash escapes."""
    text = "" if value is None else f"{value:,}" if type(value) is int else str(value)
    return escape(text.encode(errors="backslashreplace").decode())
