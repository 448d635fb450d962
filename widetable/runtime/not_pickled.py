"""Objects that cannot be copied or pickled: they hold leases, open files or a writer's name, or run a thread.

A class sets `__reduce_ex__ = not_pickled`. Copying and pickling then raise UnsupportedError, which says what to send
instead. Without it a copy would seem to work, and two objects would hold one lease, or write under one name.
"""

from __future__ import annotations

from typing import NoReturn, SupportsIndex

from widetable.errors import UnsupportedError


def not_pickled(self: object, protocol: SupportsIndex) -> NoReturn:
    """Raise UnsupportedError. `pickle` and `copy` call this as the object's `__reduce_ex__`."""
    raise UnsupportedError(
        type(self).__name__,
        found="an attempt to copy it or to send it to another process",
        expected="one object, in the process that created it: it holds a lease, open files, a name or a thread",
        action="Send the catalog or the table to the other process, and create the object there.",
    )
