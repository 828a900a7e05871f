"""``manage.py rotate_api_key PREFIX``: a key in the place of another, which expires after a while."""

import json
from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError

from tenants.actions import rotate_api_key
from tenants.management.arguments import complaints, key_of
from tenants.management.command import PromptCommand
from tenants.vault.signing import DEFAULT_OVERLAP


class Command(PromptCommand):
    help = "Create a key like an existing one, print its text once, and let the existing key expire."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("prefix", help="prefix of the key: the 12 characters after ck_")
        parser.add_argument(
            "--overlap-seconds",
            type=int,
            default=int(DEFAULT_OVERLAP.total_seconds()),
            metavar="S",
            help="how long both keys are accepted; a day by default",
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, **options: Any) -> None:
        old = key_of(options["prefix"])
        try:
            key, text = rotate_api_key(key=old, overlap=timedelta(seconds=options["overlap_seconds"]))
        except OverflowError:
            raise CommandError("overlap_seconds: Must be from 0 to 2592000.") from None
        except ValidationError as error:
            raise CommandError(complaints(error)) from error
        old.refresh_from_db()
        if options["json"]:
            assert old.expires_at is not None
            shown = {"prefix": key.prefix, "api_key": text, "old_expires_at": old.expires_at.isoformat()}
            self.stdout.write(json.dumps(shown))
            return
        self.stdout.write(f"The new key, shown this once: {text}")
        self.stdout.write(f"ck_{old.prefix}_… is accepted until {old.expires_at:%Y-%m-%d %H:%M:%S} UTC.")
