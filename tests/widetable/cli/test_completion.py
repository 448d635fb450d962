"""Completion scripts, run by the shell itself where it is there: bash always."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.support.programs.command_line import run
from widetable.cli.commands import COMMANDS


def completed(*words: str) -> list[str]:
    """What bash offers for the last word."""
    script = run("completion", "bash").stdout
    line = " ".join(f"'{word}'" for word in ("widetable", *words))
    asked = f"{script}\nCOMP_WORDS=({line}); COMP_CWORD={len(words)}; _widetable; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_names_of_commands() -> None:
    assert completed("") == [*COMMANDS, "--help", "--version"]
    assert completed("ex") == ["explain", "expire"]


def test_options_and_their_choices() -> None:
    assert completed("expire", "--ret") == ["--retain-min", "--retain-max"]
    assert completed("maintain", "--no-") == ["--no-expire"]
    assert completed("maintain", "--no-") == ["--no-expire"]
    assert completed("read", "/t", "--format", "") == ["json", "csv", "parquet", "table"]
    assert completed("tag", "c") == ["create"]
    assert completed("no-such-command", "") == []


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_of_a_command(command: str) -> None:
    names = [name for name, _ in COMMANDS[command].arguments if name.startswith("-")]
    assert [word for word in completed(command, "--") if word in names] == names


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_has_no_error(shell: str) -> None:
    script = run("completion", shell)
    assert script.exit_code == 0
    assert all(name in script.stdout for name in COMMANDS)
    if shutil.which(shell) is not None:
        subprocess.run([shell, "-n"], input=script.stdout, text=True, check=True)
