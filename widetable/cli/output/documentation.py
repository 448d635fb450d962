"""The folder of the pages that errors cite as docs/<page>.md."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).resolve().parents[2]


def pages_folder() -> Path:
    """Return the folder of the pages: inside an installed package, beside a checkout's. It may not exist."""
    installed = _PACKAGE / "docs"
    return installed if installed.is_dir() else _PACKAGE.parent / "docs"
