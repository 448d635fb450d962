"""Generates docs/refusals.md from the list in `acceptance`. Raises OSError of a file that cannot be written."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from widetable.acceptance.acceptance import CHECKS, Use

_HEAD: Final = """# What is refused, and when

<!-- Generated from widetable/acceptance by `make docs`; do not edit. -->

A table, or a change of it, is refused for a use before anything is written. The error names the option, key or column.
Another client may have made or altered a table, so it is checked again when it is used.

| use | when |
|---|---|
"""
_CHECKS: Final = "\nThe checks are made in this order:\n\n| refused | for the uses |\n|---|---|\n"


def render() -> str:
    """Return the page."""
    uses = "".join(f"| {word} | {meaning} |\n" for word, meaning in (use.value for use in Use))
    rows = (
        f"| {check.refused} | {', '.join(use.value[0] for use in check.uses)} |\n"
        for check in CHECKS
    )
    return _HEAD + uses + _CHECKS + "".join(rows)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(render(), encoding="utf-8")
