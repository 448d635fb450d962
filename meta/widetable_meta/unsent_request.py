"""Whether a request that failed can have done anything. Raises nothing."""

from __future__ import annotations

import requests
from urllib3.exceptions import NewConnectionError


def is_unsent(refusal: requests.RequestException) -> bool:
    """Whether no connection was made, so that nothing can have been done. Of a connection that
    was kept and that the other side had closed nobody knows: False.
    """
    reason = getattr(refusal.args[0] if refusal.args else None, "reason", None)
    return isinstance(refusal, requests.ConnectTimeout) or isinstance(reason, NewConnectionError)
