"""``manage.py rekey``: seal every secret under the first of ``CARILLON_ENCRYPTION_KEYS``."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from tenants.management.command import PromptCommand
from tenants.vault.rekey import SLICE, keys_in_use, rekey
from tenants.vault.sealing import current_prefix, key_id_of


class Command(PromptCommand):
    help = (
        "Seal every secret with the first of CARILLON_ENCRYPTION_KEYS. May be stopped and repeated. An old "
        "key may be removed once every process has the new one and a later run finds nothing under the old."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--slice", type=int, default=SLICE, metavar="N", help="rows per transaction")

    def handle(self, **options: Any) -> None:
        if not 1 <= options["slice"] <= 10_000:
            raise CommandError("--slice: must be from 1 to 10,000.")
        unreadable = []
        for step in rekey(slice_rows=options["slice"]):
            self.stdout.write(f"{step.table}: {step.looked_at:,} rows read, {step.sealed:,}  sealed again")
            unreadable += [f"{step.table} {row}" for row in step.unreadable]
        current = key_id_of(current_prefix())
        for key_id, count in sorted(keys_in_use().items()):
            note = " (the first key)" if key_id == current else ""
            self.stdout.write(f"key {key_id}{note}: {count:,} secrets")
        if unreadable:
            raise CommandError(
                f"No key opens {len(unreadable):,} secrets; put their key back: {', '.join(unreadable[:10])}"
            )
