"""The page of a service in a real browser: nothing sticks out of its box, on a desk and on a phone, in light and dark;
nothing runs and nothing is fetched. Pictures are left in build/meta-page.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

import widetable as wt
from tests.meta.service_process import Service, serving
from tests.meta.shop_warehouse import HOSTILE, LONG, shop
from tests.support.faults.patience import PATIENCE_SECONDS
from tests.support.faults.unheard_of import unheard_of
from tests.support.programs.browser import NEEDS_BROWSER, browsed
from widetable.storage.local import LocalFileIO
from widetable.topology.service_lease import ServiceLease
from widetable_meta.leadership import Leadership
from widetable_meta.open_sessions import OpenSessions
from widetable_meta.page import Page

PICTURES = Path(__file__).resolve().parents[2] / "build/meta-page"
SIZES = {"desktop": (1280, 1900), "phone": (390, 3600)}
DARK = {"light": 1, "dark": 0}
# Marks what sticks out: of the page to the right, of a box below, and text that nothing cuts.
MEASURE = """
<script>
addEventListener("load", () => {
  const found = [];
  const width = document.documentElement.clientWidth;
  found.push("width " + width);
  if (document.documentElement.scrollWidth > width) found.push("the page is wider");
  for (const box of document.querySelectorAll(".box")) {
    if (box.scrollHeight > box.clientHeight + 1) found.push("below: " + box.textContent.trim());
    for (const line of box.querySelectorAll("div")) {
      if (line.scrollWidth > line.clientWidth + 1 && !line.classList.contains("cut"))
        found.push("right: " + line.textContent.trim());
    }
  }
  for (const cell of document.querySelectorAll("td, dd, h1")) {
    if (cell.scrollWidth > cell.clientWidth + 1) found.push("cell: " + cell.textContent.trim());
  }
  parent.document.body.setAttribute("data-found", JSON.stringify(found));
});
</script>
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(shop(tmp_path_factory.mktemp("warehouse"))) as (one,):
        tables = ["shop.shopping", "shop.user_item_amount"]
        assert one.ask("POST", "/v1/sessions", {"tables": tables})[0] == 201
        yield one


@pytest.fixture(scope="module")
def page(service: Service) -> str:
    return requests.get(f"{service.url}/", timeout=PATIENCE_SECONDS).text


def test_the_page_tells_what_is_there(page: str) -> None:
    text = html.unescape(re.sub(r"<[^>]*>", " ", page))
    for said in ("shop.shopping", "shop.averages", LONG, "amounts", "crm-3", "RepeatableRead"):
        assert said in text, said
    assert "2026-01-01 00:00:00 UTC" in text
    assert "crm-1, crm-2, crm-3" in text
    assert page.count("line slow") == 3  # of one job, with two sources
    assert "this instance" in text


def test_texts_of_others_are_texts(page: str) -> None:
    assert "<img" not in page
    assert html.escape(HOSTILE).replace("&#x27;", "&#39;").replace("&quot;", "&#34;") in page


def test_nothing_runs_and_nothing_is_fetched(service: Service, page: str) -> None:
    policy = requests.get(f"{service.url}/", timeout=PATIENCE_SECONDS).headers
    assert policy["Content-Security-Policy"].startswith("default-src 'none'; ")
    assert not re.search(r"<script|<iframe|<object|<form|\bon\w+=[\"']|url\(|@import", page)
    assert {found for found in re.findall(r"(?:src|href)=[\"']([^\"']*)", page)} == {
        "data:,",
        "metrics",
    }
    assert set(re.findall(r"https?://[^\"'<\s]*", page)) == {"http://www.w3.org/2000/svg"}


def said(page: str) -> str:
    """Its text, one blank between words."""
    return " ".join(
        html.unescape(re.sub(r"<style>.*?</style>|<[^>]*>", " ", page, flags=re.DOTALL)).split()
    )


def test_the_words_of_its_columns_are_explained(page: str) -> None:
    heads = re.findall(r"<th[^>]*>([^<]*)</th>", page)
    explained = re.findall(r"<b>([^<]*)</b>:", page)
    assert explained == ["complete up to", "in common", "age", "waits for", "took"]
    assert set(explained) <= set(heads)
    assert "shared" not in said(page)


def test_it_leads_to_the_measures(service: Service, page: str) -> None:
    (link,) = re.findall(r'<a href="([^"]*)"', page)
    answer = requests.get(f"{service.url}/{link}", timeout=PATIENCE_SECONDS)
    assert (answer.status_code, "widetable_meta_is_leader" in answer.text) == (200, True)


def test_without_alarms_it_says_what_was_looked_at(page: str) -> None:
    assert "No alarm: an instance leads, all revisions have ended" in said(page)


def test_a_writer_that_is_gone_is_an_alarm_on_top(tmp_path: Path) -> None:
    catalog = wt.Catalog(tmp_path)
    options = {"widetable.barrier-interval": "10 s", "bucket": "1"}
    catalog.create_table("db.x", {"id": "BIGINT"}, primary_key=["id"], options=options)
    catalog.writer("db.x", "clicks").write({"id": [1]}, barrier=10_000, complete=True)
    unheard_of(tmp_path, "db.db/x", "clicks", 15)
    text = said(page_of(catalog, tmp_path))
    alarm = (
        f"db.x waits for clicks, last seen 15 min ago. Start it again, or, if it does not come back: "
        f"widetable meta leave {tmp_path} db.x clicks"
    )
    assert text.index(alarm) < text.index("Topology")
    assert "No alarm" not in text
    assert "clicks root last seen 15 min ago from outside db.x" in text  # among the jobs


@NEEDS_BROWSER
@pytest.mark.parametrize("size", SIZES)
def test_nothing_sticks_out(page: str, tmp_path: Path, size: str) -> None:
    file = tmp_path / "page.html"
    measured = html.escape(page.replace("</body>", f"{MEASURE}</body>"))
    width, height = SIZES[size]
    # A window is not as narrow as a phone everywhere; a frame is.
    style = "position: absolute; left: 0; top: 0; border: 0"
    frame = f'width="{width}" height="{height}" style="{style}" srcdoc="{measured}"'
    file.write_text(f"<!doctype html><body><iframe {frame}></iframe></body>")
    found = browsed(f"--window-size={width},{height}", "--dump-dom", file.as_uri())
    told = re.search(r'data-found="([^"]*)"', found)
    assert told is not None
    assert html.unescape(told[1]) == f'["width {width}"]'


@NEEDS_BROWSER
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", DARK)
def test_it_is_drawn(service: Service, size: str, scheme: str) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    picture = PICTURES / f"{size}-{scheme}.png"
    picture.unlink(missing_ok=True)
    width, height = SIZES[size]
    browsed(
        f"--window-size={width},{height}",
        f"--blink-settings=preferredColorScheme={DARK[scheme]}",
        f"--screenshot={picture}",
        f"{service.url}/",
    )
    head = picture.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(head[16:20], "big") == width
    assert picture.stat().st_size > 20_000  # not empty


def page_of(catalog: wt.Catalog, root: Path) -> str:
    """That of an instance which nobody leads."""
    topology, url = catalog.topology(), "http://127.0.0.1:1"
    leadership = Leadership(ServiceLease(LocalFileIO(), str(root), url), topology, str(root), url)
    return Page(str(root), topology, OpenSessions(lambda: catalog), leadership).html()


def test_an_empty_warehouse_has_a_page(tmp_path: Path) -> None:
    page = page_of(wt.Catalog(tmp_path), tmp_path)
    assert "No table of this warehouse is under barriers." in page
    assert "None is open at this instance." in page
    assert "No instance leads, so jobs cannot register" in page
