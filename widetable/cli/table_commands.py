"""Commands of tables and their rows: init, copy, ls, schema, write, read, pit, tag, branch, consumer, compact.

Data only: `commands` describes its use. In the help a group lists the commands of this file first, then those of
`commands`.
"""

from __future__ import annotations

from typing import Final

from widetable.cli.command import (
    EXAMPLE,
    FORMATS,
    PATH,
    SOURCE,
    Command,
    argument,
    flag,
    many,
    moment,
    number,
    time,
)

MAKE: Final = (
    Command(
        "init",
        "tables",
        "Create a table.",
        (
            argument("path", "A new directory <warehouse>/<db>.db/<table>.", metavar="PATH"),
            argument(
                "column",
                "Name and type of each column, such as 'id BIGINT', in order.",
                metavar="COLUMN",
                nargs="+",
            ),
            argument(
                "--key",
                "The columns of the primary key, separated by commas. Without it an append table is created.",
                metavar="NAMES",
            ),
            argument("--partition", "The partition columns, separated by commas.", metavar="NAMES"),
            many("--set", "Set an option of the table. May be repeated.", "KEY=VALUE"),
            flag("--if-not-exists", "Leave an existing table unchanged, instead of failing."),
            *FORMATS,
        ),
        (
            f"widetable init {EXAMPLE} 'id BIGINT' 'city STRING' --key id --set bucket=2",
            f"widetable init {EXAMPLE} 'id INT' 'day DATE' 'tags ARRAY<STRING>' --key day,id --partition day",
            "widetable init warehouse/shop.db/clicks 'user BIGINT' 'page STRING' 'day DATE' --partition day",
        ),
    ),
    Command(
        "write",
        "rows",
        "Write the rows of files in one commit: Parquet, CSV, or JSON lines.",
        (
            PATH,
            argument(
                "file",
                "Files, or file: URLs, with all or some of the table's columns; - is standard input.",
                metavar="FILE",
                nargs="+",
            ),
            argument(
                "--format",
                "The format of the files; by default their names decide.",
                choices=("json", "csv", "parquet"),
            ),
            flag(
                "--overwrite",
                "Replace the partitions that the rows belong to, or all rows of a table without partitions.",
            ),
            argument(
                "--row-kind",
                "The column of the files with +I, -U, +U, -D; by default _row_kind, if they have it.",
                metavar="NAME",
            ),
            argument(
                "--user",
                "The commit user. With --identifier, a repeated commit is published only once.",
                metavar="NAME",
            ),
            number(
                "--identifier",
                "The commit identifier; it grows with each commit of the user.",
                "NUMBER",
            ),
            argument(
                "--json",
                "Print the result as one JSON object.",
                action="store_true",
                dest="is_json",
            ),
        ),
        (
            f"widetable write {EXAMPLE} new.parquet more.parquet",
            f"widetable write {EXAMPLE} - --format json",
        ),
        "Values in JSON and CSV have the form that widetable read prints: dates and times as text, a TIMESTAMP_LTZ\n"
        "with its time zone, or else in UTC, bytes as hex digits, a map as a list of [key, value]. In CSV an empty\n"
        "field without quotes is null. If any row has a column, rows without it get null, which in a partial-update\n"
        "table keeps the existing value. A row that lacks columns of a sequence group is refused if other rows have\n"
        "them.",
    ),
    Command(
        "delete",
        "rows",
        "Delete the rows that match a condition, in one commit.",
        (
            PATH,
            argument("condition", "A condition in SQL.", metavar="CONDITION"),
            flag(
                "--rewrite",
                "Rewrite the data files without the rows, instead of writing -D records: this works with every merge "
                "engine, but readers of changes do not see it.",
            ),
            flag("--dry-run", "Only print how many rows would be deleted."),
            *FORMATS,
        ),
        (f"widetable delete {EXAMPLE} \"city = 'Oslo'\" --dry-run",),
    ),
    Command(
        "update",
        "rows",
        "Set columns of the rows of an append table that match a condition, in one commit.",
        (
            PATH,
            argument("condition", "A condition in SQL.", metavar="CONDITION"),
            many("--set", "Set a column to a value. May be repeated.", "COLUMN=VALUE"),
            many("--null", "Set a column to null. May be repeated.", "COLUMN"),
            flag("--dry-run", "Only print how many rows would be changed."),
            *FORMATS,
        ),
        ("widetable update warehouse/shop.db/clicks 'user = 7' --set page=home --null day",),
    ),
    Command(
        "copy",
        "tables",
        "Copy one snapshot of a table, with its files, to a new table.",
        (
            argument("source", "The table's directory or URL.", metavar="SOURCE"),
            argument(
                "target",
                "A new directory <warehouse>/<db>.db/<table>.",
                metavar="TARGET",
            ),
            number("--snapshot", "Copy this snapshot; by default the newest.", "ID"),
            argument("--tag", "Copy the snapshot of this tag.", metavar="NAME"),
            moment("--timestamp", "Copy the newest snapshot at this time"),
            *FORMATS,
        ),
        (
            f"widetable copy {EXAMPLE} /backup/shop.db/users",
            f"widetable copy {EXAMPLE} /warehouse/test.db/users --tag january",
        ),
        "The new table appears complete or not at all; in an object store it is empty for a moment before. "
        "It has no other snapshots, tags, branches or consumers.",
    ),
)

LOOK: Final = (
    Command(
        "ls",
        "tables",
        "List the tables of a warehouse or database.",
        (argument("path", "The directory of a warehouse or database.", metavar="PATH"), *FORMATS),
        ("widetable ls /warehouse", "widetable ls --json /warehouse/shop.db"),
    ),
    Command(
        "schema",
        "tables",
        "Show the columns, keys and options of a table.",
        (PATH, *FORMATS),
        (f"widetable schema {EXAMPLE}",),
    ),
    Command(
        "read",
        "rows",
        "Print the rows of a snapshot, by default of the newest.",
        (
            PATH,
            argument(
                "--filter", "Print only rows that match this SQL condition.", metavar="CONDITION"
            ),
            number("--limit", "Print at most this many rows.", "NUMBER"),
            number("--snapshot", "Read this snapshot.", "ID"),
            argument("--tag", "Read this tag.", metavar="NAME"),
            moment("--timestamp", "Read the newest snapshot at this time"),
            number("--barrier", "Read a table under barriers as of this barrier.", "MILLISECONDS"),
            *SOURCE,
        ),
        (
            f"widetable read {EXAMPLE} --columns id,city --limit 10",
            f"widetable read {EXAMPLE} --timestamp 2026-11-27T10:00",
            f"widetable read {EXAMPLE} --filter \"city = 'Oslo'\" --format parquet --output oslo.parquet",
        ),
    ),
    Command(
        "pit",
        "features",
        "Add features to the rows of a file, as they were known at the time of each row.",
        (
            PATH,
            argument(
                "--entities",
                "The rows, with the primary key and a time: a .parquet, .csv or .arrow file.",
                metavar="FILE",
                required=True,
            ),
            argument(
                "--at",
                "The column of times; without a zone they are UTC (default: %(default)s).",
                metavar="COLUMN",
                default="event_timestamp",
            ),
            argument(
                "--columns",
                "The features, separated by commas; by default all columns but the key.",
                metavar="NAMES",
            ),
            argument(
                "--on",
                "The columns of the file that hold the key, separated by commas: column=key, or one name for both.",
                metavar="COLUMNS",
            ),
            argument(
                "--basis",
                "known: what a lookup would have returned. event: the newest value by its own time "
                "(default: %(default)s).",
                choices=("known", "event"),
                default="known",
            ),
            time("--ttl", "The highest age of a feature; an older one is null."),
            many(
                "--event-time",
                "event: a column of times; of a number its unit: seconds, millis, micros or nanos.",
                "COLUMN=UNIT",
            ),
            flag("--as-known", "event: count only what had been committed by the time of the row."),
            argument(
                "--prefix", "A text before the name of each feature.", metavar="TEXT", default=""
            ),
            argument(
                "--format",
                "The output format; by default the name of the output decides, else it is json.",
                choices=("json", "csv", "parquet", "table"),
            ),
            SOURCE[-1],
        ),
        (
            f"widetable pit {EXAMPLE} --entities labels.parquet --at shown_at --output samples.parquet",
            f"widetable pit {EXAMPLE} --entities labels.csv --on uid=id --columns city --ttl '7 d'",
        ),
        "One row comes out for each row of the file. In CSV keys and times are read as widetable write reads them.",
    ),
)

PAST: Final = (
    Command(
        "partition",
        "partitions",
        "List the partitions of a table, drop one, or restore one from an older snapshot.",
        (
            argument(
                "action",
                "One of list, drop, restore.",
                metavar="ACTION",
                choices=("list", "drop", "restore"),
            ),
            PATH,
            many(
                "--partition",
                "drop, restore: the partition; repeat it for each partition column.",
                "COLUMN=VALUE",
            ),
            number("--snapshot", "restore: use the rows of this snapshot.", "ID"),
            argument("--tag", "restore: use the rows of this tag.", metavar="NAME"),
            moment("--timestamp", "restore: use the rows of this time"),
            flag("--dry-run", "drop, restore: only print what would change."),
            *FORMATS,
        ),
        (
            f"widetable partition list {EXAMPLE}",
            f"widetable partition restore {EXAMPLE} --partition day=2026-11-27 --tag good --dry-run",
        ),
        "Other partitions keep all later commits.",
    ),
    Command(
        "tag",
        "past",
        "List, create or delete tags, which keep snapshots under a name.",
        (
            argument(
                "action",
                "One of list, create, delete.",
                metavar="ACTION",
                choices=("list", "create", "delete"),
            ),
            PATH,
            argument("name", "create, delete: the name of the tag.", metavar="NAME", nargs="?"),
            number("--snapshot", "create: the snapshot to tag; by default the newest.", "ID"),
            time("--time-retained", "create: let expiry delete the tag after this time."),
            flag("--dry-run", "delete: only print what would be deleted."),
            *FORMATS,
        ),
        (f"widetable tag create {EXAMPLE} january --snapshot 120", f"widetable tag list {EXAMPLE}"),
    ),
    Command(
        "branch",
        "branch",
        "List, create or drop branches, or fast-forward the table to one.",
        (
            argument(
                "action",
                "One of list, create, drop, fast-forward.",
                metavar="ACTION",
                choices=("list", "create", "drop", "fast-forward"),
            ),
            PATH,
            argument(
                "name",
                "create, drop, fast-forward: the name of the branch.",
                metavar="NAME",
                nargs="?",
            ),
            argument(
                "--tag",
                "create: begin with the rows of this tag; without it the branch is empty.",
                metavar="NAME",
            ),
            flag("--replace", "fast-forward: drop everything that the branch does not have."),
            flag("--dry-run", "drop, fast-forward: only print what would change."),
            *FORMATS,
        ),
        (
            f"widetable branch create {EXAMPLE} fixes --tag january",
            f"widetable branch fast-forward {EXAMPLE} fixes --dry-run",
        ),
        notes="Other commands take the directory of a branch as PATH: PATH/branch/branch-NAME.",
    ),
    Command(
        "consumer",
        "past",
        "List the consumers of a table's changes, or delete one.",
        (
            argument(
                "action", "One of list, delete.", metavar="ACTION", choices=("list", "delete")
            ),
            PATH,
            argument("name", "delete: the name of the consumer.", metavar="NAME", nargs="?"),
            flag("--dry-run", "delete: only print what would be deleted."),
            *FORMATS,
        ),
        (f"widetable consumer list {EXAMPLE}", f"widetable consumer delete {EXAMPLE} totals"),
    ),
)

KEEP: Final = (
    Command(
        "compact",
        "upkeep",
        "Merge sorted runs or small files where that is due, and produce the changelog.",
        (PATH, flag("--full", "Merge all runs of every bucket."), *FORMATS),
        (f"widetable compact {EXAMPLE}", f"widetable compact --full {EXAMPLE}"),
    ),
    Command(
        "sort",
        "upkeep",
        "Sort the rows of an append table, so that queries with filters read fewer files.",
        (
            PATH,
            argument(
                "by", "The columns that filters name, separated by commas.", metavar="COLUMNS"
            ),
            argument(
                "--order",
                "By one column after the other, or along a curve on which all count alike.",
                choices=("linear", "zorder", "hilbert"),
                default="zorder",
            ),
            many(
                "--partition",
                "Sort only this partition; repeat it for each partition column.",
                "COLUMN=VALUE",
            ),
            *FORMATS,
        ),
        ("widetable sort warehouse/shop.db/clicks user,page",),
        "Partition after partition is sorted and committed, beside the writers. A run that was broken off goes on\n"
        "where it ended.",
    ),
)
