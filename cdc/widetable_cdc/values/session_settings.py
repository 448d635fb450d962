"""The settings of each session in which a server writes values as texts.

The texts of the log depend on them too: a peek writes texts by the settings of the session that peeks, not of the
sessions that wrote. `column_type.py` reads texts of this form only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SESSION_SETTINGS: Final[Mapping[str, str]] = {
    "bytea_output": "hex",
    "client_encoding": "UTF8",
    "datestyle": "ISO, YMD",
    "extra_float_digits": "3",
    "intervalstyle": "iso_8601",
    "timezone": "UTC",
}
