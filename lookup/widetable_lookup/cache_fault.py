"""Faults of a cache: internal to this package; its callers never see them.

A cache is a copy. If it cannot be built, opened or read, one warning names its directory, the cache is dropped, and
rows are read from the data file again.
"""

from __future__ import annotations

import logging

LOGGER = logging.getLogger("widetable")


class CacheFault(Exception):
    """The cache cannot be built or is damaged. The text names the file and what was found."""


class NoCache(CacheFault):
    """There is no usable cache, and no fault: it is from before the host started, or only remains of it exist."""
