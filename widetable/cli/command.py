"""The description of a command: its name, arguments, help and module; and arguments that many commands share.

Data only, so that the parser, the help and the completion scripts come from the same table and never differ. The
argument `--time-retained`, or its `dest`, is the keyword `time_retained` of the command's function.
"""

from __future__ import annotations

from argparse import BooleanOptionalAction
from dataclasses import dataclass
from typing import Any, Final

# Exit codes. FOUND: the command is done, and has findings.
DONE: Final = 0
FOUND: Final = 1
FAILED: Final = 2

# The name or flag, and the other arguments of `ArgumentParser.add_argument`.
Argument = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Command:
    """A command. name: the name of the command and of the function in its module.

    module: below widetable.cli.actions. summary: one line; notes: further lines for the help of the command.
    arguments: in the order of the help. examples: whole command lines.
    """

    name: str
    module: str
    summary: str
    arguments: tuple[Argument, ...]
    examples: tuple[str, ...]
    notes: str = ""


def argument(name: str, help: str, **settings: Any) -> Argument:
    """Describe an argument. settings: those of `ArgumentParser.add_argument`; shells complete its `choices`."""
    return name, {"help": help, **settings}


def flag(name: str, help: str) -> Argument:
    """Describe an option without a value."""
    return argument(name, help, action="store_true")


def many(name: str, help: str, metavar: str) -> Argument:
    """Describe an option that may be repeated. The function gets the list of its values, or None."""
    return argument(name, help, action="append", metavar=metavar)


def on_or_off(name: str, help: str) -> Argument:
    """Describe an option that has a --no- form and is on by default."""
    settings = {"action": BooleanOptionalAction, "default": True}
    return argument(name, f"{help} (default: {name})", **settings)


def time(name: str, help: str, **settings: Any) -> Argument:
    """Describe a duration with its unit. The parser keeps the text; `duration.millis_of` reads it as in options."""
    return argument(name, help, metavar="TIME", **settings)


def moment(name: str, help: str) -> Argument:
    """Describe a moment. The parser keeps the text; `moment.epoch_millis` reads it as in Python."""
    return argument(
        name,
        f"{help}: 2026-11-27T10:00 (local time), 2026-11-27T10:00Z, or epoch milliseconds.",
        metavar="MOMENT",
    )


def number(name: str, help: str, metavar: str, **settings: Any) -> Argument:
    """Describe a whole number."""
    return argument(name, help, type=int, metavar=metavar, **settings)


DEBUG: Final = flag("--debug", "Show the traceback of an error.")
PATH: Final = argument("path", "The table's directory or URL.", metavar="PATH")
# Two spellings of one value, `format`. If both are on the line, the last one counts.
FORMATS: Final = (
    argument(
        "--format",
        "The output format: table, or json, one JSON object for programs (default: %(default)s).",
        choices=("table", "json"),
        default="table",
    ),
    argument(
        "--json", "The same as --format json.", action="store_const", dest="format", const="json"
    ),
)
SOURCE: Final = (
    argument("--columns", "Print only these columns, separated by commas.", metavar="NAMES"),
    argument(
        "--format",
        "The output format. json: one object per line (default: %(default)s); table: aligned text.",
        choices=("json", "csv", "parquet", "table"),
        default="json",
    ),
    argument(
        "--output",
        "Write to this new file, or file: URL; by default, or with -, to standard output.",
        metavar="FILE",
    ),
)
DRY_RUN: Final = flag("--dry-run", "Only print what would be removed.")
YES: Final = flag("--yes", "Make the change; without it the command only prints what it would do.")
EXAMPLE: Final = "/warehouse/shop.db/users"
