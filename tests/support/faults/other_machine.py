"""A disk as another machine sees it."""

from __future__ import annotations

import contextlib

from widetable.storage.local import LocalFileIO


class OtherMachine(LocalFileIO):
    """With no turns in common with anybody."""

    def turn(self, path: str) -> contextlib.AbstractContextManager[bool]:
        return contextlib.nullcontext(False)
