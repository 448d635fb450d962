"""Which tables of a page are set one cell below the other on a phone."""

from __future__ import annotations

from docs.site.site_pages import stacked

SENTENCE = "Number of buckets of every partition; a row's bucket is a hash of its bucket key."


def table(heads: list[str], *rows: list[str]) -> str:
    head = "".join(f"<th>{name}</th>" for name in heads)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def test_cells_of_a_table_of_sentences_know_their_columns() -> None:
    found = stacked(table(["<code>option</code>", "a & b", "meaning"], ["bucket", "", SENTENCE]))
    assert found.startswith("<table data-stacked>")
    assert '<td data-is="option">bucket</td><td data-is="a &amp; b"></td>' in found
    assert f'<td data-is="meaning">{SENTENCE}</td>' in found


def test_a_table_of_figures_scrolls_as_it_is() -> None:
    figures = table(["rows", "seconds", "bytes"], ["1", "2", "3"], ["4", "5", "6"])
    assert stacked(figures) == figures


def test_a_table_of_two_columns_has_room() -> None:
    narrow = table(["option", "meaning"], ["bucket", SENTENCE])
    assert stacked(narrow) == narrow


def test_a_cell_keeps_its_alignment() -> None:
    row = f'<tr><td style="text-align: right;">1</td><td>2</td><td>{SENTENCE}</td></tr>'
    heads = "<tr><th>a</th><th>b</th><th>c</th></tr>"
    assert '<td style="text-align: right;" data-is="a">1</td>' in stacked(
        f"<table>{heads}{row}</table>"
    )
