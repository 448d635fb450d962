"""The command cdc: runs the job of a configuration, and shows and changes what it keeps.

    run         copies, then follows until a signal, or with --once until it has caught up
    status      how far the copy and the log are; exit code 1 if a table is parked or the slot is in danger
    verify      compares tables with the source; exit code 1 if they differ
    pause       leaves a table out from the next round on
    resume      takes a parked or paused table in again, by a new copy
    drop-slot   ends the job at the source: its log is no longer held

The work is done by `widetable_cdc`, which is imported here only. Raises UnsupportedError without its packages.
"""

from __future__ import annotations

import importlib
import logging
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from widetable.cli.actions.past import check_only
from widetable.cli.command import DONE, FOUND
from widetable.cli.output.console import write_result
from widetable.cli.output.log_output import logged
from widetable.cli.output.stop_signals import stop_on_signals
from widetable.errors import InvalidError
from widetable.runtime.extra_package import extra_package

_TAKES_TABLE: Final = ("pause", "resume", "verify")
_NEEDS_TABLE: Final = ("pause", "resume")


def cdc(
    action: str,
    file: str,
    table: str | None,
    once: bool,
    recopy: bool,
    quiet: bool,
    metrics: str | None,
    format: str,
) -> int:
    """Print the state of the job, or of its tables; for run, after it has ended."""
    check_only(
        "cdc", action, ["run"], {"--once": once, "--quiet": quiet, "--metrics": metrics is not None}
    )
    check_only("cdc", action, ["resume"], {"--recopy": recopy})
    check_only("cdc", action, _TAKES_TABLE, {"TABLE": table is not None})
    if table is None and action in _NEEDS_TABLE:
        raise InvalidError(
            f"widetable cdc {action}",
            found="no TABLE",
            expected="a table of the source, as schema.table",
            action="Run widetable cdc --help.",
        )
    package = extra_package("widetable_cdc", f"widetable cdc {action}", "cdc")
    job = package.Sync(package.read_config(file))
    if action == "run":
        serving = nullcontext() if metrics is None else _serving(job.config, metrics)
        with serving:
            return _run(job, once=once, quiet=quiet, format=format)
    if action == "verify":
        return _verify(job, table, format)
    if action == "pause":
        job.pause(table)
    elif action == "resume":
        job.resume(table, recopy=recopy)
    elif action == "drop-slot":
        job.drop_slot()
    return _write_status(job.status(), format)


# One line a round goes to standard error; the status at the end is the result.
def _run(job: Any, *, once: bool, quiet: bool, format: str) -> int:
    with logged(logging.WARNING if quiet else logging.INFO), stop_on_signals() as stop:
        status = job.run("caught-up" if once else None, stop)
    return _write_status(status, format)


def _serving(config: Any, address: str) -> AbstractContextManager[int]:
    endpoint = importlib.import_module("widetable_cdc.measures.metrics_endpoint")
    serving: AbstractContextManager[int] = endpoint.metrics_endpoint(config, address)
    return serving


def _write_status(status: Any, format: str) -> int:
    write_result(format, status.to_dict(), status.lines())
    return FOUND if status.needs_attention else DONE


def _verify(job: Any, table: str | None, format: str) -> int:
    report = job.verify(table)
    write_result(format, report.to_dict(), report.lines())
    return DONE if report.is_equal else FOUND
