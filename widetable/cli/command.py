"""What all commands have in common: their arguments, exit codes, and how an error ends them."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator
from typing import Annotated, Final

import typer

from widetable.cli.console import tell_error

FOUND: Final = 1
FAILED: Final = 2

Path = Annotated[str, typer.Argument(help="The table's directory, or its file: URL.")]
Json = Annotated[bool, typer.Option("--json", help="For programs: one JSON object.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only tell what would go.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


@contextlib.contextmanager
def told(debug: bool) -> Iterator[None]:
    """Errors become one line, and the exit code."""
    try:
        yield
    except (BrokenPipeError, MemoryError, typer.Exit, typer.Abort):
        raise  # whoever read the output has had enough, nothing can be told, or it is an end
    except Exception as error:  # noqa: BLE001
        tell_error(error)
        if debug:
            traceback.print_exc()
        raise typer.Exit(FAILED) from None
