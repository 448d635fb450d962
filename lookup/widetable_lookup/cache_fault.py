"""What goes wrong with a cache: internal to this package, whose callers never see it.

A cache is a copy. When it cannot be built, opened or read, one warning names its directory, the cache is dropped, and
rows come from the data file again.
"""

from __future__ import annotations

import logging

LOGGER = logging.getLogger("widetable")


class CacheFault(Exception):
    """The cache cannot be built or is damaged. The text names the file and what was found."""


class NoCache(CacheFault):
    """There is nothing to use, and nothing went wrong: a cache from before the host started, or what is left of one."""
