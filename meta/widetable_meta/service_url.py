"""URLs of instances of the service, such as `http://host:9096`. Raises InvalidError.

given               read as
http://h:9096/      http://h:9096
https://h/base/     https://h/base       behind a proxy that serves it below a path
h:9096, http://h:x, http://h?q           refused
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from widetable.connector import arguments


def service_url(url: str, what: str) -> str:
    """Return the URL without slashes at its end. what: the name of the argument, for messages."""
    try:
        parts = urlsplit(arguments.text(url, what))
        is_one = bool(parts.scheme in ("http", "https") and parts.hostname)
        is_one = is_one and not (parts.query or parts.fragment)
        _ = parts.port
    except ValueError:
        is_one = False
    if not is_one:
        raise arguments.refused(url, what, "the URL of an instance, such as http://host:9096")
    return url.rstrip("/")


def service_urls(urls: Any, what: str) -> list[str]:
    """Return one URL or more, each once."""
    checked = [service_url(url, what) for url in arguments.names(urls, what)]
    if not checked:
        raise arguments.refused(urls, what, "one URL or more")
    return checked
