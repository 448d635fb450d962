"""The site has a page of each public package, with every public name and what its docstring says."""

from __future__ import annotations

import html
import inspect
import re
from pathlib import Path

import widetable as wt
import widetable_cdc
import widetable_meta
import widetable_spark


def test_reference_has_every_public_name_with_its_docstring(site: Path) -> None:
    api = site / "api"
    page = text_of(api / "widetable.html")
    for name in wt.__all__:
        assert f'id="{name}"' in page, name
    text = words(page)
    for name in ("path", "schema", "arrow_schema"):
        assert f'id="Table.{name}"' in page, name
    methods = inspect.getmembers(wt.Table, callable) + inspect.getmembers(wt.Catalog, callable)
    found = [(name, method) for name, method in methods if not name.startswith("_")]
    assert len(found) > 30
    for name, method in found:
        assert f'id="Table.{name}"' in page or f'id="Catalog.{name}"' in page, name
        assert words(str(inspect.getdoc(method)).split(".")[0]) in text, name
    assert unmade(page) == []
    spark = text_of(api / "widetable_spark.html")
    assert [name for name in widetable_spark.__all__ if f'id="{name}"' not in spark] == []
    service = text_of(api / "widetable_meta.html")
    assert [name for name in widetable_meta.__all__ if f'id="{name}"' not in service] == []
    databases = text_of(api / "widetable_cdc.html")
    assert [name for name in widetable_cdc.__all__ if f'id="{name}"' not in databases] == []
    assert (api / "widetable" / "connector.html").exists()


def test_reference_begins_with_catalog_and_table(site: Path) -> None:
    heads = re.findall(r'<h2 id="([^"]*)"', text_of(site / "api/widetable.html"))
    assert heads[:2] == ["Catalog", "Table"]
    assert sorted(heads) == sorted(wt.__all__)


def unmade(page: str) -> list[str]:
    """Public methods of public classes that the page has not, nor of a class that they are inherited from."""
    made = set(re.findall(r'id="([^"]*)"', page))
    kinds = [kind for kind in (getattr(wt, name) for name in wt.__all__) if inspect.isclass(kind)]
    return [
        f"{kind.__name__}.{name}"
        for kind in kinds
        if not issubclass(kind, Exception)
        for name, _ in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_")
        and not {f"{base.__name__}.{name}" for base in kind.__mro__} & made
    ]


def text_of(page: Path) -> str:
    return page.read_text("utf-8")


def words(text: str) -> str:
    """Its words without markup, one blank between them."""
    plain = html.unescape(re.sub(r"<[^>]+>", "", text))
    return " ".join(re.findall(r"\w+", plain))
