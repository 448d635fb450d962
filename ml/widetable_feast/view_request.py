"""What is read for a feature view: which table, by which columns of the entities, which columns as which features.

    view                                              request
    source field_mapping {"clk": "clicks"}            columns clk
    projection.join_key_map {"user": "buyer"}         on {"buyer": "user"}
    full_feature_names, name_to_use() "week"          names week__clicks
    ttl 0                                             none: Feast has no limit then

In: feature views and references. Out: requests. Pure. Raises InvalidError for a view whose source is no table of ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from feast.feature_view import FeatureView

from widetable import InvalidError
from widetable_feast.table_source import WidetableSource


@dataclass(frozen=True)
class ViewRequest:
    """The features of one view. on: column of the entities to key column. names: of the features, as `columns`."""

    source: WidetableSource
    on: Mapping[str, str]
    columns: tuple[str, ...]
    names: tuple[str, ...]
    ttl: timedelta | None

    def within(self, age: timedelta) -> ViewRequest:
        """Return the request for features of at most that age, whatever the ttl of the view."""
        return replace(self, ttl=age)


def view_requests(
    views: Sequence[FeatureView], references: Sequence[str], *, full_names: bool
) -> list[ViewRequest]:
    """Return a request for each view that a reference names. references: "view:feature"."""
    requests = []
    for view in views:
        used = view.projection.name_to_use()
        named = [ref.split(":", 1) for ref in dict.fromkeys(references)]
        features = [feature for name, feature in named if name == used]
        base = view.projection.name_alias or view.name
        source = table_source(view.batch_source, f"feature view {view.name!r}")
        mapped = {feature: column for column, feature in source.field_mapping.items()}
        requests.append(
            ViewRequest(
                source,
                _on(view),
                tuple(mapped.get(feature, feature) for feature in features),
                tuple(f"{base}__{feature}" if full_names else feature for feature in features),
                view.ttl or None,
            )
        )
    return requests


def table_source(source: Any, subject: str) -> WidetableSource:
    """Return the source if it is one of ours; raise InvalidError otherwise."""
    if isinstance(source, WidetableSource):
        return source
    raise InvalidError(
        subject,
        found=f"a source of type {type(source).__name__}",
        expected="a WidetableSource",
        action="Give the view a WidetableSource, or use another offline store.",
    )


def _on(view: FeatureView) -> dict[str, str]:
    renamed = view.projection.join_key_map or {}
    return {renamed.get(each.name, each.name): each.name for each in view.entity_columns}
