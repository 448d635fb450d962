"""Parses the words of a command line, and prints the help, both from the table of commands.

Raises InvalidError for wrong arguments; --help writes to standard output and ends the process.

    widetable read PATH --limit 10    {"path": "PATH", "limit": 10, "columns": None, .., "debug": False}

The result has every argument of the command, given or not. argparse makes the values (texts, whole numbers, lists,
flags); the command checks their meaning.
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

Create, fill, inspect and maintain wide tables in Apache Paimon's format.

{commands}

examples:
  widetable inspect /warehouse/shop.db/users
  widetable maintain --once /warehouse/shop.db/users

Every command has --help, which shows its arguments and examples, and --debug, which adds
warnings and the traceback to an error. widetable --version prints the version.
Exit codes: 0 done; 1 audit or doctor has findings, or meta has not heard of a writer for ten
minutes; 2 an error, printed as one line on standard error; 130 interrupted; 141 nobody reads
the output. The pages that errors cite as docs/... are in {pages}.
"""


class _CommandParser(argparse.ArgumentParser):
    """A parser that raises InvalidError. argparse itself would print several lines, and end the process."""

    color: bool  # since Python 3.14

    def error(self, message: str) -> NoReturn:
        # argparse calls this method for every wrong argument. The usage, in one line, shows what is expected.
        raise InvalidError(
            self.prog,
            found=f"wrong arguments: {message}",
            expected=" ".join(self.format_usage().removeprefix("usage: ").split()),
            action=f"Run {self.prog} --help.",
        )

    def print_help(self, file: Any = None) -> None:
        write_text(self.format_help())  # argparse would ignore the error of a full disk


def parsed(command: Command, words: list[str]) -> dict[str, Any]:
    """Return the values of the command's arguments, and `debug`, by their names.

    Options and other arguments may be mixed. Options cannot be abbreviated, because a script that did so would break
    when a new option has the same beginning.
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
    """Return the help of the program: all commands by groups, one line each."""
    lines: list[str] = []
    for group, commands in GROUPS.items():
        lines += ["", f"{group}:", *(f"  {one.name:<12}{one.summary}" for one in commands)]
    return _OVERVIEW.format(commands="\n".join(lines[1:]), pages=pages_folder())
