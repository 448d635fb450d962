"""Python sources as trees."""

from __future__ import annotations

import ast
import gc


def parsed(source: str) -> ast.Module:
    """With the collector off: CPython 3.11 counts the depth of a tree for all threads together, so a finalizer that
    runs meanwhile, and lets another thread parse, makes it raise SystemError.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(source)
    finally:
        if was_enabled:
            gc.enable()
