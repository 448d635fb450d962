"""The command of branches: branch."""

from __future__ import annotations

from widetable.cli.command import DONE
from widetable.cli.console import write_json, write_line
from widetable.cli.past import check_name_given, check_only
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
    check_only("branch", action, ["create"], {"--tag": tag is not None})
    check_only("branch", action, ["fast-forward"], {"--replace": replace, "--dry-run": dry_run})
    check_only("branch", action, ["list", "fast-forward"], {"--format json": format == "json"})
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
            _write(done, "would come or go: " if dry_run else "")
    else:
        _list(table, format)
    return DONE


def _list(table: Table, format: str) -> None:
    rows = table.inspect.branches().to_pylist()
    found = [{"name": row["branch"], "snapshot": row["snapshot_id"]} for row in rows]
    if format == "json":
        write_json({"branches": found})
        return
    for row in found:
        at = "no snapshot" if row["snapshot"] is None else f"snapshot {row['snapshot']}"
        write_line(f"{row['name']}  {at}")


def _write(done: FastForwardResult, said: str) -> None:
    """One line for each kind of things that come or go."""
    for kind, found in done.to_dict().items():
        if isinstance(found, tuple) and found:
            write_line(f"{said}{kind.replace('_', ' ')}: {', '.join(map(str, found))}")
