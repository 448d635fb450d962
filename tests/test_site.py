"""docs/ builds as a site without a warning, no link leads nowhere, and the wheel has the pages that errors cite."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pages import PAGES, ROOT, name_of
from tests.parsed_source import parsed
from tests.patience import PATIENCE_SECONDS
from tests.test_layers import FOLDERS
from widetable.cli.documentation import pages_folder

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
    """What the page points to in the project and is not there; the API reference is made beside the site."""
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


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    ran = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},  # a notice of the theme's makers
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert (ran.returncode, "WARNING" in ran.stderr) == (0, False), ran.stderr
    for page in (ROOT / "docs").rglob("*.md"):
        assert (tmp_path / page.relative_to(ROOT / "docs").with_suffix(".html")).exists()


def test_the_page_of_the_api_names_what_is_made() -> None:
    modules = re.findall(r"href=\"api/(.*)\.html\"", (ROOT / "docs/api.md").read_text("utf-8"))
    (made,) = re.findall(r"--output-directory build/site/api (.*)", (ROOT / "Makefile").read_text())
    assert [module.replace("/", ".") for module in modules] == made.split()


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
