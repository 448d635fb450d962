"""Facts as a small piece of HTML, as notebooks show it: a title, a table of names and values, and tables of rows.

Self-contained: no style sheet, script or other file. Every text is escaped, whoever wrote it. Pure; raises nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any


def html_facts(title: str, facts: Mapping[str, Any], *tables: str) -> str:
    """facts: None is left out. tables: of `html_rows`."""
    lines = (
        f"<tr><th>{_text(name)}</th><td>{_text(value)}</td></tr>"
        for name, value in facts.items()
        if value is not None
    )
    return f"<div><b>{_text(title)}</b><table>{''.join(lines)}</table>{''.join(tables)}</div>"


def html_rows(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table with a head."""
    head = "".join(f"<th>{_text(name)}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{_text(value)}</td>" for value in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _text(value: Any) -> str:
    """As every page can hold it: what is no text, such as half of a character, as backslashes and digits."""
    text = "" if value is None else f"{value:,}" if type(value) is int else str(value)
    return escape(text.encode(errors="backslashreplace").decode())
