"""What notebooks show of a table, a snapshot and a scan: one piece of HTML that nobody's names can break out of."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from widetable.commit.snapshots.manifest_cache import MANIFEST_CACHE

HOSTILE = "<script>alert('x')</script><img src=x>&amp;\"'"


class SeenPage(HTMLParser):
    """Tags and texts of a page; every tag is closed."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.attributes: list[Any] = []
        self.texts: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def seen(shown: Any) -> SeenPage:
    page = SeenPage()
    page.feed(shown._repr_html_())
    page.close()
    assert page.open == []
    assert page.tags <= {"div", "b", "table", "thead", "tbody", "tr", "th", "td"}
    assert page.attributes == []
    return page


@pytest.fixture
def table(tmp_path: Path) -> wt.Table:
    fields = [pa.field("k", pa.int64(), nullable=False), pa.field(HOSTILE, pa.string())]
    made = wt.Catalog(tmp_path / "<script>").create_table(
        "db.t", pa.schema(fields), primary_key=["k"], options={"widetable.fsync": "false"}
    )
    made.write(pa.table({"k": [1, 2], HOSTILE: ["a", "b"]}), HOSTILE, 1)
    return made


def test_a_table_shows_its_columns_and_place(table: wt.Table) -> None:
    texts = seen(table).texts
    assert HOSTILE in texts
    assert table.path in texts
    assert repr(table) == f"Table({table.path!r})"


def test_a_snapshot_shows_what_its_file_says(table: wt.Table) -> None:
    (snapshot,) = table.snapshots()
    texts = seen(snapshot).texts
    assert HOSTILE in texts
    assert snapshot.base_manifest_list in texts
    assert seen(replace(snapshot, time_millis=2**80, properties={HOSTILE: "\ud800"})).texts


def test_a_scan_shows_what_it_will_read(table: wt.Table) -> None:
    texts = seen(table.scan(filter="k > 1")).texts
    assert HOSTILE in texts
    assert texts[texts.index("rows at most") + 1] == "2"


def test_what_cannot_be_read_is_said(table: wt.Table) -> None:
    for file in Path(table.path, "manifest").iterdir():
        file.write_bytes(b"")
    MANIFEST_CACHE.clear()
    assert "error" in seen(wt.Table.open(table.path).scan()).texts
    for file in Path(table.path, "schema").iterdir():
        file.unlink()
    assert "error" in seen(table).texts
