"""Names that are imported at their first use: Python workers of Spark import this package, and most need less."""

from __future__ import annotations

from typing import Final

from widetable.connector import late_names

HOMES: Final = {"cdc": "jobs.cdc", "cdc_apply": "jobs.cdc_apply"}
imported = late_names("widetable_spark", HOMES)
