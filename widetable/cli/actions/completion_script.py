"""The command completion: scripts that complete command lines in shells, from the table of commands.

In: a shell's name. Out: a script for its start-up file. It completes names first, then options and their choices; the
shell itself completes paths. The module imports no engine, because it runs whenever a shell starts.

    bash    one function: the first word is a command; later ones its options and choices, or, behind an
            option that has choices, only these. `-o default` falls back to names of files
    zsh     the same function, by zsh's own emulation of bash's completion
    fish    a line for each command, option and choice

Completion reads no table: a key press must not read a storage.
"""

from __future__ import annotations

from argparse import BooleanOptionalAction
from collections.abc import Callable, Iterable
from typing import Any, Final

from widetable.cli.command import DEBUG, DONE, Command
from widetable.cli.commands import COMMANDS
from widetable.cli.output.console import write_text


def _options(command: Command) -> list[str]:
    """Return all options of a command as they are typed, with both forms of a flag that can be switched off."""
    options: list[str] = []
    for name, settings in (*command.arguments, DEBUG):
        if name.startswith("-"):
            options.append(name)
            if settings.get("action") is BooleanOptionalAction:
                options.append(f"--no-{name[2:]}")
    return [*options, "--help"]


def _choices(command: Command) -> list[str]:
    """Return the choices of all arguments that are no options."""
    return [
        choice
        for name, settings in command.arguments
        if not name.startswith("-")
        for choice in settings.get("choices", ())
    ]


def _values(command: Command) -> list[tuple[str, list[str]]]:
    """Return each option that has choices, with these."""
    arguments: Iterable[tuple[str, dict[str, Any]]] = command.arguments
    return [(n, list(s["choices"])) for n, s in arguments if n.startswith("-") and "choices" in s]


# Names of commands, options and choices have no blanks, quotes or `$`, so they need no quoting here.
def _bash() -> str:
    lines = [
        "_widetable() {",
        '  local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" words',
        f'  if [ "$COMP_CWORD" -eq 1 ]; then words="{" ".join(COMMANDS)} --help --version"',
        '  else case "${COMP_WORDS[1]}" in',
    ]
    for command in COMMANDS.values():
        words = " ".join([*_choices(command), *_options(command)])
        lines.append(f'    {command.name}) words="{words}"')
        lines += [
            f'      if [ "$before" = "{name}" ]; then words="{" ".join(values)}"; fi'
            for name, values in _values(command)
        ]
        lines.append("      ;;")
    lines += [
        "  esac; fi",
        '  COMPREPLY=($(compgen -W "$words" -- "$word"))',
        "}",
        "complete -o default -F _widetable widetable",
    ]
    return "\n".join(lines) + "\n"


def _zsh() -> str:
    return "autoload -U +X compinit bashcompinit && compinit && bashcompinit\n" + _bash()


# A summary is quoted for fish, whose single quotes need an escape only for `'`.
def _fish() -> str:
    lines = []
    for command in COMMANDS.values():
        summary = command.summary.replace("'", "\\'")
        lines.append(
            f"complete -c widetable -n __fish_use_subcommand -a {command.name} -d '{summary}'"
        )
        seen = f"-n '__fish_seen_subcommand_from {command.name}'"
        lines += [f"complete -c widetable {seen} -l {name[2:]}" for name in _options(command)]
        lines += [
            f"complete -c widetable {seen} -l {name[2:]} -xa '{' '.join(values)}'"
            for name, values in _values(command)
        ]
        if _choices(command):
            lines.append(f"complete -c widetable {seen} -a '{' '.join(_choices(command))}'")
    return "\n".join(lines) + "\n"


_SCRIPTS: Final[dict[str, Callable[[], str]]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}


def completion(shell: str) -> int:
    """Print the script of a shell."""
    write_text(_SCRIPTS[shell]())
    return DONE
