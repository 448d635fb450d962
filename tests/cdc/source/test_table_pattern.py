"""Patterns of tables: * and ? and letters, schema before the first dot."""

from __future__ import annotations

import pytest

from widetable_cdc.source.table_pattern import is_named, is_taken


@pytest.mark.parametrize(
    ("pattern", "schema", "name", "expected"),
    [
        ("public.*", "public", "orders", True),
        ("public.*", "sales", "orders", False),
        ("orders", "public", "orders", True),
        ("orders", "sales", "orders", False),
        ("*.orders", "sales", "orders", True),
        ("sales.order_?", "sales", "order_1", True),
        ("sales.order_?", "sales", "order_12", False),
        ("public.Orders", "public", "orders", False),
        ("public.a.b", "public", "a.b", True),
        ("public.[ab]", "public", "a", False),
        ("public.[ab]", "public", "[ab]", True),
    ],
)
def test_a_pattern_names_a_table(pattern: str, schema: str, name: str, expected: bool) -> None:
    assert is_taken(schema, name, [pattern], []) == expected


def test_what_is_excluded_is_not_taken() -> None:
    assert is_taken("public", "orders", ["public.*"], ["*.audit_*"])
    assert not is_taken("public", "audit_1", ["public.*"], ["*.audit_*"])
    assert not is_taken("public", "orders", [], [])


def test_a_name_is_a_pattern_without_wildcards() -> None:
    assert is_named("public", "orders", ["orders"])
    assert not is_named("public", "orders", ["order?", "public.*"])
