"""What a command is: its name, group, arguments, help, the module that carries it out; and arguments that many have.

Data only, so that the parser, the help and the scripts for shells are made of the same table and never differ. An
argument `--time-retained`, or its `dest`, is the keyword `time_retained` of the command's function.
"""

from __future__ import annotations

from argparse import BooleanOptionalAction
from dataclasses import dataclass
from typing import Any, Final

# Exit codes; FOUND: done, and something is wrong with the table.
DONE: Final = 0
FOUND: Final = 1
FAILED: Final = 2

# Name or flag, and what `ArgumentParser.add_argument` takes besides.
Argument = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Command:
    """module: below widetable.cli.actions. summary: one line; notes: more of them, for the help of the command.

    name: of the command and of the function in its module. arguments: in the order of the help. examples: whole
    command lines.
    """

    name: str
    module: str
    summary: str
    arguments: tuple[Argument, ...]
    examples: tuple[str, ...]
    notes: str = ""


def argument(name: str, help: str, **settings: Any) -> Argument:
    """Any. settings: of `ArgumentParser.add_argument`; those named choices are what shells complete, too."""
    return name, {"help": help, **settings}


def flag(name: str, help: str) -> Argument:
    """Without a value."""
    return argument(name, help, action="store_true")


def many(name: str, help: str, metavar: str) -> Argument:
    """May be given several times. The function gets the list of its values, None without any."""
    return argument(name, help, action="append", metavar=metavar)


def on_or_off(name: str, help: str) -> Argument:
    """With its --no- form; on by default."""
    settings = {"action": BooleanOptionalAction, "default": True}
    return argument(name, f"{help} (default: {name})", **settings)


def time(name: str, help: str, **settings: Any) -> Argument:
    """A time with its unit. It stays a text for the parser: `duration.millis_of` reads it, by the rules of options."""
    return argument(name, help, metavar="TIME", **settings)


def moment(name: str, help: str) -> Argument:
    """A moment. It stays a text for the parser: `moment.epoch_millis` reads it, as it does in Python."""
    return argument(
        name,
        f"{help}: 2026-11-27T10:00 (local time), 2026-11-27T10:00Z, or epoch milliseconds.",
        metavar="MOMENT",
    )


def number(name: str, help: str, metavar: str, **settings: Any) -> Argument:
    """A whole number."""
    return argument(name, help, type=int, metavar=metavar, **settings)


DEBUG: Final = flag("--debug", "Show the traceback of an error.")
PATH: Final = argument("path", "The table's directory or URL.", metavar="PATH")
# In two spellings; the function gets `format`. Of both the last one on the line counts.
FORMATS: Final = (
    argument(
        "--format",
        "table, or json: one JSON object for programs (default: %(default)s).",
        choices=("table", "json"),
        default="table",
    ),
    argument(
        "--json", "The same as --format json.", action="store_const", dest="format", const="json"
    ),
)
SOURCE: Final = (
    argument("--columns", "Comma-separated columns; by default all.", metavar="NAMES"),
    argument(
        "--format",
        "json: one object per line (default: %(default)s); table: columns of text.",
        choices=("json", "csv", "parquet", "table"),
        default="json",
    ),
    argument(
        "--output",
        "A new file, or its file: URL; by default, or with -, standard output.",
        metavar="FILE",
    ),
)
DRY_RUN: Final = flag("--dry-run", "Only say what would go.")
YES: Final = flag("--yes", "Do it; otherwise only say what would be done.")
EXAMPLE: Final = "/warehouse/shop.db/users"
