"""A disk that becomes read-only for this process, as a mount with the option `ro` is."""

from __future__ import annotations

import errno
import os
from typing import Any

import pytest


def make_read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can be made, moved or removed any more; a name that is not there is refused in the same words."""

    def refuse(path: Any, *_: Any, **__: Any) -> Any:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)

    def opened(path: Any, flags: int, *rest: Any, **given: Any) -> int:
        return (
            refuse(path)
            if flags & (os.O_WRONLY | os.O_RDWR)
            else open_(path, flags, *rest, **given)
        )

    open_ = os.open
    monkeypatch.setattr(os, "open", opened)
    for name in ("unlink", "rmdir", "mkdir", "link", "rename", "replace"):
        monkeypatch.setattr(os, name, refuse)
