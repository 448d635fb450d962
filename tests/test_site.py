"""docs/ builds as a site without a warning, no link leads nowhere, and the wheel has the pages that errors cite."""

from __future__ import annotations

import ast
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.site.reference_page import place_of
from docs.site.site_pages import MODULES
from tests.support.programs.browser import NEEDS_BROWSER, browsed
from tests.support.programs.pages import PAGES, ROOT, name_of
from tests.support.programs.parsed_source import parsed
from tests.test_layers import FOLDERS
from widetable.cli.output.documentation import pages_folder

FILES = (*PAGES, *(ROOT / f"{name}.md" for name in ("ARCHITECTURE", "CONTRIBUTING", "CHANGELOG")))
LINK = re.compile(r"\]\(([^)\s]+)\)|href=\"([^\"]+)\"")
# docs/options.md, and docs/decisions/0017 for its number alone.
CITED = re.compile(r"docs/[a-z0-9/-]+(?:\.md)?")


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```$|`[^`\n]*`", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """As MkDocs names its headings."""
    heads = re.findall(r"^#+ (.*)$", without_code(page.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", head).strip().lower()) for head in heads}


def broken_links(page: Path, text: str) -> list[str]:
    """What the page points to in the project and is not there; the API reference is made with the site."""
    found = []
    for link, reference in LINK.findall(without_code(text)):
        target, _, anchor = (link or reference).partition("#")
        file = page.parent / target if target else page
        if re.match(r"https?:|api/", target):
            continue
        if not file.exists() or (anchor and anchor not in anchors(file)):
            found.append(link or reference)
    return found


@pytest.mark.parametrize("page", FILES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page, page.read_text("utf-8")) == []


def test_a_link_that_leads_nowhere_is_seen() -> None:
    page = ROOT / "docs/index.md"
    text = "[a](nothing.md) [b](limits.md#nothing) [c](limits.md#limits) `[d](nothing.md)`"
    assert broken_links(page, text) == ["nothing.md", "limits.md#nothing"]


def test_the_site_builds_without_a_warning(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        assert (site / page.relative_to(ROOT / "docs").with_suffix(".html")).exists()


def pages_of(site: Path) -> list[Path]:
    found = sorted(path for path in site.rglob("*.html") if path.name != "404.html")
    assert len(found) > 100
    return found


def links_of(page: Path) -> set[Path]:
    """Pages of the site to which it links, anchors cut off."""
    hrefs = re.findall(r'href="([^"#:]+\.html)', page.read_text("utf-8"))
    return {Path(os.path.normpath(page.parent / href)) for href in hrefs}


def test_each_page_leads_to_the_api_reference_and_back(site: Path) -> None:
    reference = {
        site / f"api/{name}.html" for name in ("widetable", "widetable_spark", "widetable_meta")
    }
    reference.add(site / "api/widetable/connector.html")
    reference.add(site / "index.html")
    assert [page for page in pages_of(site) if not reference <= links_of(page)] == []


def test_search_works_from_the_disk(site: Path) -> None:
    """There a page may read no JSON and start no worker: the index is a script, and a frame runs the search."""
    script = (site / "search/search_index.js").read_text("utf-8")
    index = json.loads(script.removeprefix("var __index = "))
    places = {entry["location"] for entry in index["docs"]}
    assert {
        "options.html",
        "api/widetable.html#Table.write",
        "api/widetable/connector.html",
    } <= places
    assert "location.protocol" in (site / "assets/iframe-worker.js").read_text("utf-8")
    for page in pages_of(site):
        scripts = re.findall(r'<script src="([^"]+)"', page.read_text("utf-8"))
        workers = [name for name in scripts if name.endswith("assets/iframe-worker.js")]
        assert [(page.parent / name).resolve().exists() for name in workers] == [True], page


@NEEDS_BROWSER
def test_a_browser_finds_a_method_from_the_disk(site: Path) -> None:
    page = (site / "index.html").as_uri() + "?q=create_tag"
    found = browsed("--virtual-time-budget=20000", "--dump-dom", page)
    results = re.findall(r'<a href="([^"]*)" class="md-search-result__link"', found)
    assert results[:1] != []
    assert (site / "api/widetable.html").as_uri() + "#Table.create_tag" in results


def framed(page: str) -> str:
    """A page that frames this one as wide as a phone, and says how wide it and the widest of its tables are."""
    return f"""<!doctype html><body><iframe id="frame" width="390" height="800" style="border: 0" src="{page}"></iframe>
<script>
frame.onload = () => {{
  const page = frame.contentDocument;
  const widths = [...page.querySelectorAll("table")].map((table) => table.scrollWidth);
  document.body.dataset.width = Math.max(page.documentElement.scrollWidth, ...widths);
}};
</script>"""


@NEEDS_BROWSER
@pytest.mark.parametrize("name", ["options", "api/widetable"])
def test_options_and_reference_are_no_wider_than_a_phone(
    site: Path, tmp_path: Path, name: str
) -> None:
    file = tmp_path / "phone.html"
    file.write_text(framed((site / f"{name}.html").as_uri()), "utf-8")
    found = browsed(
        "--allow-file-access-from-files", "--virtual-time-budget=20000", "--dump-dom", file.as_uri()
    )
    assert re.findall(r'data-width="(\d+)"', found) == ["390"]


def test_a_name_is_found_by_its_parts(site: Path) -> None:
    index = json.loads((site / "search/search_index.json").read_text("utf-8"))
    separator = index["config"]["separator"]
    cut = [re.split(separator, name) for name in ("Table.create_tag", "merge-engine", "0.5")]
    assert cut == [["Table", "create", "tag"], ["merge", "engine"], ["0.5"]]


def test_no_page_fetches_anything_from_elsewhere(site: Path) -> None:
    fetched = re.compile(
        r"""<(?:script|link|img|iframe|source)\b[^>]*(?:src|href)=["']?(?:https?:)?//[^>]*"""
    )
    for page in pages_of(site):
        text = page.read_text("utf-8")
        assert fetched.findall(text) == [], page
        assert 'class="mermaid"' not in text, page  # the theme would fetch what draws it
    for style in site.rglob("*.css"):
        assert (
            re.findall(r"@import[^;]*|url\([\"']?(?:https?:)?//[^)]*", style.read_text("utf-8"))
            == []
        )


def test_each_page_follows_the_colours_of_the_system(site: Path) -> None:
    dark = re.compile(r'<input[^>]*prefers-color-scheme: dark[^>]*data-md-color-scheme="slate"')
    assert [page for page in pages_of(site) if not dark.search(page.read_text("utf-8"))] == []


def test_options_stand_one_below_the_other_on_a_phone(site: Path) -> None:
    """Five columns, one of them sentences, are wider than 390 pixels."""
    page = (site / "options.html").read_text("utf-8")
    assert re.findall(r"<table[^>]*>", page) == ["<table data-stacked>"]
    names = re.findall(r'<td[^>]* data-is="([^"]*)"', page)
    assert names == ["option", "kind", "default", "unit", "meaning"] * (len(names) // 5)
    assert len(names) == page.count("<td")


def test_the_page_of_the_api_names_what_is_made() -> None:
    named = re.findall(r"^- \[[^]]*\]\(([^)#]*)\)", (ROOT / "docs/api.md").read_text("utf-8"), re.M)
    assert named == [place_of(module) for module in MODULES]


def messages() -> Iterator[tuple[Path, str]]:
    """Every text in the packages that is no docstring."""
    for path in (path for folder in FOLDERS.values() for path in sorted(folder.rglob("*.py"))):
        tree = parsed(path.read_text("utf-8"))
        documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        docstrings = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
        }
        for node in ast.walk(tree):
            text = node.value if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and id(node) not in docstrings:
                yield path, text


def test_pages_that_messages_cite_are_in_the_wheel() -> None:
    """`docs` goes into it whole (pyproject.toml; tests/test_wheel.py looks)."""
    cited = {page for _, text in messages() for page in CITED.findall(text) if page != "docs/"}
    assert len(cited) > 2
    assert [page for page in sorted(cited) if not (ROOT / page).is_file()] == []


def test_help_says_where_the_pages_are() -> None:
    assert pages_folder() == ROOT / "docs"
