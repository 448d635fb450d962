"""Names of a package that are imported at their first use (PEP 562).

    widetable_cdc              no driver of a database is imported
    widetable_cdc.Sync         `imported("Sync")` imports its module, and the package keeps the name

Raises AttributeError for names that the package does not have.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def late_names(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Make the `__getattr__` of a package.

    Parameters
    ----------
    package : str
        The package's name.
    homes : dict of str to str
        Name to the module that has it, below the package.

    Returns
    -------
    callable
        Takes a name, and returns its object. The package keeps the object from then on.
    """

    def imported(name: str) -> Any:
        module = sys.modules[package]
        if name not in homes:
            raise AttributeError(
                f"module {package!r} has no attribute {name!r}", name=name, obj=module
            )
        value = getattr(import_module(f"{package}.{homes[name]}"), name)
        setattr(module, name, value)
        return value

    return imported
