"""``manage.py rotate_signing_secret SLUG``: a fresh signing secret, shown this once."""

import json
from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError

from tenants.management.arguments import complaints, tenant_of
from tenants.management.command import PromptCommand
from tenants.vault.signing import DEFAULT_OVERLAP, rotate_signing_secret


class Command(PromptCommand):
    help = "Sign a tenant's webhooks with a new secret, and for a while also with the previous one."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("slug")
        parser.add_argument(
            "--overlap-seconds",
            type=float,
            default=DEFAULT_OVERLAP.total_seconds(),
            metavar="S",
            help="how long both secrets sign; a day by default, 0: the old one stops at once",
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, **options: Any) -> None:
        tenant = tenant_of(options["slug"])
        try:
            overlap = timedelta(seconds=options["overlap_seconds"])
            secret = rotate_signing_secret(tenant=tenant, overlap=overlap)
        except (ValidationError, OverflowError, ValueError) as error:
            raise CommandError(
                complaints(error)
                if isinstance(error, ValidationError)
                else "overlap_seconds: Must be a number of seconds."
            ) from error
        retires_at = tenant.webhook_secret_retires_at
        if options["json"]:
            shown = {
                "tenant": tenant.slug,
                "webhook_secret": secret,
                "retires_at": retires_at and retires_at.isoformat(),
            }
            self.stdout.write(json.dumps(shown))
            return
        until = (
            f" The previous secret also signs until {retires_at:%Y-%m-%d %H:%M:%S} UTC." if retires_at else ""
        )
        self.stdout.write(
            f"Webhooks of {tenant.slug} are signed with {secret} from now on, shown this once.{until}"
        )
