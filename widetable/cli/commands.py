"""The table of commands: for each its group, its arguments, what the help says, and the module that carries it out.

A command `name` is the function `name` of its module, called with one keyword for each argument; it returns the exit
code. The modules, and with them the engine, are imported when a command is called: help comes without them.
"""

from __future__ import annotations

from argparse import BooleanOptionalAction
from dataclasses import dataclass
from typing import Any, Final

from widetable.operations.audit_report import FINDINGS_PER_LAW

DONE: Final = 0
FOUND: Final = 1
FAILED: Final = 2

# Name or flag, and what `ArgumentParser.add_argument` takes besides.
Argument = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Command:
    """module: below widetable.cli. summary: one line; notes: more of them, for the help of the command."""

    name: str
    group: str
    module: str
    summary: str
    arguments: tuple[Argument, ...]
    examples: tuple[str, ...]
    notes: str = ""


def _argument(name: str, help: str, **settings: Any) -> Argument:
    return name, {"help": help, **settings}


def _flag(name: str, help: str) -> Argument:
    return _argument(name, help, action="store_true")


def _on_or_off(name: str, help: str) -> Argument:
    settings = {"action": BooleanOptionalAction, "default": True}
    return _argument(name, f"{help} (default: {name})", **settings)


def _time(name: str, help: str, **settings: Any) -> Argument:
    return _argument(name, help, metavar="TIME", **settings)


def _number(name: str, help: str, metavar: str, **settings: Any) -> Argument:
    return _argument(name, help, type=int, metavar=metavar, **settings)


DEBUG: Final = _flag("--debug", "Show the traceback of an error.")
_PATH: Final = _argument("path", "The table's directory, or its file: URL.", metavar="PATH")
_JSON: Final = _flag("--json", "For programs: one JSON object.")
_DRY_RUN: Final = _flag("--dry-run", "Only say what would go.")
_YES: Final = _flag("--yes", "Do it; otherwise only say what would be done.")
_T: Final = "/warehouse/shop.db/users"

_COMMANDS: Final = (
    Command(
        "inspect",
        "look at a table",
        "reports",
        "Say what state a table is in: snapshots, files, what waits, warnings.",
        (_PATH, _JSON),
        (f"widetable inspect {_T}", f"widetable inspect --json {_T}"),
    ),
    Command(
        "explain",
        "look at a table",
        "reports",
        "Say why a key has its values: which record each is from, what became of the others.",
        (
            _PATH,
            _argument(
                "key",
                "column=value for each column of the primary key, or the value of its only one.",
                metavar="KEY",
                nargs="+",
            ),
            _number("--snapshot", "As of this snapshot.", "ID"),
            _argument("--tag", "As of this tag.", metavar="NAME"),
            _JSON,
        ),
        (
            f"widetable explain {_T} 7",
            f"widetable explain {_T} user=7 day=2026-01-31 --snapshot 120",
        ),
    ),
    Command(
        "audit",
        "look at a table",
        "reports",
        "Check the laws of the format and of the changelog.",
        (
            _argument(
                "--from",
                "Snapshot id or tag onto whose rows the changelog is folded; 0: the empty table. By default the "
                "oldest snapshot.",
                dest="start",
                metavar="SNAPSHOT",
            ),
            _number(
                "--findings",
                "How many findings of each law to print (default: %(default)s).",
                "NUMBER",
                default=FINDINGS_PER_LAW,
            ),
            _PATH,
            _JSON,
        ),
        (f"widetable audit {_T}", f"widetable audit --from 120 --findings 3 {_T}"),
        "Exit code 0: all hold; 1: findings; 2: no audit.",
    ),
    Command(
        "doctor",
        "look at a table",
        "mending",
        "List all that is wrong with a table, and what to do.",
        (_flag("--deep", "Read every file, instead of looking at its size."), _PATH, _JSON),
        (f"widetable doctor {_T}", f"widetable doctor --deep {_T}"),
        "Exit code 0: nothing is wrong; 1: findings; 2: no look.",
    ),
    Command(
        "changes",
        "look at a table",
        "reports",
        "Write the changes of a range of snapshots, with their kind in the column _row_kind.",
        (
            _PATH,
            _number("start", "Snapshot id, exclusive; 0: before the first.", "START"),
            _number("end", "Snapshot id, inclusive.", "END"),
            _argument("--columns", "Comma-separated columns; by default all.", metavar="NAMES"),
            _argument(
                "--format",
                "json: one object per line (default: %(default)s).",
                choices=("json", "csv", "parquet"),
                default="json",
            ),
            _argument("--output", "A new file; by default standard output.", metavar="FILE"),
        ),
        (
            f"widetable changes {_T} 0 12 --columns id,city",
            f"widetable changes {_T} 11 12 --format parquet --output changes.parquet",
        ),
    ),
    Command(
        "maintain",
        "keep it up",
        "upkeep",
        "Keep a table compacted, with its changelog, and expired: until SIGTERM, or once.",
        (
            _PATH,
            _flag("--once", "Do all that is due, then end."),
            _time(
                "--interval",
                "Time between two looks at the table (default: %(default)s).",
                default="1 s",
            ),
            _time(
                "--full-compaction-interval",
                "How often to compact everything when something is new; by default only with "
                "changelog-producer=full-compaction, every minute.",
            ),
            _on_or_off("--expire", "Let old snapshots go"),
            _time(
                "--orphans-older-than",
                "Remove files that nothing names and that are so old, once a day.",
            ),
            _flag("--quiet", "Log warnings and errors only."),
        ),
        (
            f"widetable maintain {_T}",
            f"widetable maintain --once {_T}",
            f'widetable maintain --interval "5 s" --orphans-older-than "2 d" {_T}',
        ),
    ),
    Command(
        "join",
        "keep it up",
        "joins",
        "Make a table that holds the join of two others, and keep it so: until SIGTERM, or once.",
        (
            _argument(
                "action",
                "add or run: make the table, or keep it.",
                metavar="ACTION",
                choices=("add", "run"),
            ),
            _PATH,
            _argument(
                "--left", "add: the left table, db.name in PATH's warehouse.", metavar="TABLE"
            ),
            _argument("--right", "add: the right table.", metavar="TABLE"),
            _argument(
                "--on",
                "add: columns that are equal, left=right, or a name that both have; more after commas.",
                metavar="COLUMNS",
            ),
            _argument("--how", "add: inner (the default) or left.", choices=("inner", "left")),
            _number("--max-matches", "add: rows that a join key may have at most.", "NUMBER"),
            _argument(
                "--set",
                "add: an option of the table. May be repeated.",
                action="append",
                metavar="KEY=VALUE",
            ),
            _flag("--once", "run: one round, then end."),
            _time("--interval", "run: time between two looks at the tables; by default 1 s."),
            _flag("--quiet", "run: log warnings and errors only."),
        ),
        (
            f"widetable join add {_T}_named --left shop.users --right shop.names --on name_id=id",
            f"widetable join run {_T}_named",
        ),
    ),
    Command(
        "expire",
        "keep it up",
        "upkeep",
        "Let old snapshots go, as the table's options say, or as given here.",
        (
            _PATH,
            _number("--retain-min", "Snapshots that stay at least.", "NUMBER"),
            _number("--retain-max", "Snapshots that stay at most.", "NUMBER"),
            _time("--time-retained", "How long a snapshot stays after the next one came."),
            _DRY_RUN,
        ),
        (f"widetable expire --dry-run {_T}", f'widetable expire --time-retained "1 h" {_T}'),
    ),
    Command(
        "orphans",
        "keep it up",
        "upkeep",
        "Remove files that no snapshot, tag or branch names.",
        (
            _PATH,
            _time(
                "--older-than",
                "Only files that were last written so long ago (default: %(default)s).",
                default="1 d",
            ),
            _DRY_RUN,
        ),
        (f"widetable orphans --dry-run {_T}", f'widetable orphans --older-than "7 d" {_T}'),
    ),
    Command(
        "alter",
        "keep it up",
        "mending",
        "Set and remove options of a table, in one step.",
        (
            _PATH,
            _argument("--set", "May be repeated.", action="append", metavar="KEY=VALUE"),
            _argument("--unset", "May be repeated.", action="append", metavar="KEY"),
        ),
        (f'widetable alter {_T} --set write-only=true --set "target-file-size=64 mb"',),
    ),
    Command(
        "repair",
        "mend it",
        "mending",
        "Take damaged files out of a table, keep what can be read, list exactly what is gone.",
        (
            _PATH,
            _YES,
            _on_or_off("--deep", "Read every live file to find the damaged ones"),
            _JSON,
        ),
        (f"widetable repair {_T}", f"widetable repair --yes {_T}"),
        "Changes nothing without --yes.",
    ),
    Command(
        "rollback",
        "mend it",
        "mending",
        "Give a table the rows of an older snapshot, in a new snapshot.",
        (
            _PATH,
            _number("--snapshot", "Go back to this snapshot.", "ID"),
            _argument("--tag", "Go back to this tag.", metavar="NAME"),
            _number("--timestamp", "Go back to this time, in epoch milliseconds.", "MILLIS"),
            _YES,
            _JSON,
        ),
        (f"widetable rollback {_T} --snapshot 120", f"widetable rollback {_T} --tag good --yes"),
        "Says first what that undoes; changes nothing without --yes.",
    ),
    Command(
        "warmup",
        "prepare an installation",
        "installation",
        "Compile all kernels into their cache, as when an image is built.",
        (),
        ("widetable warmup", "NUMBA_CACHE_DIR=/opt/kernels widetable warmup"),
        "Later processes compile nothing, given the same cache, package and kind of processor;\n"
        "NUMBA_CPU_NAME=generic, then and later, makes them fit every processor.",
    ),
)
COMMANDS: Final = {command.name: command for command in _COMMANDS}
