"""Where the pages are that errors cite as docs/<page>.md."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).resolve().parents[2]


def pages_folder() -> Path:
    """Of an installation, inside the package; of a checkout, beside it. Not there where code alone was copied."""
    installed = _PACKAGE / "docs"
    return installed if installed.is_dir() else _PACKAGE.parent / "docs"
