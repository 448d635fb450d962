"""Which version of the package this is, as its installation says; `unknown` where only the code was copied."""

from __future__ import annotations

import importlib.metadata
from typing import Final


def _installed() -> str:
    try:
        return importlib.metadata.version("widetable")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


__version__: Final = _installed()
