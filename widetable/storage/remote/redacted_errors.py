"""Shortens the error messages of storage clients, and removes credentials from them.

The values that an error must not show are the user's options and the credentials of the environment. Each character is
matched as it is and as URLs, XML and HTML encode it, because the program that encodes a text chooses the form. The
parameters and the users of URLs are removed as well, as they may contain signatures.

    message     Generic S3 error: 403: <Error><Code>AccessDenied</Code><Message>no</Message></Error>
    redacted    Generic S3 error: 403: AccessDenied no
    message     see https://u:p@host/x?sig=1 now
    redacted    see https://host/x now
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import Final
from urllib.parse import quote_plus

_LONGEST_REASON: Final = 300
_SHORTEST_SECRET: Final = 4
# Environment variables that may contain credentials of a store.
_SECRET_VARIABLE: Final = re.compile(
    r"(AWS|AZURE|GOOGLE|GCP|GCS)_.*(KEY|SECRET|TOKEN|SAS|PASSWORD)"
)


def redacted_message(cause: BaseException, secrets: Iterable[str]) -> str:
    """Return the short message without credentials. Redact the error and its causes too, as tracebacks show them.

    Values shorter than four characters are not treated as secrets: they occur in any text. The chain is followed from
    the error to its causes; each error is visited once, as chains may have cycles.
    """
    hidden = [*secrets, *_secrets_of_environment()]
    text = _short(_without(_text(cause), hidden))
    # Callers interpret an OSError by its errno, so its arguments stay a pair (`_hide`).
    if not isinstance(cause, OSError) or cause.errno is None:
        cause.args = (text,)
    link: BaseException | None = cause
    seen: set[int] = set()
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        _hide(link, hidden)
        link = link.__cause__ or link.__context__
    return text[:_LONGEST_REASON] or type(cause).__name__


def _hide(error: BaseException, secrets: Sequence[str]) -> None:
    """Remove secrets from an error. An error without secrets is not changed: the first of a chain are the user's.

    Both the text and the arguments are checked: tracebacks, logs and pickles show one or the other.
    """
    shown = f"{_text(error)} {error.args!r}"
    if _without(shown, secrets) == shown:
        return
    if isinstance(error, OSError) and error.errno is not None:
        error.strerror = _without(str(error.strerror), secrets)
        error.args = (error.errno, error.strerror)
    else:
        error.args = (_without(_text(error), secrets),)
    shown = f"{_text(error)} {error.args!r}"
    if _without(shown, secrets) != shown:  # the text shows an attribute, such as the response
        error.__dict__.clear()


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # an error that was redacted before may lack what its text needs  # noqa: BLE001
        return type(error).__name__


def _without(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        if len(secret) >= _SHORTEST_SECRET:
            pattern = "".join(map(_encoded_forms, secret))
            text = re.sub(pattern, "***", text, flags=re.IGNORECASE)  # %2b is %2B
    return text


def _encoded_forms(char: str) -> str:
    """Return a pattern of all encodings of a character in messages of stores and proxies. The longest come first, so
    that no rest remains: &amp; before &.
    """
    encoded = "".join(f"%{byte:02X}" for byte in char.encode(errors="surrogatepass"))
    numbers = f"&#0*{ord(char)};|&#x0*{ord(char):x};"
    forms = {encoded, escape(char), char, quote_plus(char, errors="surrogatepass")}
    return f"(?:{numbers}|{'|'.join(map(re.escape, sorted(forms, key=len, reverse=True)))})"


def _short(text: str) -> str:
    """Shorten a message: remove debug output, XML tags, and the users and parameters of URLs."""
    text = text.partition("\n\nDebug source")[0]
    head, sign, body = text.partition("<")
    if sign:
        messages = re.findall(r"<(?:Code|Message)>([^<]*)", sign + body)
        text = f"{head} {' '.join(messages)}"
    text = re.sub(r"//[^/\s]*@", "//", text)
    text = re.sub(r"\?\S*", "", text)
    return " ".join(text.split())


def _secrets_of_environment() -> list[str]:
    return [value for name, value in os.environ.items() if _SECRET_VARIABLE.match(name.upper())]
