"""The Markdown of one module's page."""

from __future__ import annotations

import re

import pytest
from pdoc.doc import Module

from docs.site.reference_page import anchors_of, page_of, place_of
from tests.documentation import shelf_of_books

NAME = shelf_of_books.__name__


@pytest.fixture(scope="module")
def page() -> str:
    module = Module(shelf_of_books)
    return page_of(module, {NAME: anchors_of(module), "other": ["Lamp"]})


def test_a_page_lies_where_its_module_does() -> None:
    assert place_of("widetable") == "api/widetable.md"
    assert place_of("widetable.connector") == "api/widetable/connector.md"


def test_table_comes_first_and_each_name_is_a_heading(page: str) -> None:
    assert re.findall(r"^#+ (.*)$", page, re.MULTILINE) == [
        NAME,
        "Table { #Table }",
        "Table.put { #Table.put }",
        "Table.clean { #Table.clean }",
        "Table.take { #Table.take }",
        "Table.size { #Table.size }",
        "Book { #Book }",
        "Book.title { #Book.title }",
        "find { #find }",
    ]
    assert "\n[Table](#Table) · [Book](#Book) · [find](#find)\n" in page


def test_a_method_is_declared_as_it_is_called(page: str) -> None:
    declared = re.findall(r"```python\n(.*?)\n```", page, re.DOTALL)
    assert declared == [
        "class Table(size: int)",
        "def put(\n    books: pyarrow.Table,\n    at: int = 0,\n    gently: bool = True\n) -> CommitResult",
        "@staticmethod\ndef clean(cloth: str) -> None",
        "def take(title: str, gently: bool = True) -> str",
        "size: int",
        "class Book",
        "title: str",
        "def find(title: str) -> str | None",
    ]


def test_names_in_backticks_and_cited_pages_are_links(page: str) -> None:
    assert "shelves, and [`Book.title`](#Book.title) of [index.md](../../../index.md)" in page
    assert "Puts them down; [`find`](#find) finds them." in page
    assert "[`Table.put`](#Table.put) put it; `nothing` else is known." in page


def test_parameters_stand_out(page: str) -> None:
    assert "**books**: rows. **at**: where; it is" in page
    assert "**at, gently**: see" in page


def test_sections_of_numpy_style_are_lists_and_examples_code(page: str) -> None:
    assert (
        "\n\n**Parameters**\n\n - **title** (str):\n   Of the book; [`find`](#find) knows\n" in page
    )
    assert "\n - **gently** (bool, default True):\n   Whether pages stay.\n" in page
    assert "\n\n**Returns**\n\n - **str**: The book.\n" in page
    assert "\n\n**Examples**\n\nOne book is there.\n" in page
    assert "\n\n```pycon\n>>> Table(3).take(\"Emma\")\n'Emma'\n```\n" in page


def test_text_is_no_markup_and_code_is_as_written(page: str) -> None:
    assert "As printed: a &lt; b &amp; c." in page
    assert "    Table(3)  # `Book` is code here" in page


def test_a_name_of_another_module_leads_to_its_page() -> None:
    module = Module(shelf_of_books)
    module.docstring = "`Lamp` and `other.Lamp`"
    found = page_of(module, {NAME: anchors_of(module), "other": ["Lamp"]})
    up = "../" * NAME.count(".") + "../"
    assert f"[`Lamp`]({up}api/other.md#Lamp) and [`other.Lamp`]({up}api/other.md#Lamp)" in found
