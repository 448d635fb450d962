"""The version of the installed package; `unknown` where only the code was copied.

Reading the installation takes time, so `widetable.__version__` imports this module at its first use
(`public_names.UNLISTED`).
"""

from __future__ import annotations

import importlib.metadata
from typing import Final


def _installed() -> str:
    try:
        return importlib.metadata.version("widetable")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


# Read once, at import.
__version__: Final = _installed()
