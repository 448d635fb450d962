"""The table of commands agrees with the functions that it names, and help shows all of it."""

from __future__ import annotations

import inspect
import shlex
from importlib import import_module

import pytest

from tests.support.programs.command_line import run
from widetable.cli.command import Command
from widetable.cli.command_parser import parsed
from widetable.cli.commands import COMMANDS, GROUPS

EACH = pytest.mark.parametrize("command", COMMANDS.values(), ids=lambda command: command.name)


@EACH
def test_a_command_has_a_function_of_its_arguments(command: Command) -> None:
    module = import_module(f"widetable.cli.actions.{command.module}")
    parameters = inspect.signature(getattr(module, command.name)).parameters
    for example in command.examples:
        _, _, called = example.rpartition("widetable ")
        name, *words = shlex.split(called.replace(')"', ""))
        assert name == command.name
        assert parsed(command, words).keys() == {*parameters, "debug"}


@EACH
def test_help_shows_every_argument_and_examples(command: Command) -> None:
    reported = run(command.name, "--help")
    assert (reported.exit_code, reported.stderr) == (0, "")
    assert command.summary in reported.stdout
    for name, settings in command.arguments:
        assert settings.get("metavar", name) in reported.stdout
    assert command.examples
    assert all(example in reported.stdout for example in command.examples)


def test_the_overview_names_every_command_in_one_line_under_its_group() -> None:
    lines = run("--help").stdout.splitlines()
    groups = [line for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert len(groups) == len(set(groups))
    for group, command in ((group, one) for group, those in GROUPS.items() for one in those):
        (at,) = (n for n, line in enumerate(lines) if line.startswith(f"  {command.name} "))
        assert lines[at].endswith(f"  {command.summary}")
        assert [line for line in lines[:at] if line in groups][-1] == f"{group}:"
        assert len(lines[at]) <= 100
