"""``manage.py create_api_key SLUG NAME``: a key whose text is shown this once."""

import json
from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError

from tenants.actions import create_api_key
from tenants.clock import database_now
from tenants.management.arguments import complaints, tenant_of


class Command(BaseCommand):
    help = "Create an API key; its text is printed once."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("slug")
        parser.add_argument("name", help="for people: who uses it")
        parser.add_argument("--scopes", default="read,write", help="some of read, write, worker, admin")
        parser.add_argument("--expires-in-days", type=int, metavar="N", help="1 to 3650; never by default")
        parser.add_argument("--rate-per-second", type=int, metavar="N", help="as the settings say by default")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, **options: Any) -> None:
        tenant, days = tenant_of(options["slug"]), options["expires_in_days"]
        if days is not None and not 1 <= days <= 3650:
            raise CommandError("expires_in_days: Must be a whole number from 1 to 3,650.")
        try:
            key, text = create_api_key(
                tenant=tenant,
                name=options["name"],
                scopes=[scope.strip() for scope in options["scopes"].split(",") if scope.strip()],
                expires_at=None if days is None else database_now() + timedelta(days=days),
                rate_per_second=options["rate_per_second"],
            )
        except ValidationError as error:
            raise CommandError(complaints(error)) from error
        if options["json"]:
            self.stdout.write(json.dumps({"tenant": tenant.slug, "prefix": key.prefix, "api_key": text}))
            return
        self.stdout.write(f"API key ({', '.join(key.scopes)}) of {tenant.slug}, shown this once: {text}")
