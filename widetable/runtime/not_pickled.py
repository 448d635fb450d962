"""Objects that stay where they were made: they hold leases, open files or a writer's name, or run a thread.

A class has `__reduce_ex__ = not_pickled`; then copying and pickling raise UnsupportedError, which says what to send.
Without it a copy would seem to work, and two would hold one lease, or write under one name.
"""

from __future__ import annotations

from typing import NoReturn, SupportsIndex

from widetable.errors import UnsupportedError


def not_pickled(self: object, protocol: SupportsIndex) -> NoReturn:
    """In place of what `pickle` and `copy` call."""
    raise UnsupportedError(
        type(self).__name__,
        found="a copy of it, or one for another process",
        expected="it where it was made: what it holds is held once",
        action="Send the catalog or the table there, and make it anew.",
    )
