"""Options of object stores: addresses and credentials, with the names that Paimon uses.

    s3.endpoint      s3.access-key    s3.secret-key             also with the prefix s3a. or fs.s3a., as in Hadoop
    gs.auth.service.account.json.keyfile                        also fs.gs.
    azure.account.key[.<account>.blob.core.windows.net]         also fs.azure. and fs.wasb.

A dot and a hyphen in a name are equivalent, as `access-key` and `access.key` are in Paimon. Any other key is refused,
and the error names the nearest one. Options of other stores than the used one are ignored, so that one set of options
serves all stores. Every value is treated as a secret: no error and no repr shows it.

If the caller passes no options, they are read from the file that the environment variable `WIDETABLE_STORAGE_OPTIONS`
names, if it is set: a JSON object of options. Raises InvalidError.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final

from widetable.arguments import has_control_characters, text
from widetable.errors import InvalidError

S3: Final = "s3"
GCS: Final = "gs"
AZURE: Final = "azure"
FILE_VARIABLE: Final = "WIDETABLE_STORAGE_OPTIONS"
ARGUMENT: Final = "storage_options"

_PREFIXES: Final = {
    S3: ("s3.", "s3a.", "fs.s3a."),
    GCS: ("gs.", "fs.gs."),
    AZURE: ("azure.", "fs.azure.", "fs.wasb."),
}
# The names in messages to users. Azure's options of an account may end with the account.
_NAMES: Final = {
    S3: (
        "endpoint",
        "access-key",
        "secret-key",
        "session.token",
        "region",
        "endpoint.region",
        "path.style.access",
        "connection.ssl.enabled",
    ),
    GCS: ("auth.type", "auth.service.account.json.keyfile", "storage.root.url"),
    AZURE: (
        "account.key",
        "account.auth.type",
        "account.oauth2.client.id",
        "account.oauth2.client.secret",
        "account.oauth2.client.endpoint",
        "sas.fixed.token",
        "endpoint",
    ),
}
_OF_AN_ACCOUNT: Final = tuple(name for name in _NAMES[AZURE] if name != "endpoint")
KNOWN: Final = tuple(f"{_PREFIXES[store][0]}{name}" for store in _NAMES for name in _NAMES[store])


class StorageOptions:
    """Checked options, as the user wrote them. Picklable, with the values: tasks elsewhere need them."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = dict(sorted(given.items()))

    def __reduce__(self) -> tuple[object, ...]:
        return StorageOptions, (self._given,)

    def __repr__(self) -> str:
        return f"StorageOptions({', '.join(self._given)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StorageOptions) and self._given == other._given

    def __hash__(self) -> int:
        return hash(tuple(self._given.items()))

    def to_dict(self) -> dict[str, str]:
        """Return the options as the user wrote them.

        Returns
        -------
        dict of str to str
            Keys and values, with secrets.
        """
        return dict(self._given)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that no text from a store may contain: credentials, but not addresses."""
        return tuple(v for key, v in self._given.items() if _parsed(key)[1] not in _NO_SECRETS)

    def of_store(self, store: str, account: str = "") -> dict[str, str]:
        """Return the options of one kind of store. Options that name the account precede those that name none.

            azure.account.key.acc.blob.core.windows.net = 1     fs.azure.account.key = 2
            account acc                                         account.key 1
            another                                             account.key 2

        Parameters
        ----------
        store : str
            S3, GCS or AZURE.
        account : str, default ""
            The account on Azure.

        Returns
        -------
        dict of str to str
            Values by their names in messages.
        """
        parsed = [(*_parsed(key), value) for key, value in self._given.items()]
        return {
            name: value
            for owner in ("", account.lower())
            for of, name, whose, value in parsed
            if (of, whose) == (store, owner)
        }


def checked_storage_options(value: Any) -> StorageOptions | None:
    """Check the argument `storage_options`.

    Parameters
    ----------
    value : any
        What the caller gave.

    Returns
    -------
    StorageOptions or None
        The options; None for None.

    Raises
    ------
    InvalidError
        The value is no dict of texts, or an option is unknown or wrong.
    """
    if value is None or isinstance(value, StorageOptions):
        return value
    return _checked(value, ARGUMENT)


def options_of_the_file() -> StorageOptions:
    """Read the options from the file that the environment names; return empty options if it names no file."""
    path = os.environ.get(FILE_VARIABLE)
    if not path:
        return StorageOptions({})
    subject = f"{path} ({FILE_VARIABLE})"
    try:
        with open(path, encoding="utf-8") as file:
            values = json.load(file)
    except (
        OSError,
        ValueError,
        RecursionError,
    ) as cause:  # its text may contain secrets of the file
        raise InvalidError(
            subject,
            found=f"no JSON object ({type(cause).__name__})",
            expected='a file such as {"s3.endpoint": "https://store.example"}',
            action=f"Correct the file, or unset {FILE_VARIABLE}.",
        ) from None
    return _checked(values, subject)


def split_storage_options(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Split the options of an engine into those of stores and all others.

    Parameters
    ----------
    options : dict of str to str
        The options.

    Returns
    -------
    tuple of dict and dict
        (options of stores, all others), unchecked, with keys as given. A key with the prefix of a store is one of them,
        known or not, in any case.
    """
    prefixes = tuple(prefix for each in _PREFIXES.values() for prefix in each)
    ours = {key: value for key, value in options.items() if key.lower().startswith(prefixes)}
    others = {key: value for key, value in options.items() if key not in ours}
    return ours, others


def _checked(values: Any, subject: str) -> StorageOptions:
    if not isinstance(values, Mapping):
        raise _refused(subject, f"a value of type {type(values).__name__}", "a dict of texts")
    options: dict[str, str] = {}
    names: dict[tuple[str, str, str], str] = {}
    for key, value in values.items():
        if not isinstance(key, str):
            raise _refused(f"key of {subject}", f"a value of type {type(key).__name__}", "a text")
        name = f"{subject} {text(key, f'key of {subject}')!r}"
        parsed = _parsed(key)
        if not parsed[0]:
            near = get_close_matches(key.lower(), KNOWN, 1, 0.0)[0]
            raise _refused(
                name, "a key that no store accepts", f"a key such as {near!r}, or one of {KNOWN}"
            )
        other = names.setdefault(parsed, key)
        if other != key and values[other] != value:
            raise _refused(name, f"a value that differs from that of {other!r}", "only one of them")
        options[key] = _checked_value(name, value, parsed[1])
    _check_pairs(subject, names)
    return StorageOptions(options)


def _check_pairs(subject: str, keys: Mapping[tuple[str, str, str], str]) -> None:
    """Check that credentials are complete: a missing half would come from the environment."""
    for store, name, whose in keys:
        for one, other in _PAIRS:
            if name == one and (store, other, whose) not in keys:
                key, missing = keys[store, name, whose], f"{_PREFIXES[store][0]}{other}"
                raise _refused(
                    f"{subject} {key!r}", f"no {missing}", f"both: it requires {missing}"
                )


def _checked_value(name: str, value: Any, option: str) -> str:
    """Check the value of an option. Errors do not show it."""
    if not isinstance(value, str):
        raise _refused(name, f"a value of type {type(value).__name__}", "a text")
    if not value or has_control_characters(value) or not _is_unicode(value):
        raise _refused(name, "an empty text, or one with invalid characters", "a plain text")
    choices = _CHOICES.get(option)
    if choices and value.lower() not in [choice.lower() for choice in choices]:
        raise _refused(name, "another value", f"one of {', '.join(choices)}")
    if option in _ADDRESSES and ("@" in value or "?" in value):
        expected = "an address without credentials"
        raise _refused(name, "an address with a user name or parameters", expected)
    return value


_FLAG: Final = ("true", "false")
_CHOICES: Final = {
    "path.style.access": _FLAG,
    "connection.ssl.enabled": _FLAG,
    "auth.type": ("SERVICE_ACCOUNT_JSON_KEYFILE", "APPLICATION_DEFAULT"),
    "account.auth.type": ("SharedKey", "OAuth", "SAS"),
}
# The first option requires the second, for the same store and account.
_PAIRS: Final = (
    ("access-key", "secret-key"),
    ("secret-key", "access-key"),
    ("session.token", "access-key"),
    ("account.oauth2.client.id", "account.oauth2.client.secret"),
    ("account.oauth2.client.secret", "account.oauth2.client.id"),
)
# Not secret: messages of clients show them. So they must not contain credentials.
_ADDRESSES: Final = ("endpoint", "storage.root.url", "account.oauth2.client.endpoint")
_NO_SECRETS: Final = (
    *_ADDRESSES,
    *_CHOICES,
    "region",
    "endpoint.region",
    "auth.service.account.json.keyfile",
)


def _is_unicode(value: str) -> bool:
    try:
        return bool(value.encode())
    except UnicodeEncodeError:
        return False


def _parsed(key: str) -> tuple[str, str, str]:
    """Return (store, name in messages, account or ""); ("", "", "") for a key that no store accepts.

    `fs.s3a.access.key` gives s3, access-key and "";
    `azure.account.key.Acc.blob.core.windows.net` gives azure, account.key and acc.
    """
    for store, prefixes in _PREFIXES.items():
        for prefix in prefixes:
            if not key.lower().startswith(prefix):
                continue
            rest = key.lower()[len(prefix) :]
            for name in _NAMES[store]:
                dotted = name.replace("-", ".")
                if rest.replace("-", ".") == dotted:
                    return store, name, ""
                if store == AZURE and name in _OF_AN_ACCOUNT and rest.startswith(f"{dotted}."):
                    return store, name, rest[len(dotted) + 1 :].partition(".")[0]
    return "", "", ""


def _refused(subject: str, problem: str, expected: str) -> InvalidError:
    return InvalidError(subject, found=problem, expected=expected, action="Correct the option.")
