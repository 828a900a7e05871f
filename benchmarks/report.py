"""The result of a bench, as a table for people and as one JSON line for programs."""

import json
from dataclasses import dataclass, field
from typing import Any

from rich.table import Table

from benchmarks.stage import BenchError


@dataclass(frozen=True)
class Row:
    """One contestant: its name and a figure for each column."""

    name: str
    figures: tuple[str, ...]


@dataclass(frozen=True)
class Report:
    """``ours`` and ``peer`` are the figures compared, in ``unit``; ``ratio`` above 1 speaks for Carillon.

    ``more`` goes into the JSON line under its own keys.
    """

    name: str
    title: str
    unit: str
    ours: float
    peer: float
    ratio: float
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    more: dict[str, Any] = field(default_factory=dict)

    def table(self) -> Table:
        table = Table(
            title=self.title, caption=f"ratio to the first peer: {self.ratio:.2f}", title_justify="left"
        )
        table.add_column("")
        for column in self.columns:
            table.add_column(column, justify="right")
        for row in self.rows:
            table.add_row(row.name, *row.figures)
        return table

    def json(self) -> str:
        return json.dumps(
            {
                "name": self.name,
                "unit": self.unit,
                "ours": round(self.ours, 3),
                "peer": round(self.peer, 3),
                "ratio": round(self.ratio, 3),
                **self.more,
            }
        )


def percentile(values: list[float], share: float) -> float:
    """The value below which ``share`` (0 to 1) of ``values`` lie, by nearest rank. Raises ``BenchError`` if empty."""
    if not values:
        raise BenchError("nothing was measured: there was too little time, or nothing ran")
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
