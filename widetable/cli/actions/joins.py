"""The command join: `add` creates a table that holds a join, `run` keeps it up to date.

    add     creates the table, empty, and stores the join in its options
    run     runs rounds until a signal, or one round with --once; it needs only the path, because the table has the join

Several processes may run one join: in each round one of them commits, and the others give way. Raises InvalidError for
arguments of the other action and for a table that holds no join.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import asdict
from typing import Any

from widetable.catalog import Catalog
from widetable.cli.actions.tables import place_of
from widetable.cli.command import DONE
from widetable.cli.input.duration import millis_of
from widetable.cli.input.option_words import equal_names_of, options_of
from widetable.cli.output.console import write_result
from widetable.cli.output.log_output import logged
from widetable.cli.output.stop_signals import stop_on_signals
from widetable.delta_join import DeltaJoin
from widetable.derive.joins.delta_join import JoinRound, join_round
from widetable.errors import InvalidError, StorageError
from widetable.messages.counted import counted
from widetable.messages.warning_code import WarningCode, warn
from widetable.schema import join_options
from widetable.table import Table

_log = logging.getLogger("widetable")


def join(
    action: str,
    path: str,
    left: str | None,
    right: str | None,
    on: str | None,
    how: str | None,
    max_matches: int | None,
    set: list[str] | None,
    once: bool,
    interval: str | None,
    quiet: bool,
    format: str,
) -> int:
    """Print the path of the new table, or the result of the last round.

    Only --once has a result: without it rounds are logged, so --json would have nothing to print.
    """
    add_arguments: dict[str, Any] = {"left": left, "right": right, "on": on, "how": how}
    add_arguments |= {"max-matches": max_matches, "set": set}
    run_arguments: dict[str, Any] = {"once": once, "interval": interval, "quiet": quiet}
    other, others = ("run", run_arguments) if action == "add" else ("add", add_arguments)
    for name, value in others.items():
        if value not in (None, False):
            raise _wrong(
                name, action, f"an argument of join {other}", f"an argument of join {action}"
            )
    if format == "json" and action == "run" and not once:
        raise _wrong("format json", action, "no --once", "--once, because only it has a result")
    if action == "run":
        return _run(path, once=once, interval=interval, quiet=quiet, format=format)
    if not (left and right and on):
        missing = next(name for name, value in add_arguments.items() if not value)
        raise _wrong(missing, action, "no value", "a value")
    # left and right are names in the warehouse of the path: the three tables of a join have one catalog.
    warehouse, name = place_of(path)
    table = DeltaJoin(
        Catalog(warehouse),
        name,
        left,
        right,
        equal_names_of(on, "--on"),
        how or "inner",
        join_options.MAX_MATCHES.default if max_matches is None else max_matches,
    ).create(options_of(set))
    write_result(format, {"path": table.path}, [table.path])
    return DONE


# The table is opened before the log begins, so a mistyped path is an error at once. Each round reads the join from the
# table's options.
def _run(path: str, *, once: bool, interval: str | None, quiet: bool, format: str) -> int:
    table = Table.open(path)
    wait_millis = millis_of(interval or "1 s", "--interval")
    with logged(logging.WARNING if quiet else logging.INFO), stop_on_signals() as stop:
        if once:
            done = _round(table)
            write_result(format, asdict(done), [_round_text(done)])
        else:
            _run_rounds(table, wait_millis / 1000, stop)
    return DONE


def _run_rounds(table: Table, wait_seconds: float, stop: threading.Event) -> None:
    """Run rounds until `stop` is set. A StorageError is retried; other errors would recur, so they end the command.

    The first signal takes effect between rounds: a running round is finished. Rounds that had nothing to do are not
    logged.
    """
    while not stop.is_set():
        try:
            done = _round(table)
        except StorageError as error:
            warn(_log, WarningCode.JOIN_RETRIED, "the join %s is retried: %s", table.path, error)
        else:
            if done.snapshot_id is not None:
                _log.info("%s: %s", table.path, _round_text(done))
        stop.wait(wait_seconds)


def _round(table: Table) -> JoinRound:
    """Run one round and return its result. Raises InvalidError for a table that holds no join."""
    done = join_round(table)
    if done is not None:
        return done
    raise InvalidError(
        table.path,
        found="a table that holds no join",
        expected="a table that `widetable join add` has created",
        action="Name that table.",
    )


def _round_text(done: JoinRound) -> str:
    # The counts of a round that gave way are zeros, which would look like nothing to do.
    if done.gave_way:
        return "another joiner is at work"
    return (
        f"snapshots {done.left_snapshot} and {done.right_snapshot}: "
        f"{counted(done.rows_added, 'row')} added, {done.rows_removed} removed"
    )


def _wrong(name: str, action: str, actual: str, expected: str) -> InvalidError:
    return InvalidError(
        f"--{name} of join {action}",
        found=actual,
        expected=expected,
        action="Run widetable join --help.",
    )
