"""``manage.py size``: the needs of an installation for a load, with the formulas; see ``jobs.core.sizing``."""

import json
from typing import Any

from django.core.management.base import CommandError, CommandParser

from jobs.core.errors import InvalidInput
from jobs.core.sizing import COSTS, Load, Sizing, inputs_of, size
from tenants.management.command import PromptCommand

#: Options whose names differ from the fields they fill.
_OPTIONS = {"runtime_seconds": "runtime"}


class Command(PromptCommand):
    help = "Compute what a load needs: workers, connections, memory, disk. Asks no server; docs/capacity.md."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--firings-per-second", type=float, required=True, metavar="R", help="average rate"
        )
        parser.add_argument(
            "--runtime",
            type=float,
            required=True,
            metavar="S",
            help="seconds that a handler, or a webhook's target, takes",
        )
        parser.add_argument(
            "--retention-days", type=float, required=True, metavar="D", help="CARILLON_HISTORY_DAYS"
        )
        parser.add_argument(
            "--attempts",
            type=float,
            default=1.0,
            metavar="A",
            help="average number of attempts of a firing (1)",
        )
        parser.add_argument("--tenants", type=int, default=1, metavar="T")
        parser.add_argument(
            "--kept-bytes",
            type=int,
            default=0,
            metavar="B",
            help="bytes of result and output kept per attempt (0)",
        )
        parser.add_argument(
            "--webhooks", action="store_true", help="asynchronous: a process has 200 webhooks in flight"
        )
        parser.add_argument("--all-events", action="store_true", help="the event feed also lists successes")
        parser.add_argument(
            "--replica", action="store_true", help="history is read from a replica, DATABASE_REPLICA_URL"
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, **options: Any) -> None:
        given = {name: options[_OPTIONS.get(name, name)] for name in Load.__dataclass_fields__}
        try:
            load = Load(**given)
        except InvalidInput as error:
            told = (f"{_option(name)}: {' '.join(texts)}" for name, texts in error.errors.items())
            raise CommandError("; ".join(told)) from None
        sizing = size(load)
        self.stdout.write(json.dumps(as_json(load, sizing)) if options["json"] else as_text(sizing))


def _option(field: str) -> str:
    return f"--{_OPTIONS.get(field, field).replace('_', '-')}"


def as_json(load: Load, sizing: Sizing) -> dict[str, Any]:
    """Inputs, needs with their formulas, notes, and the costs with their sources."""
    return {
        "load": inputs_of(load),
        "needs": {name: need._asdict() for name, need in sizing.needs.items()},
        "notes": list(sizing.notes),
        "costs": {name: cost._asdict() for name, cost in COSTS.items()},
    }


def as_text(sizing: Sizing) -> str:
    """A line for each need with the formula below it, then the notes."""
    lines = []
    for name, need in sizing.needs.items():
        lines += [f"{name.replace('_', ' ')}: {need.value:,.10g} {need.unit}", f"    = {need.formula}"]
    return "\n".join([*lines, "", *sizing.notes, "Sources of the costs: docs/capacity.md."])
