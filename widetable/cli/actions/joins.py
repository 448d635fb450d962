"""The command for tables that hold a join: made with `add`, kept with `run`.

    add     makes the table, empty, and writes the join into its options
    run     round after round until a signal, or one with --once; needs the path alone, as the table says what it joins

Several processes may run one join: each round one of them commits, the others give way. Raises InvalidError for
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
    """Prints where the table is, or what the last round did.

    Only --once has a result: without it rounds are logged, so --json would have nothing to print.
    """
    of_add: dict[str, Any] = {"left": left, "right": right, "on": on, "how": how}
    of_add |= {"max-matches": max_matches, "set": set}
    of_run: dict[str, Any] = {"once": once, "interval": interval, "quiet": quiet}
    for name, value in (of_run if action == "add" else of_add).items():
        if value not in (None, False):
            raise _wrong(name, action, "it", "an argument of the other action")
    if format == "json" and action == "run" and not once:
        raise _wrong("format json", action, "it without --once", "rounds of which none is the last")
    if action == "run":
        return _run(path, once=once, interval=interval, quiet=quiet, format=format)
    if not (left and right and on):
        missing = next(name for name, value in of_add.items() if not value)
        raise _wrong(missing, action, "no value", "what is to be joined")
    # left and right are names in the warehouse of the path: a join has its three tables in one catalog.
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


# The table is opened before the log begins: who mistypes the path gets the error at once. The join is
# read from the table's options each round.
def _run(path: str, *, once: bool, interval: str | None, quiet: bool, format: str) -> int:
    table = Table.open(path)
    wait_millis = millis_of(interval or "1 s", "--interval")
    with logged(logging.WARNING if quiet else logging.INFO), stop_on_signals() as stop:
        if once:
            done = _round(table)
            write_result(format, asdict(done), [_said(done)])
        else:
            _keep(table, wait_millis / 1000, stop)
    return DONE


def _keep(table: Table, wait_seconds: float, stop: threading.Event) -> None:
    """Round after round; a storage that refuses may answer again. All other errors end the command: they come again.

    The first signal is seen between rounds: one that is under way is done to its end. Rounds that had
    nothing to do are not logged.
    """
    while not stop.is_set():
        try:
            done = _round(table)
        except StorageError as error:
            warn(_log, WarningCode.JOIN_GOES_AGAIN, "the join %s goes again: %s", table.path, error)
        else:
            if done.snapshot_id is not None:
                _log.info("%s: %s", table.path, _said(done))
        stop.wait(wait_seconds)


def _round(table: Table) -> JoinRound:
    """What the round did. `join_round` gives None for a table that holds no join."""
    done = join_round(table)
    if done is not None:
        return done
    raise InvalidError(
        table.path,
        found="a table that holds no join",
        expected="one that was made with `widetable join add`",
        action="Name that table.",
    )


def _said(done: JoinRound) -> str:
    # The counts of a round that gave way are zeros, which would read as nothing to do.
    if done.gave_way:
        return "another joiner is at it"
    return (
        f"snapshots {done.left_snapshot} and {done.right_snapshot}: "
        f"{counted(done.rows_added, 'row')} added, {done.rows_removed} removed"
    )


def _wrong(name: str, action: str, found: str, expected: str) -> InvalidError:
    return InvalidError(
        f"--{name} of join {action}",
        found=found,
        expected=expected,
        action="Run widetable join --help.",
    )
