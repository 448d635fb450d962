"""Tells whether a failed request can have done anything. Raises nothing."""

from __future__ import annotations

import requests
from urllib3.exceptions import NewConnectionError


def is_unsent(refusal: requests.RequestException) -> bool:
    """Return whether no connection was made, so that nothing can have been done.

    False for a kept connection that the other side had closed: the outcome is unknown.
    """
    reason = getattr(refusal.args[0] if refusal.args else None, "reason", None)
    return isinstance(refusal, requests.ConnectTimeout) or isinstance(reason, NewConnectionError)
