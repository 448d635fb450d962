"""The command `widetable`: finds the command in the table, calls it, and turns errors into one line and an exit code.

Out: the exit code. With --debug the traceback follows the line of an error. Raises MemoryError, because no message can
be built then, and SystemExit after help.

    words ─► table of commands ─► parser ─► module of the command, imported now ─► its function ─► exit code

    code    what happened                           output
    0       done                                    the result, on standard output; warnings on standard error
    1       done, and there are findings            the same
    2       any error, also of arguments            one line on standard error; --debug: warnings and traceback, too
    130     SIGINT                                  nothing
    141     nobody reads the output (`| head`)      nothing

Until the command is known, only the standard library and light modules are imported, so the answer to --help or to a
mistyped name comes at once (tests/widetable/cli/test_light_imports.py).
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from importlib import import_module
from itertools import takewhile
from typing import Any, Final

from widetable.cli.command import DONE, FAILED
from widetable.cli.command_parser import overview, parsed
from widetable.cli.commands import COMMANDS
from widetable.cli.output.console import (
    drop_refused_output,
    make_streams_whole,
    write_error,
    write_text,
)
from widetable.cli.output.log_output import BufferedWarnings
from widetable.cli.output.progress import progress
from widetable.errors import InvalidError, StorageError
from widetable.messages.near_word import did_you_mean

# The exit codes that shells use: 128 plus the number of SIGINT, and of SIGPIPE.
_INTERRUPTED: Final = 130
_UNREAD: Final = 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; return the exit code. arguments: by default those of the process."""
    make_streams_whole()  # first, so that every later error can be written
    words = sys.argv[1:] if arguments is None else arguments
    warnings = BufferedWarnings()
    try:
        code = _run(words, warnings)
        warnings.write()
        return code
    except BrokenPipeError:  # the reader of the output has closed it
        return _UNREAD
    except KeyboardInterrupt:
        return _INTERRUPTED
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001
        # A programming error is one line as well: the line begins with the name of its class.
        with suppress(OSError, StorageError):  # if standard error fails, only the exit code remains
            write_error(error)
            if "--debug" in takewhile("--".__ne__, words):  # words after -- are no options
                warnings.write()
                traceback.print_exc()
        return FAILED
    finally:
        drop_refused_output()


def _run(words: Sequence[str], warnings: BufferedWarnings) -> int:
    """Run the command that the first word names. Without words print the help on standard error, and fail."""
    name, *rest = words or ("",)
    if name in ("--help", "-h", ""):
        write_text(overview(), sys.stdout if name else sys.stderr)
        return DONE if name else FAILED
    if name == "--version":
        version = import_module("widetable.version").__version__  # the lookup takes time
        write_text(f"widetable {version}\n")
        return DONE
    if name not in COMMANDS:
        raise _unknown(name)
    # The words are checked before the command's module, which imports the engine, is imported.
    values = parsed(COMMANDS[name], rest)
    del values["debug"]  # `main` reads it
    function = getattr(import_module(f"widetable.cli.actions.{COMMANDS[name].module}"), name)
    with ExitStack() as stack:
        if not _runs_until_stopped(**values):
            stack.enter_context(warnings.collecting())
            stack.enter_context(progress(name))
        exit_code: int = function(**values)
    return exit_code


# These commands run until they are stopped: meta serve, and without --once maintain, which has no action, and
# join run. They log, or print nothing more.
def _runs_until_stopped(action: str = "run", *, once: bool = True, **_: Any) -> bool:
    return action == "serve" or (action == "run" and not once)


def _unknown(word: str) -> InvalidError:
    """Return the error for an unknown command; it suggests a command that is spelt similarly."""
    return InvalidError(
        "widetable",
        found=f"the command {word!r}",
        expected=f"one of {', '.join(COMMANDS)}",
        action=did_you_mean(word, COMMANDS).strip() or "Run widetable --help.",
    )
