"""What the client of a store says in an error: short, and without credentials.

Values that an error must not show are those that the user gave and those of the environment, each character as it
stands or as URLs, XML and HTML write it: who encodes a text chooses which of them. Parameters of URLs and users in them
go too, as signatures stand there.

    said    Generic S3 error: 403: <Error><Code>AccessDenied</Code><Message>no</Message></Error>
    told    Generic S3 error: 403: AccessDenied no
    said    see https://u:p@host/x?sig=1 now
    told    see https://host/x now
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
# Of the environment: what may be credentials of a store.
_SECRET_VARIABLE: Final = re.compile(
    r"(AWS|AZURE|GOOGLE|GCP|GCS)_.*(KEY|SECRET|TOKEN|SAS|PASSWORD)"
)


def said_without_secrets(cause: BaseException, secrets: Iterable[str]) -> str:
    """From then on the error says no more itself, nor do those that led to it: they are in tracebacks, too.

    Values shorter than four characters are no secrets: they would stand in any text. The chain
    is followed from the error to what caused it, each once, as chains may close.
    """
    hidden = [*secrets, *_secrets_of_environment()]
    text = _short(_without(_text(cause), hidden))
    # An OSError's errno decides how it is understood further up, so its arguments stay pairs
    # (`_hide`).
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
    """Those that hold none are left alone: the first of a chain are the user's.

    Both what it says of itself and its arguments are looked at: tracebacks, logs and pickles
    show the one or the other.
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
    if _without(shown, secrets) != shown:  # it says what an attribute has, such as the answer
        error.__dict__.clear()


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # of one that was hidden before, and says what it no longer has  # noqa: BLE001
        return type(error).__name__


def _without(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        if len(secret) >= _SHORTEST_SECRET:
            pattern = "".join(map(_written, secret))
            text = re.sub(pattern, "***", text, flags=re.IGNORECASE)  # %2b is %2B
    return text


def _written(char: str) -> str:
    """A pattern of all that may stand for a character in what a store or a proxy says; the longest first, as no rest
    should stay: &amp; before &.
    """
    encoded = "".join(f"%{byte:02X}" for byte in char.encode(errors="surrogatepass"))
    numbers = f"&#0*{ord(char)};|&#x0*{ord(char):x};"
    forms = {encoded, escape(char), char, quote_plus(char, errors="surrogatepass")}
    return f"(?:{numbers}|{'|'.join(map(re.escape, sorted(forms, key=len, reverse=True)))})"


def _short(text: str) -> str:
    """Without what is said for programs."""
    text = text.partition("\n\nDebug source")[0]
    head, sign, body = text.partition("<")
    if sign:
        said = re.findall(r"<(?:Code|Message)>([^<]*)", sign + body)
        text = f"{head} {' '.join(said)}"
    text = re.sub(r"//[^/\s]*@", "//", text)
    text = re.sub(r"\?\S*", "", text)
    return " ".join(text.split())


def _secrets_of_environment() -> list[str]:
    return [value for name, value in os.environ.items() if _SECRET_VARIABLE.match(name.upper())]
