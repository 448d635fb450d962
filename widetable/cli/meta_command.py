"""The command of a warehouse's tables under barriers and their jobs: meta.

One command with actions: they share the warehouse or the service that is asked. path, name and writer are optional for
the parser; which of them an action takes is checked by `meta._placed`.
"""

from __future__ import annotations

from typing import Final

from widetable.cli.command import FORMATS, Command, argument, flag, many, number

ACTIONS: Final = (
    "show",
    "jobs",
    "tables",
    "lineage",
    "barriers",
    "read",
    "delay",
    "leave",
    "drop-job",
    "revise",
    "rebuild",
    "serve",
)

META_COMMAND: Final = Command(
    "meta",
    "meta",
    "Show or serve jobs, tables and barriers of a warehouse; let who has ended leave.",
    (
        argument("action", f"{', '.join(ACTIONS)}.", metavar="ACTION", choices=ACTIONS),
        argument(
            "path",
            "The warehouse's directory or URL; with --uri there is none.",
            metavar="WAREHOUSE",
            nargs="?",
        ),
        argument(
            "name",
            "lineage, barriers, leave, revise: a table, as db.name; read: some, as db.a,db.b; drop-job: a job.",
            metavar="NAME",
            nargs="?",
        ),
        argument("writer", "leave: who will not come back.", metavar="WRITER", nargs="?"),
        many(
            "--uri",
            "Ask the service at this URL instead; all but rebuild and serve. May be given for each of its instances.",
            "URL",
        ),
        number(
            "--barrier",
            "delay: of this one; by default of all that are kept. read: this one.",
            "MILLISECONDS",
        ),
        number("--limit", "barriers, delay: so many at most, the newest.", "NUMBER"),
        flag("--force", "leave, drop-job: even if it goes on, or has not come equally far."),
        number("--to", "revise: back to this barrier.", "MILLISECONDS"),
        flag("--full", "revise: back to the beginning, with no rows."),
        flag("--dry-run", "leave, drop-job, revise: only say what would be left, or go."),
        argument(
            "--host", "serve: where it listens; by default on 127.0.0.1 alone.", metavar="NAME"
        ),
        number("--port", "serve: by default 9096; 0 for one that is free.", "NUMBER"),
        argument("--url", "serve: under which other instances reach it.", metavar="URL"),
        *FORMATS,
    ),
    (
        "widetable meta show /warehouse",
        "widetable meta lineage /warehouse shop.users",
        "widetable meta read /warehouse shop.users,shop.amounts",
        "widetable meta delay /warehouse --limit 10",
        "widetable meta tables --uri http://127.0.0.1:9096",
        "widetable meta leave /warehouse shop.users crm --dry-run",
        "widetable meta drop-job /warehouse amounts",
        "widetable meta revise /warehouse shop.amounts --to 1767225600000 --dry-run",
        "widetable meta serve /warehouse --port 9096",
    ),
    "show: jobs and tables. jobs: what each reads and writes. tables: how far each is, who is missing. For a writer\n"
    "that was not heard of for ten minutes show, jobs and tables end with exit code 1, and say what to do.\n"
    "lineage: what a table is made of, and what is made of it. barriers: which snapshots they are.\n"
    "read: the newest barrier that tables have in common, and by which snapshots other clients read it.\n"
    "delay: when tables came to their barriers, what jobs took of that. leave: from one table;\n"
    "drop-job: from all that it writes. revise: take a table that jobs make, and all that is made of it,\n"
    "back to a barrier, to be made again from there. rebuild: bring the tables of the database __meta up to date.\n"
    "serve: answer all this by REST and as a page, until it is ended (needs the extra meta).",
)
