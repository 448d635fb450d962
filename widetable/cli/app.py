"""The command `widetable`: finds the command in the table, calls it, and turns errors into one line and an exit code.

Out: the exit code. With --debug the traceback follows an error's line. Raises MemoryError, of which nothing can be
said, and SystemExit after help.

    words ─► table of commands ─► parser ─► module of the command, imported now ─► its function ─► exit code

    code    what happened                           said
    0       done                                    the result, on standard output; warnings on standard error
    1       done, and there are findings            the same
    2       any error, words that do not fit        one line on standard error; --debug: warnings and traceback, too
    130     SIGINT                                  nothing
    141     nobody reads the output (`| head`)      nothing

Until the command is known only the standard library and light modules are imported, so help and a mistyped name are
answered at once (tests/widetable/cli/test_light_imports.py).
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
from widetable.cli.output.log_output import HeldWarnings
from widetable.cli.output.progress import progress
from widetable.errors import InvalidError, StorageError
from widetable.messages.near_word import did_you_mean

# As shells have them: 128 and the number of SIGINT, of SIGPIPE.
_INTERRUPTED: Final = 130
_UNREAD: Final = 141


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point. arguments: by default those of the process."""
    make_streams_whole()  # first: an error of all that follows must have somewhere to go
    words = sys.argv[1:] if arguments is None else arguments
    warnings = HeldWarnings()
    try:
        code = _run(words, warnings)
        warnings.write()
        return code
    except BrokenPipeError:  # whoever read the output has had enough
        return _UNREAD
    except KeyboardInterrupt:
        return _INTERRUPTED
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001
        # One that is none of ours is a fault, and is one line as well: its name stands in front.
        with suppress(OSError, StorageError):  # of standard error: the exit code alone is left
            write_error(error)
            if "--debug" in takewhile("--".__ne__, words):  # what is behind is no option
                warnings.write()
                traceback.print_exc()
        return FAILED
    finally:
        drop_refused_output()


def _run(words: Sequence[str], warnings: HeldWarnings) -> int:
    """Options of no command (--help, --version) stand first; no words at all are a mistake, answered by the help."""
    name, *rest = words or ("",)
    if name in ("--help", "-h", ""):
        write_text(overview(), sys.stdout if name else sys.stderr)
        return DONE if name else FAILED
    if name == "--version":
        version = import_module("widetable.version").__version__  # it takes time to look it up
        write_text(f"widetable {version}\n")
        return DONE
    if name not in COMMANDS:
        raise _unknown(name)
    # Words are checked before the command's module, and the engine with it, is imported.
    given = parsed(COMMANDS[name], rest)
    del given["debug"]  # of `main`
    carry_out = getattr(import_module(f"widetable.cli.actions.{COMMANDS[name].module}"), name)
    with ExitStack() as stack:
        if not _runs_on(**given):
            stack.enter_context(warnings.collecting())
            stack.enter_context(progress(name))
        exit_code: int = carry_out(**given)
    return exit_code


# Until it is stopped: it logs what it does, or says nothing more. A table is looked after by maintain,
# which has no action, and by join run; --once is there for both.
def _runs_on(action: str = "run", *, once: bool = True, **_: Any) -> bool:
    return action == "serve" or (action == "run" and not once)


def _unknown(word: str) -> InvalidError:
    """With the command that is spelt most like it, if one is."""
    return InvalidError(
        "widetable",
        found=f"the command {word!r}",
        expected=f"one of {', '.join(COMMANDS)}",
        action=did_you_mean(word, COMMANDS).strip() or "Run widetable --help.",
    )
