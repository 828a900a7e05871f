"""``manage.py verify_trail``: was anything of the audit trail changed or taken out? Exit code 1 if so."""

import sys
from argparse import ArgumentTypeError
from datetime import timedelta
from typing import Any

from django.core.management.base import CommandError, CommandParser

from jobs.conf import engine_settings
from jobs.store.trail import chain
from tenants.management.command import PromptCommand


class Command(PromptCommand):
    help = "Verify the audit trail by its signed checkpoints; report changed, removed and added entries."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--anchor",
            metavar="NUMBER:SEAL",
            type=_anchor,
            help="a checkpoint from the log: detects that the whole database was put back",
        )
        parser.add_argument(
            "--begin-anew",
            action="store_true",
            help="after a restore: let the next checkpoint cover the whole present trail",
        )

    def handle(self, **options: Any) -> None:
        if options["begin_anew"]:
            self._begin_anew()
            return
        report = chain.verify(
            retention=timedelta(days=engine_settings().audit_days), anchor=options["anchor"]
        )
        for note in report.notes:
            self.stdout.write(f"note: {note}")
        for finding in report.findings:
            self.stdout.write(f"FOUND: {finding}")
        span = f"checkpoints {report.first} to {report.last}, " if report.last else ""
        self.stdout.write(
            f"{span}{report.changes:,} changes as they were signed, {report.stubs:,} checkpoints past retention"
        )
        if report.last:
            self.stdout.write(f"last: {report.last}:{report.seal}")
        if report.findings:
            sys.exit(1)

    def _begin_anew(self) -> None:
        try:
            begun = chain.begin_anew()
        except chain.Broken as error:
            raise CommandError(str(error)) from None
        self.stdout.write(
            "The next checkpoint covers the whole trail." if begun else "No checkpoint has ever been signed."
        )


def _anchor(text: str) -> tuple[int, str]:
    number, _, seal = text.partition(":")
    if not (number.isascii() and number.isdigit() and len(seal) >= 8):
        raise ArgumentTypeError("must be a checkpoint's number and seal, such as 12:9f86d081…")
    return int(number), seal
