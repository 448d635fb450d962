"""The lookup caches of this process, if they are installed. Only this module knows the optional package.

widetable itself needs no RocksDB: without the package, or with caches turned off, lookups read the data files. The
reason for missing caches is logged once: at info level, or as a warning where caches should work. Raises nothing.
"""

from __future__ import annotations

import importlib
import logging
from typing import Any, Final, cast

from widetable.errors import WidetableError
from widetable.lsm.file_rows import Caches
from widetable.lsm.lookup_cost import SCAN_STRATEGY
from widetable.messages.warning_code import WarningCode, warn
from widetable.runtime.forked_child import UNFORKABLE
from widetable.schema import options as opt
from widetable.write.table_state import TableState

_PACKAGE: Final = "widetable_lookup"
_log = logging.getLogger("widetable")
# Reasons that were logged. There are few: texts of options, of failed imports and of refused directories.
_logged: set[str] = set()


def caches_of(table: TableState) -> Caches | None:
    """Return the lookup caches for a table's data files.

    Parameters
    ----------
    table : TableState
        The table.

    Returns
    -------
    Caches or None
        The caches of the process, shared by all of its tables; the caller closes the files that it opens, never the
        caches. None: there are none, or the strategy of the table is `scan`.
    """
    if table.options.get(opt.LOOKUP_STRATEGY) == SCAN_STRATEGY:
        return None
    if not table.options.get(opt.LOOKUP_CACHE_MAX_DISK_SIZE):
        _log_once(f"option {opt.LOOKUP_CACHE_MAX_DISK_SIZE.key!r} is 0")
        return None
    try:
        package = _package()
        return package and cast("Caches", package.process_caches(table.options))
    except (WidetableError, OSError) as cause:
        _log_once(str(cause), logging.WARNING)
    return None


def complete_caches(path: str) -> list[tuple[Any, ...]]:
    """Return the caches of a table on this host, whichever process made them.

    Each has its directory, data file, schema id, rows, bytes on the disk and last use (epoch milliseconds). There are
    none where the package is not installed.
    """
    package = _package()
    return [] if package is None else list(package.complete_caches(path))


def _package() -> Any:
    """Return the optional package, or None where it is not installed."""
    try:
        with UNFORKABLE:  # a child forked during the import would wait for it forever
            return importlib.import_module(_PACKAGE)
    except ImportError as missing:
        _log_once(f"{missing}; install widetable[lookup]")
        return None


def _log_once(reason: str, level: int = logging.INFO) -> None:
    if reason not in _logged:
        _logged.add(reason)
        warn(
            _log,
            WarningCode.NO_CACHE,
            "no lookup caches, rows are found in the data files: %s",
            reason,
            level=level,
        )
