"""Which version of the package this is, as its installation says; `unknown` where only the code was copied.

A module of its own, as the look into the installation takes time: `widetable.__version__` imports it when it is asked
for (`public_names.UNLISTED`).
"""

from __future__ import annotations

import importlib.metadata
from typing import Final


def _installed() -> str:
    try:
        return importlib.metadata.version("widetable")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


# Looked up once, with the import.
__version__: Final = _installed()
