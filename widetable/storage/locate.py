"""Which FileIO serves a path or URL.

A storage that cannot publish exclusively, or that this version does not serve, is refused by name.
"""

from __future__ import annotations

import os
import re
from typing import Final
from urllib.parse import unquote, urlsplit

from widetable.arguments import path as checked
from widetable.arguments import refused
from widetable.errors import NotFoundError, UnsupportedError
from widetable.storage.file_io import FileIO
from widetable.storage.local import LocalFileIO

_SCHEME: Final = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+:")


def locate(where: str | os.PathLike[str], *, fsync: bool = True) -> tuple[FileIO, str]:
    """The storage of a path or URL, and the path on it without a trailing slash. Raises
    UnsupportedError for other schemes, InvalidError for what is none of both, NotFoundError for a relative one in a
    working directory that has gone.
    """
    path = url = checked(where, "path")
    if _SCHEME.match(url):
        try:
            parts = urlsplit(url)
        except ValueError as cause:  # brackets that are no IPv6 address
            raise refused(url, "path", f"a path or file: URL ({cause})") from cause
        if parts.scheme.lower() != "file" or parts.netloc not in ("", "localhost"):
            raise UnsupportedError(
                f"path {url!r}",
                found=f"the storage {parts.scheme!r}",
                expected="a local path or a file: URL",
                action="Use a local disk; object stores come with a later version.",
            )
        path = checked(unquote(parts.path), "path")
    try:
        return LocalFileIO(fsync=fsync), os.path.abspath(os.path.expanduser(path))
    except FileNotFoundError as cause:
        raise NotFoundError(
            f"path {url!r}",
            found="a working directory that has gone",
            expected="one that it is relative to",
            action="Go to a directory that is there, or give a whole path.",
        ) from cause
