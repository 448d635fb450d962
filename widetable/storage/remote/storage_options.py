"""Options of object stores: where a store is and who asks it, by the names that Paimon has for them.

    s3.endpoint      s3.access-key    s3.secret-key             also s3a. and fs.s3a. in front, as in Hadoop's files
    gs.auth.service.account.json.keyfile                        also fs.gs.
    azure.account.key[.<account>.blob.core.windows.net]         also fs.azure. and fs.wasb.

A dot and a hyphen in a name are the same, as `access-key` and `access.key` are in Paimon. A key that is none of these
is refused by name, with the nearest one; those of other stores than the one that is asked are passed over, so that one
set of options serves all. Every value counts as a secret: it is in no error and no repr.

Options that nobody gave stand in a file, if the environment variable `WIDETABLE_STORAGE_OPTIONS` names one: a JSON
object of them. Raises InvalidError.
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
# As they are told to users. Those of Azure that are an account's may name it behind them.
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
    """Options as they were given, each checked. Picklable, with the values: tasks elsewhere need them."""

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
        """As they were given."""
        return dict(self._given)

    @property
    def secrets(self) -> tuple[str, ...]:
        """What no text may hold that comes from a store: credentials, not addresses."""
        return tuple(v for key, v in self._given.items() if _parsed(key)[1] not in _NO_SECRETS)

    def of_store(self, store: str, account: str = "") -> dict[str, str]:
        """Those of S3, GCS or AZURE, by the names that are told to users. account: whose they are, on Azure;
        what names it goes before what names none.

            azure.account.key.acc.blob.core.windows.net = 1     fs.azure.account.key = 2
            account acc                                         account.key 1
            another                                             account.key 2
        """
        given = [(*_parsed(key), value) for key, value in self._given.items()]
        return {
            name: value
            for asked in ("", account.lower())
            for of, name, whose, value in given
            if (of, whose) == (store, asked)
        }


def checked_storage_options(value: Any) -> StorageOptions | None:
    """The argument `storage_options`: a dict of texts."""
    if value is None or isinstance(value, StorageOptions):
        return value
    return _checked(value, ARGUMENT)


def options_of_the_file() -> StorageOptions:
    """Those for which nobody gave others: of the file that the environment names; none where it names none."""
    path = os.environ.get(FILE_VARIABLE)
    if not path:
        return StorageOptions({})
    subject = f"{path} ({FILE_VARIABLE})"
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError, RecursionError) as cause:  # whose text may hold what stands there
        raise InvalidError(
            subject,
            found=f"no JSON object ({type(cause).__name__})",
            expected='a file such as {"s3.endpoint": "https://store.example"}',
            action=f"Correct the file, or unset {FILE_VARIABLE}.",
        ) from None
    return _checked(found, subject)


def split_storage_options(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """(options of stores, all others), of options that an engine was given in one set. A key that begins as those of
    stores do is one of them, known or not, in whatever case it is.

    Nothing is checked here, and each key stays as it was given: two that differ in case only may have two values, which
    `checked_storage_options` refuses.
    """
    prefixes = tuple(prefix for each in _PREFIXES.values() for prefix in each)
    ours = {key: value for key, value in options.items() if key.lower().startswith(prefixes)}
    others = {key: value for key, value in options.items() if key not in ours}
    return ours, others


def _checked(given: Any, subject: str) -> StorageOptions:
    if not isinstance(given, Mapping):
        raise _refused(subject, f"a value of type {type(given).__name__}", "a dict of texts")
    found: dict[str, str] = {}
    names: dict[tuple[str, str, str], str] = {}
    for key, value in given.items():
        if not isinstance(key, str):
            raise _refused(f"key of {subject}", f"a value of type {type(key).__name__}", "a text")
        name = f"{subject} {text(key, f'key of {subject}')!r}"
        parsed = _parsed(key)
        if not parsed[0]:
            near = get_close_matches(key.lower(), KNOWN, 1, 0.0)[0]
            raise _refused(
                name, "a key that no store takes", f"such as {near!r}, or one of {KNOWN}"
            )
        other = names.setdefault(parsed, key)
        if other != key and given[other] != value:
            raise _refused(name, f"another value than that of {other!r}", "one of both")
        found[key] = _checked_value(name, value, parsed[1])
    _check_pairs(subject, names)
    return StorageOptions(found)


def _check_pairs(subject: str, given: Mapping[tuple[str, str, str], str]) -> None:
    """Credentials in halves would be made up from the environment."""
    for store, name, whose in given:
        for one, other in _PAIRS:
            if name == one and (store, other, whose) not in given:
                key = given[store, name, whose]
                expected = f"with it {_PREFIXES[store][0]}{other}"
                raise _refused(f"{subject} {key!r}", "it without its other half", expected)


def _checked_value(name: str, value: Any, option: str) -> str:
    """Without a word of the value."""
    if not isinstance(value, str):
        raise _refused(name, f"a value of type {type(value).__name__}", "a text")
    if not value or has_control_characters(value) or not _is_unicode(value):
        raise _refused(name, "a text that is empty or has characters that none has", "a plain text")
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
# The first is nothing without the second, of the same store and account.
_PAIRS: Final = (
    ("access-key", "secret-key"),
    ("secret-key", "access-key"),
    ("session.token", "access-key"),
    ("account.oauth2.client.id", "account.oauth2.client.secret"),
    ("account.oauth2.client.secret", "account.oauth2.client.id"),
)
# No secrets: texts of clients show them. So they may hold no credentials.
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
    """(store, name as told to users, account or none); ("", "", "") for a key that no store takes.

    Of `fs.s3a.access.key` s3, access-key and none; of
    `azure.account.key.Acc.blob.core.windows.net` azure, account.key, acc.
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


def _refused(subject: str, found: str, expected: str) -> InvalidError:
    return InvalidError(subject, found=found, expected=expected, action="Correct the option.")
