"""The command of branches: branch."""

from __future__ import annotations

from widetable.cli.command import DONE
from widetable.cli.console import write_json, write_line
from widetable.cli.past import check_name_given
from widetable.errors import InvalidError
from widetable.operations.fast_forward import FastForwardResult
from widetable.table import Table


def branch(
    action: str,
    path: str,
    name: str | None,
    tag: str | None,
    replace: bool,
    dry_run: bool,
    format: str,
) -> int:
    """To list prints each branch but main with its newest snapshot."""
    check_name_given("branch", action, name)
    _check_action(action, "create", {"--tag": tag is not None})
    _check_action(action, "fast-forward", {"--replace": replace, "--dry-run": dry_run})
    table = Table.open(path)
    if action == "create":
        table.create_branch(name or "", tag=tag)
    elif action == "drop":
        table.drop_branch(name or "")
    elif action == "fast-forward":
        done = table.fast_forward(name or "", replace=replace, dry_run=dry_run)
        if format == "json":
            write_json(done.to_dict())
        else:
            _write(done)
    else:
        _list(table, format)
    return DONE


def _list(table: Table, format: str) -> None:
    found = []
    for each in table.branches():
        latest = Table.open(table.path, branch=each)._committer.snapshots.latest_id()
        found.append({"name": each, "snapshot": latest})
    if format == "json":
        write_json({"branches": found})
        return
    for row in found:
        at = "no snapshot" if row["snapshot"] is None else f"snapshot {row['snapshot']}"
        write_line(f"{row['name']}  {at}")


def _write(done: FastForwardResult) -> None:
    """One line for each kind of things that come or go."""
    for kind, found in done.to_dict().items():
        if isinstance(found, tuple) and found:
            write_line(f"{kind.replace('_', ' ')}: {', '.join(map(str, found))}")


def _check_action(action: str, expected: str, given: dict[str, bool]) -> None:
    found = [option for option, is_given in given.items() if is_given]
    if found and action != expected:
        raise InvalidError(
            f"widetable branch {action}",
            found=found[0],
            expected=f"it with {expected} only",
            action="Leave it out.",
        )
