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
from widetable.storage.object_store import SCHEMES, ObjectStoreFileIO

_SCHEME: Final = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+:")


def locate(where: str | os.PathLike[str], *, fsync: bool = True) -> tuple[FileIO, str]:
    """The storage of a path or URL, and the path on it without a trailing slash. Raises
    UnsupportedError for other schemes, InvalidError for what is none of both, NotFoundError for a relative one in a
    working directory that has gone.
    """
    url = checked(where, "path")
    if url.partition("://")[0].lower() in SCHEMES:
        return _in_store(url)
    return LocalFileIO(fsync=fsync), local_path(url)


def local_path(where: str | os.PathLike[str]) -> str:
    """The whole path of a file or directory on a disk of this machine, which may be given as a file: URL. Raises as
    `locate`, and UnsupportedError for what lies elsewhere.
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
                expected=f"a local path or a file: URL; a table may be in a bucket ({', '.join(SCHEMES)})",
                action="Use a place that is served.",
            )
        path = checked(unquote(parts.path), "path")
    try:
        return os.path.abspath(os.path.expanduser(path))
    except FileNotFoundError as cause:
        raise NotFoundError(
            f"path {url!r}",
            found="a working directory that has gone",
            expected="one that it is relative to",
            action="Go to a directory that is there, or give a whole path.",
        ) from cause


def _in_store(url: str) -> tuple[FileIO, str]:
    """The path is the URL itself, as Paimon has it: nothing in it is encoded."""
    scheme, _, rest = url.partition("://")
    bucket, _, key = rest.partition("/")
    names = [name for name in key.split("/") if name]
    if not bucket or {".", ".."} & {*names}:
        raise refused(url, "path", "a URL with a bucket, such as s3://bucket/warehouse")
    root = f"{scheme.lower()}://{bucket}"
    return ObjectStoreFileIO(root), "/".join([root, *names])
