"""The configuration of a job: TOML or a dict becomes a checked `SyncConfig`. Pure, but for `read_config`.

    name = "shop"                                 commits are made under cdc/shop

    [source]
    dsn = "host=db user=repl dbname=shop"         or dsn-env = "SHOP_DSN", the name of an environment variable
    publication = "widetable_shop"                default: widetable_<name>
    slot = "widetable_shop"                       default: widetable_<name>
    kind = "postgresql"                           or "debezium": `embedded/engine_source.py` has its entries

    tables = ["public.*"]                         patterns: schema.table, * and ?
    exclude = ["public.audit_*"]

    [target]
    warehouse = "/warehouse"
    database = "shop"
    prefix = ""                                   of the names of targets
    suffix = ""
    options = { bucket = "4" }                    of targets that the job makes
    barriers = "lsn"                              several tables are read as of one LSN; or "clock": together with
                                                  tables that other streams fill; or "none"

    [limits]
    max-changes = 100000                          changes of a round; a transaction stays whole
    max-delay = "1 s"                             wait when nothing came
    chunk-rows = 500000                           rows of a chunk of the full copy
    chunks-at-once = 2                            default: the cores of Spark's session, else ours, 4 at most
    max-held = "10 gb"                            bytes of log that the slot may hold before the job warns
    retry-for = "1 min"                           how long a job without an answer tries again; for ever without a goal

    [rules]
    on-error = "park"                             or "stop"
    truncate = "apply"                            or "ignore" or "stop"
    drop-column = "null"                          or "drop"
    decimal = "38,18"                             for numeric without precision; default: STRING
    every-transaction = false                     true: a round for each transaction, so each has a commit; slower

    [table."public.orders"]
    target = "orders"                             the name without prefix and suffix
    key = ["shard", "id"]                         default: the primary key, which it must hold
    partition = ["day"]
    options = { bucket = "8" }
    types = { amount = "STRING" }                 other types than the usual ones (`wished_type.py`)
    computed = { shard = "'eu'", day = "date_format(at, 'yyyy-MM-dd')" }    further columns (`columns/functions.py`)
    metadata = ["table_name", "op_ts"]            columns that say where a row came from (`columns/metadata.py`)
    group = { columns = ["name", "city"], sequence = "crm_lsn" }     into an existing wide table

Raises InvalidError that names the entry, NotFoundError for a file that is not there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any, Final

from widetable import InvalidError, NotFoundError
from widetable_cdc.embedded.engine_source import EngineSource, engine_source
from widetable_cdc.embedded.refused_entries import check_entries, check_patterns
from widetable_cdc.jobs.config_entries import Entries
from widetable_cdc.jobs.table_config import TableConfig, table_config
from widetable_cdc.values.wished_type import TypeWishes

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass(frozen=True)
class SourceConfig:
    """The database. dsn: libpq's connection string or URL."""

    dsn: str = field(repr=False)  # it may hold a password
    publication: str
    slot: str


class Barriers(Enum):
    """The barriers of targets that the job makes: positions of the log, moments of the clock, or none."""

    LSN = "lsn"
    CLOCK = "clock"
    NONE = "none"


@dataclass(frozen=True)
class TargetConfig:
    """The warehouse, and what targets that the job makes are called and have as options."""

    warehouse: str
    database: str
    prefix: str = ""
    suffix: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    barriers: Barriers = Barriers.LSN


@dataclass(frozen=True)
class RoundLimits:
    """max_changes: of a round. max_delay_millis: the pause when nothing came. chunk_rows: of the full copy.
    chunks_at_once: that are read beside one another; None for as many as there are cores.

    max_held_bytes: log that the slot holds, above which the job warns. retry_millis: how long a job tries again whose
    server or warehouse does not answer; None for a minute, and for ever where the job has no goal.
    """

    max_changes: int = 100_000
    max_delay_millis: int = 1_000
    chunk_rows: int = 500_000
    chunks_at_once: int | None = None
    max_held_bytes: int = 10 << 30
    retry_millis: int | None = None

    def retry_seconds(self, *, has_goal: bool) -> float | None:
        """Return for how long a job tries again; None for ever."""
        if self.retry_millis is None:
            return 60.0 if has_goal else None
        return self.retry_millis / 1000


@dataclass(frozen=True)
class Rules:
    """What the job does with what has no single right answer; see the module."""

    on_error: str = "park"
    truncate: str = "apply"
    drop_column: str = "null"
    decimal: str | None = None
    every_transaction: bool = False


@dataclass(frozen=True)
class SyncConfig:
    """The configuration of a job, checked. `read_config` and `config_of` make it.

    Attributes
    ----------
    name : str
        The job's name: lower-case letters, digits and underscores.
    source : SourceConfig
        The database, its publication and its slot; empty with `engine`.
    target : TargetConfig
        The warehouse, and what targets are called and have as options.
    tables, exclude : tuple of str
        Patterns of schema.table: those that are followed, and those of them that are not.
    limits : RoundLimits
        How much a round and a chunk have.
    rules : Rules
        What the job does with what has no single right answer.
    table : dict of str to TableConfig
        What is special about tables, by schema.table.
    engine : EngineSource or None
        The database, if Debezium reads it (kind = "debezium").
    """

    name: str
    source: SourceConfig
    target: TargetConfig
    tables: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    limits: RoundLimits = RoundLimits()
    rules: Rules = Rules()
    table: Mapping[str, TableConfig] = field(default_factory=dict)
    engine: EngineSource | None = None

    def of(self, schema: str, name: str) -> TableConfig:
        """Return what is special about a table of the source.

        Parameters
        ----------
        schema : str
            The schema of the table.
        name : str
            Its name.

        Returns
        -------
        TableConfig
            Its section, or one of defaults.
        """
        return self.table.get(f"{schema}.{name}", TableConfig())

    def target_name(self, schema: str, name: str) -> str:
        """Return the full name of the target of a table of the source.

        Parameters
        ----------
        schema : str
            The schema of the table.
        name : str
            Its name.

        Returns
        -------
        str
            The name as `db.table`.
        """
        base = self.of(schema, name).target or name
        return f"{self.target.database}.{self.target.prefix}{base}{self.target.suffix}"

    def wishes(self, schema: str, name: str) -> TypeWishes:
        """Return the types that the configuration wishes for a table of the source.

        Parameters
        ----------
        schema : str
            The schema of the table.
        name : str
            Its name.

        Returns
        -------
        TypeWishes
            Those of its section and of the rules.
        """
        return TypeWishes(self.of(schema, name).types, self.rules.decimal)

    @property
    def user(self) -> str:
        """The commit user, and the name of the writer under barriers."""
        return f"cdc/{self.name}"


def read_config(path: str | Path) -> SyncConfig:
    """Read the configuration of a job from a TOML file.

    Parameters
    ----------
    path : str or Path
        The file, in UTF-8; docs/bring-a-database-along.md describes its entries.

    Returns
    -------
    SyncConfig
        The checked configuration.

    Raises
    ------
    NotFoundError
        There is no such file.
    InvalidError
        The file is no TOML, or an entry is unknown, missing or wrong; the error names it.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError as cause:
        raise NotFoundError(
            f"file {str(path)!r}",
            found="no such file",
            expected="the configuration of a job, in TOML",
            action="Correct the path.",
        ) from cause
    except (OSError, UnicodeDecodeError) as cause:
        raise InvalidError(
            f"file {str(path)!r}",
            found=f"a file that cannot be read: {cause}",
            expected="a TOML file in UTF-8",
            action="Correct the file.",
        ) from cause
    try:
        entries = tomllib.loads(text)
    except tomllib.TOMLDecodeError as cause:
        raise InvalidError(
            f"file {str(path)!r}",
            found=f"text that is not TOML: {cause}",
            expected="a TOML file",
            action="Correct the file.",
        ) from cause
    return config_of(entries)


def config_of(entries: Mapping[str, Any]) -> SyncConfig:
    """Check the entries of a configuration, and return it.

    Parameters
    ----------
    entries : dict of str to any
        The entries, as a TOML file has them.

    Returns
    -------
    SyncConfig
        The checked configuration.

    Raises
    ------
    InvalidError
        An entry is unknown, missing or wrong; the error names it.

    Examples
    --------
    >>> import widetable_cdc
    >>> target = {"warehouse": "warehouse", "database": "shop", "prefix": "crm_"}
    >>> entries = {"name": "shop", "tables": ["public.*"], "source": {"dsn": "host=db"}, "target": target}
    >>> widetable_cdc.config_of(entries).target_name("public", "orders")
    'shop.crm_orders'
    """
    top = Entries("", entries)
    name = _checked_name(top.text("name"))
    part = top.section("source")
    is_debezium = part.choice("kind", ("postgresql", "debezium")) == "debezium"
    if is_debezium:
        check_entries(entries)
    config = SyncConfig(
        name=name,
        source=SourceConfig("", "", "") if is_debezium else _source(part, name),
        target=_target(top.section("target")),
        tables=top.texts("tables", least=1),
        exclude=top.texts("exclude"),
        limits=_limits(top.section("limits")),
        rules=_rules(top.section("rules")),
        table={key: table_config(each) for key, each in top.sections("table").items()},
        engine=_engine(part) if is_debezium else None,
    )
    top.end()
    if is_debezium:
        check_patterns((*config.tables, *config.exclude))
        config = replace(config, target=replace(config.target, barriers=Barriers.NONE))
    for key in config.table:
        if key.count(".") != 1:
            raise InvalidError(
                f'section table."{key}"',
                found=key,
                expected="schema.table",
                action="Name the table with its schema.",
            )
    return config


def _checked_name(name: str) -> str:
    # The name is part of the names of the slot, of the state's table and of the commit user.
    if not name.isascii() or not name.replace("_", "").isalnum() or name != name.lower():
        raise InvalidError(
            "entry 'name'",
            found=repr(name),
            expected="lower-case letters, digits and _",
            action="Choose another name for the job.",
        )
    return name


def _source(part: Entries, name: str) -> SourceConfig:
    variable = part.optional_text("dsn-env")
    if variable is None:
        dsn = part.text("dsn")
    else:
        dsn = os.environ.get(variable, "")
        if not dsn:
            raise InvalidError(
                "entry 'source.dsn-env'",
                found=f"no value in the environment variable {variable!r}",
                expected="the connection string of the database",
                action="Set the variable before the job starts.",
            )
    default = f"widetable_{name}"
    source = SourceConfig(
        dsn=dsn,
        publication=part.optional_text("publication") or default,
        slot=part.optional_text("slot") or default,
    )
    part.end()
    return source


def _engine(part: Entries) -> EngineSource:
    source = engine_source(
        part.text("connector"),
        part.options("properties"),
        part.optional_text("jars"),
        part.optional_text("password-env"),
    )
    part.end()
    return source


def _target(part: Entries) -> TargetConfig:
    target = TargetConfig(
        warehouse=part.text("warehouse"),
        database=part.text("database"),
        prefix=part.optional_text("prefix") or "",
        suffix=part.optional_text("suffix") or "",
        options=part.options("options"),
        barriers=Barriers(part.choice("barriers", [each.value for each in Barriers])),
    )
    part.end()
    return target


def _limits(part: Entries) -> RoundLimits:
    usual = RoundLimits()
    limits = RoundLimits(
        max_changes=part.number("max-changes", usual.max_changes),
        max_delay_millis=part.millis("max-delay", usual.max_delay_millis),
        chunk_rows=part.number("chunk-rows", usual.chunk_rows),
        chunks_at_once=part.optional_number("chunks-at-once"),
        max_held_bytes=part.size("max-held", usual.max_held_bytes),
        retry_millis=part.optional_millis("retry-for"),
    )
    part.end()
    return limits


_CHOICES: Final = {
    "on-error": ("park", "stop"),
    "truncate": ("apply", "ignore", "stop"),
    "drop-column": ("null", "drop"),
}


def _rules(part: Entries) -> Rules:
    chosen = {name: part.choice(name, words) for name, words in _CHOICES.items()}
    rules = Rules(
        on_error=chosen["on-error"],
        truncate=chosen["truncate"],
        drop_column=chosen["drop-column"],
        decimal=part.optional_text("decimal"),
        every_transaction=part.flag("every-transaction", default=False),
    )
    part.end()
    return rules
