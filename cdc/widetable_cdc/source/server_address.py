"""Where a server is: what a dsn says without its secrets, and the dsn of a job's sessions. Pure.

A dsn goes in, in either form of libpq: `host=db user=etl dbname=shop` or `postgresql://etl@db/shop`. Texts for errors
and logs come out, and the conninfo of a session whose settings make all texts of the server the same everywhere.
Raises InvalidError for a dsn that libpq does not read, without a word of the dsn, because any of them may be a secret.
"""

from __future__ import annotations

from typing import Final

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from widetable import InvalidError
from widetable_cdc.values.session_settings import SESSION_SETTINGS

# No timeout of a role may end a long read. The server ends the session of a job whose machine is gone, which has the
# slot to itself until then.
_NO_TIMEOUTS: Final = {
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "60000",
}
# The client's side of it, in seconds, and in milliseconds how long a silent server is waited for; a dsn may say others.
_WAITS: Final = {
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
APPLICATION: Final = "widetable cdc"
_SECRETS: Final = ("password", "sslpassword", "oauth_client_secret", "scram_client_key")


def session_conninfo(dsn: str, name: str) -> str:
    """Return the dsn of the sessions of the job `name`: the settings come last, so they win over the user's options.

    A server that does not answer is waited for as long as `connect_timeout` and `tcp_user_timeout` of the dsn say.
    """
    settings = {**SESSION_SETTINGS, **_NO_TIMEOUTS}
    ours = " ".join(f"-c {key}={value}".replace(", ", ",\\ ") for key, value in settings.items())
    given = _parameters(dsn)
    options = f"{given.get('options', '')} {ours}".strip()
    waits = {key: value for key, value in _WAITS.items() if not _is_positive(given.get(key))}
    return make_conninfo(
        dsn,
        **waits,
        options=options,
        client_encoding=SESSION_SETTINGS["client_encoding"],
        application_name=f"{APPLICATION}/{name}",
    )


def address_text(dsn: str) -> str:
    """Return what an error may say of the server: `database shop on db:5432 as etl`."""
    parameters = _parameters(dsn)
    host = parameters.get("host") or parameters.get("hostaddr") or "the local socket"
    port = parameters.get("port")
    where = f"{host}:{port}" if port else host
    user = parameters.get("user")
    named = f"database {parameters.get('dbname') or user or 'of the user'} on {where}"
    return f"{named} as {user}" if user else named


def without_secrets(text: str, dsn: str) -> str:
    """Return a text of the server or its client with the dsn's secrets, and the whole dsn, replaced."""
    parameters = _parameters(dsn)
    secrets = [dsn, *(parameters[key] for key in _SECRETS if parameters.get(key))]
    for secret in secrets:
        text = text.replace(secret, "***")
    return text


def _is_positive(text: str | None) -> bool:
    """Whether a number is given; 0 stands for the system's own, which is hours."""
    return text is not None and text.strip().isdecimal() and int(text) > 0


def _parameters(dsn: str) -> dict[str, str]:
    try:
        return {key: str(value) for key, value in conninfo_to_dict(dsn).items() if value}
    except (psycopg.ProgrammingError, UnicodeError):
        # The client's words quote the dsn, so they are not repeated, nor chained.
        raise InvalidError(
            "the dsn of the source",
            found="a text that libpq does not read",
            expected="key=value pairs or a postgresql:// address",
            action="Correct the dsn: put a value with blanks into quotes, and escape % in an address.",
        ) from None
