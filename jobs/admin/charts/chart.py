"""One chart: the data that ``console/charts.js`` draws, and the same figures as a table, for users who see no canvas.

A tone stands for a colour in light and in dark mode. Tones differ in lightness; lines also differ in their dashes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson
from django.utils.html import escape
from django.utils.safestring import SafeString

#: A figure; None: there is none.
Value = float | None
SOLID, DASHED, DOTTED, LONG = (), (6, 3), (2, 3), (12, 4)


@dataclass(frozen=True, slots=True)
class Series:
    """``tone``: one of those in ``console/charts.js``."""

    label: str
    tone: str
    values: Sequence[Value]
    dash: tuple[int, ...] = SOLID

    @property
    def is_empty(self) -> bool:
        return not any(self.values)


@dataclass(frozen=True, slots=True)
class Chart:
    """``labels``: of the x axis, as many as each series has values. ``across``: horizontal bars, one a label."""

    key: str
    title: str
    kind: str
    labels: Sequence[str]
    series: Sequence[Series]
    note: str = ""
    stacked: bool = False
    across: bool = False
    seconds: bool = False
    first_column: str = "UTC"
    #: Series that are drawn even if there is nothing else.
    always: Sequence[Series] = field(default=())

    @property
    def is_empty(self) -> bool:
        return all(series.is_empty for series in self.series)

    @property
    def drawn(self) -> list[Series]:
        return [*self.series, *self.always]

    @property
    def data(self) -> dict[str, Any]:
        """The drawn data, as JSON types."""
        return {
            "kind": self.kind,
            "labels": list(self.labels),
            "stacked": self.stacked,
            "across": self.across,
            "seconds": self.seconds,
            "series": [
                {"label": one.label, "tone": one.tone, "dash": list(one.dash), "values": list(one.values)}
                for one in self.drawn
            ],
        }

    @property
    def json(self) -> str:
        return orjson.dumps(self.data).decode()

    @property
    def body(self) -> SafeString:
        """The table's rows as HTML: a template would take longer over them than the database over all charts."""
        cells = (
            f'<th scope="row" class="font-normal pr-4 py-1 text-left whitespace-nowrap">{escape(row[0])}</th>'
            + "".join(f'<td class="pr-4">{escape(cell)}</td>' for cell in row[1:])
            for row in self.rows
        )
        return SafeString("".join(f"<tr>{row}</tr>" for row in cells))

    @property
    def headers(self) -> list[str]:
        return [self.first_column, *(one.label for one in self.drawn)]

    @property
    def rows(self) -> list[list[str]]:
        """The table's rows: one for each label that has a figure, the latest last."""
        return [
            [label, *(self._told(one.values[nth]) for one in self.drawn)]
            for nth, label in enumerate(self.labels)
            if any(one.values[nth] for one in self.series)
        ]

    def _told(self, value: Value) -> str:
        if value is None:
            return "-"
        return f"{value:.3g} s" if self.seconds else f"{value:,.0f}"


def moments(since: datetime, bucket_seconds: float, count: int) -> list[str]:
    """The names of the buckets from ``since`` on, in UTC: as short as tells them apart."""
    span = bucket_seconds * count
    shape = "%H:%M" if span <= 90_000 else "%d %b %H:%M" if bucket_seconds < 86_400 else "%d %b"
    starts = (since.timestamp() + nth * bucket_seconds for nth in range(count))
    return [datetime.fromtimestamp(start, tz=since.tzinfo).strftime(shape) for start in starts]
