"""docs/options.md is what the declarations in widetable/schema/options.py say, and they say enough."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from widetable.schema.option import Option
from widetable.schema.options import OPTIONS
from widetable.schema.options_doc import main, render

PAGE = Path(__file__).resolve().parent.parent / "docs/options.md"

every_option = pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.key)


def test_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(OPTIONS), "run: make docs"


@every_option
def test_option_is_on_the_page(option: Option[Any]) -> None:
    text = re.sub(
        r"\[(\S+)\]\(\1\)", r"docs/\1", PAGE.read_text()
    )  # pages that are cited are links
    rows = [line for line in text.splitlines() if line.startswith(f"| `{option.key}` |")]
    assert len(rows) == 1
    assert option.sentence.replace("|", "\\|") in rows[0]
    assert ("*Immutable.*" in rows[0]) == option.immutable


@every_option
def test_option_is_declared_in_full(option: Option[Any]) -> None:
    assert re.fullmatch(r"[a-z0-9.-]+", option.key)
    assert re.fullmatch(r"[A-Z`].*[.]", option.sentence), "one or more whole sentences"
    assert bool(option.choices) == (option.kind == "enum" or len(option.choices) > 0)
    if option.choices:
        assert option.default is None or option.default in option.choices
    if option.kind in ("memory size", "duration"):
        assert option.unit in ("bytes", "milliseconds")


def test_keys_are_unique() -> None:
    keys = [option.key for option in OPTIONS]
    assert len(keys) == len(set(keys))


def test_page_follows_the_declarations() -> None:
    option = Option("a.b", "memory size", 3 << 20, "bytes", "What a|b is.", immutable=True)
    assert render([option]).endswith(
        "\n| `a.b` | memory size | `3 mb` | bytes | What a\\|b is. *Immutable.* |\n"
    )
    assert render([option]) != render([])


def test_page_is_written_to_the_named_file(tmp_path: Path) -> None:
    main([str(tmp_path / "options.md")])
    assert (tmp_path / "options.md").read_text(encoding="utf-8") == render(OPTIONS)
