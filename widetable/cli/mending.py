"""Commands for a table that is damaged or has to change: doctor, repair, rollback, alter.

What changes rows only says what it would do, unless it is called with --yes.
"""

from __future__ import annotations

from typing import Annotated

import typer

from widetable.cli.command import FOUND, Debug, Json, Path, told
from widetable.cli.console import tell, tell_json
from widetable.cli.damage_text import doctor_lines, repair_lines, rollback_lines
from widetable.errors import InvalidError
from widetable.table import Table

mending = typer.Typer()
Yes = Annotated[bool, typer.Option("--yes", help="Do it; otherwise only tell what would be done.")]


@mending.command()
def doctor(
    path: Path,
    deep: Annotated[
        bool, typer.Option("--deep", help="Read every file, instead of looking at its size.")
    ] = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Tell all that is wrong with a table, and what to do. Exit code 0: nothing; 1: findings; 2: no look."""
    with told(debug):
        report = Table.open(path).doctor(deep)
        if json:
            tell_json(report.to_dict())
        else:
            for line, style in doctor_lines(report):
                tell(line, style)
    if not report.ok:
        raise typer.Exit(FOUND)


@mending.command()
def repair(
    path: Path,
    yes: Yes = False,
    deep: Annotated[
        bool, typer.Option(help="Read every live file to find the damaged ones.")
    ] = True,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Take damaged files out of a table, keep what can be read of them, and tell exactly what is gone."""
    with told(debug):
        result = Table.open(path).repair(dry_run=not yes, deep=deep)
        if json:
            tell_json(result.to_dict())
            return
        for line, style in repair_lines(result, is_dry=not yes):
            tell(line, style)


@mending.command()
def rollback(
    path: Path,
    snapshot: Annotated[int | None, typer.Option(help="Go back to this snapshot.")] = None,
    tag: Annotated[str | None, typer.Option(help="Go back to this tag.")] = None,
    timestamp: Annotated[
        int | None, typer.Option(help="Go back to this time, in epoch milliseconds.")
    ] = None,
    yes: Yes = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Give a table the rows of an older snapshot, in a new snapshot. Says first what that undoes."""
    with told(debug):
        result = Table.open(path).rollback(snapshot, timestamp, tag, dry_run=not yes)
        if json:
            tell_json(result.to_dict())
            return
        for line, style in rollback_lines(result, is_dry=not yes):
            tell(line, style)


@mending.command()
def alter(
    path: Path,
    set: Annotated[list[str] | None, typer.Option(help="KEY=VALUE; may be repeated.")] = None,
    unset: Annotated[list[str] | None, typer.Option(help="KEY; may be repeated.")] = None,
    debug: Debug = False,
) -> None:
    """Set and remove options of a table, in one step."""
    with told(debug):
        options = dict(_option(text) for text in set or ())
        if not options and not unset:
            raise InvalidError(
                "--set and --unset",
                found="neither",
                expected="one of them at least",
                action="Say which options to change.",
            )
        table = Table.open(path)
        table.alter_options(options, unset or ())
        tell(f"schema {table.schema.id}")


def _option(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if key and equals:
        return key.strip(), value.strip()
    raise InvalidError(
        "--set",
        found=repr(text),
        expected="KEY=VALUE",
        action="Write the option, an equals sign, and its value.",
    )
