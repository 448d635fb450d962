"""Imports a package that an extra of widetable installs. Raises UnsupportedError if its packages are not there."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from widetable.errors import UnsupportedError
from widetable.runtime.forked_child import UNFORKABLE


def extra_package(module: str, what: str, extra: str) -> ModuleType:
    """Import a module of an extra.

    Parameters
    ----------
    module : str
        The name of the module.
    what : str
        The argument or command that needs it, for messages.
    extra : str
        The extra of widetable that installs it.

    Returns
    -------
    module
        The module.

    Raises
    ------
    UnsupportedError
        Its packages are not installed.
    """
    try:
        with UNFORKABLE:  # a forked child would wait forever for an import that nobody finishes
            return import_module(module)
    except ModuleNotFoundError as missing:
        raise UnsupportedError(
            what,
            found=f"an installation without its packages: {missing}",
            expected=f"the packages of the extra {extra}",
            action=f"pip install 'widetable[{extra}]'",
        ) from missing
