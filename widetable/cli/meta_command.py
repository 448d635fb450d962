"""The command `meta`, for a warehouse's tables under barriers and their jobs.

It is one command with actions, because they share the warehouse or the service that answers. path, name and writer are
optional for the parser; `meta._placed` checks which of them an action takes.
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
    "Show or serve jobs, tables and barriers of a warehouse; remove jobs that ended.",
    (
        argument("action", f"One of {', '.join(ACTIONS)}.", metavar="ACTION", choices=ACTIONS),
        argument(
            "path",
            "The warehouse's directory or URL; omit it with --uri.",
            metavar="WAREHOUSE",
            nargs="?",
        ),
        argument(
            "name",
            "lineage, barriers, leave, revise: a table, as db.name; read: tables, as db.a,db.b; drop-job: a job.",
            metavar="NAME",
            nargs="?",
        ),
        argument(
            "writer", "leave: the writer that will not come back.", metavar="WRITER", nargs="?"
        ),
        many(
            "--uri",
            "Ask the service at this URL instead (not for rebuild and serve). Repeat it for each of its instances.",
            "URL",
        ),
        number(
            "--barrier",
            "delay: show only this barrier; by default all existing ones. read: read this barrier.",
            "MILLISECONDS",
        ),
        number("--limit", "barriers, delay: show only so many, the newest.", "NUMBER"),
        flag(
            "--force",
            "leave, drop-job: do it even if the writer or job still runs, or its tables are at different barriers.",
        ),
        number("--to", "revise: go back to this barrier.", "MILLISECONDS"),
        flag("--full", "revise: go back to the beginning, without rows."),
        flag("--dry-run", "leave, drop-job, revise: only print what would change."),
        argument(
            "--host", "serve: listen on this host; by default only on 127.0.0.1.", metavar="NAME"
        ),
        number(
            "--port", "serve: listen on this port; by default 9096, 0 for a free one.", "NUMBER"
        ),
        argument("--url", "serve: the URL under which other instances reach it.", metavar="URL"),
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
    "show: list jobs and tables. jobs: list what each job reads and writes. tables: list the barrier of each\n"
    "table and its missing writers. If a writer was silent for ten minutes, show, jobs and tables end with exit\n"
    "code 1, and print what to do. lineage: list the tables that a table is derived from, and those derived from\n"
    "it. barriers: list the snapshots of a table's barriers. read: print the newest barrier that tables have in\n"
    "common, and the snapshots by which other clients read it. delay: show when tables reached their barriers,\n"
    "and how much of that time each job took. leave: remove a writer from one table. drop-job: remove a job from\n"
    "all tables that it writes. revise: take a table that jobs write, and all tables derived from it, back to a\n"
    "barrier; the jobs then write them again from there. rebuild: bring the tables of the database __meta up to\n"
    "date. serve: answer all this by REST and as a page, until it is stopped (needs the extra meta).",
)
