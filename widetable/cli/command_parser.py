"""What the words of a command line mean, and the help, both from the table of commands.

Raises InvalidError for words that do not fit; help is written to standard output and ends the process.

    widetable read PATH --limit 10    {"path": "PATH", "limit": 10, "columns": None, .., "debug": False}

Every argument of the command is there, given or not. Values are what argparse makes of them (texts, whole numbers,
lists, flags); what they mean is checked by the command.
"""

from __future__ import annotations

import argparse
from typing import Any, Final, NoReturn

from widetable.cli.command import DEBUG, Command
from widetable.cli.commands import GROUPS
from widetable.cli.output.console import write_text
from widetable.cli.output.documentation import pages_folder
from widetable.errors import InvalidError

_OVERVIEW: Final = """\
usage: widetable COMMAND ...

Wide primary-key tables in Apache Paimon's format: look after them.

{commands}

examples:
  widetable inspect /warehouse/shop.db/users
  widetable maintain --once /warehouse/shop.db/users

Every command has --help, with its arguments and examples, and --debug, which adds warnings
and the traceback to an error; widetable --version says which this is. Exit codes: 0 done;
1 findings, of audit and doctor, or writers that meta has not heard of for ten minutes;
2 an error, which is one line on standard error; 130 interrupted; 141 nobody reads the output.
Pages that errors name, docs/..., are in {pages}.
"""


class _CommandParser(argparse.ArgumentParser):
    """argparse would print its errors itself, in several lines, and end the process with the same code as ours."""

    color: bool  # of Python 3.14

    def error(self, message: str) -> NoReturn:
        # argparse calls it for all that does not fit. The usage in one line says what would.
        raise InvalidError(
            self.prog,
            found=f"arguments that do not fit: {message}",
            expected=" ".join(self.format_usage().removeprefix("usage: ").split()),
            action=f"Run {self.prog} --help.",
        )

    def print_help(self, file: Any = None) -> None:
        write_text(self.format_help())  # argparse would pass over what a full disk refuses


def parsed(command: Command, words: list[str]) -> dict[str, Any]:
    """The values of the command's arguments, and `debug`, by their names.

    Options may stand anywhere between the others (intermixed). They are not abbreviated: a script
    that did would break with the next option that begins alike.
    """
    parser = _CommandParser(
        prog=f"widetable {command.name}",
        description=f"{command.summary}\n{command.notes}".strip(),
        epilog="\n  ".join(["examples:", *command.examples]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.color = False  # an error holds the usage, as plain text
    for name, settings in (*command.arguments, DEBUG):
        parser.add_argument(name, **settings)
    return vars(parser.parse_intermixed_args(words))


def overview() -> str:
    """All commands by their groups, one line each."""
    lines: list[str] = []
    for group, commands in GROUPS.items():
        lines += ["", f"{group}:", *(f"  {one.name:<12}{one.summary}" for one in commands)]
    return _OVERVIEW.format(commands="\n".join(lines[1:]), pages=pages_folder())
