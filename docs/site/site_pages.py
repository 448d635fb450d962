"""What MkDocs asks while it builds the site: the pages of the API reference, and tables that can be read on a phone.

mkdocs.yml names this file as a hook. Its pages are there as if they lay in docs/: navigation, search and colours are
those of all others, and a link that leads nowhere fails the build.
"""

from __future__ import annotations

import html
import re
import warnings
from typing import Any, Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pdoc.doc import Module

from docs.site.reference_page import anchors_of, page_of, place_of

MODULES: Final = (
    "widetable",
    "widetable_spark",
    "widetable_meta",
    "widetable_cdc",
    "widetable.connector",
)
_EVIDENCE: Final = ("decisions/", "facts/")
# Letters of a cell that is a sentence: a column of such is too narrow on a phone.
_SENTENCE: Final = 60
_TABLE: Final = re.compile(r"<table>.*?</table>", re.DOTALL)
_ROW: Final = re.compile(r"<tr>.*?</tr>", re.DOTALL)
_CELL: Final = re.compile(r"<(t[hd])([^>]*)>(.*?)</\1>", re.DOTALL)


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Adds the pages of the API reference."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pdoc's, of annotations that it cannot evaluate
        modules = {name: Module.from_name(name) for name in MODULES}
        anchors = {name: anchors_of(module) for name, module in modules.items()}
        for name, module in modules.items():
            text = page_of(module, anchors)
            files.append(File.generated(config, place_of(name), content=text))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Decisions and facts, which hold most of the words, are found below the pages that say how something is done."""
    if page.file.src_uri.startswith(_EVIDENCE):
        page.meta["search"] = {"boost": 0.2}
    return markdown


def on_page_content(content: str, **_: Any) -> str:
    """Marks tables of sentences: the style sheet sets their cells one below the other where the page is narrow."""
    return _TABLE.sub(lambda found: stacked(found[0]), content)


def stacked(table: str) -> str:
    """The table as it is, unless it has three columns or more, one of sentences; then each cell knows its column."""
    cells = _CELL.findall(table)
    heads = [_plain(text) for tag, _, text in cells if tag == "th"]
    if len(heads) < 3 or max(len(_plain(text)) for _, _, text in cells) < _SENTENCE:
        return table
    return _ROW.sub(lambda row: _named(row[0], heads), table).replace(
        "<table>", "<table data-stacked>"
    )


def _named(row: str, heads: list[str]) -> str:
    names = iter(heads)

    def cell(found: re.Match[str]) -> str:
        tag, attributes, text = found.groups()
        is_head = tag == "th"
        name = "" if is_head else f' data-is="{html.escape(next(names))}"'
        return f"<{tag}{attributes}{name}>{text}</{tag}>"

    return _CELL.sub(cell, row)


def _plain(text: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", text)).strip()
