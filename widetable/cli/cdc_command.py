"""The command `cdc`, for jobs that copy a database into tables and follow its changes.

It is one command with actions, because they share the configuration of a job. `table` is optional for the parser;
`actions.cdc` checks which of the actions take it.
"""

from __future__ import annotations

from typing import Final

from widetable.cli.command import FORMATS, Command, argument, flag

ACTIONS: Final = ("run", "status", "verify", "pause", "resume", "drop-slot")

CDC_COMMAND: Final = Command(
    "cdc",
    "cdc",
    "Copy a database into tables, and follow its changes.",
    (
        argument("action", f"One of {', '.join(ACTIONS)}.", metavar="ACTION", choices=ACTIONS),
        argument("file", "The configuration of the job, in TOML.", metavar="FILE"),
        argument(
            "table",
            "pause, resume, verify: a table of the source, as schema.table; for verify by default all of them.",
            metavar="TABLE",
            nargs="?",
        ),
        flag("--once", "run: end when all that the source had at the start is in the tables."),
        flag("--recopy", "resume: copy the table again, as a table that was parked must be."),
        flag("--quiet", "run: log only warnings, no line for each round."),
        argument(
            "--metrics",
            "run: let Prometheus read the job's gauges at this address; a port alone is one of 127.0.0.1.",
            metavar="[HOST:]PORT",
        ),
        *FORMATS,
    ),
    (
        "widetable cdc run shop.toml",
        "widetable cdc status shop.toml",
        "widetable cdc resume shop.toml public.orders --recopy",
        "widetable cdc verify shop.toml public.orders",
    ),
    "docs/bring-a-database-along.md describes the file.",
)
