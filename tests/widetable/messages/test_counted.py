"""The word behind a number is that of the number."""

from __future__ import annotations

import pytest

from widetable.messages.counted import counted


@pytest.mark.parametrize(
    ("count", "plural", "form", "said"),
    [
        (0, None, "", "0 rows"),
        (1, None, "", "1 row"),
        (2, None, "", "2 rows"),
        (1500, None, ",", "1,500 rows"),
        (1, "rows wait", "", "1 row"),
        (2, "rows wait", "", "2 rows wait"),
    ],
)
def test_a_number_and_its_noun(count: int, plural: str | None, form: str, said: str) -> None:
    assert counted(count, "row", plural, form) == said
