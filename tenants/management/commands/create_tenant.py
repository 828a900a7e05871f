"""``manage.py create_tenant SLUG``: a tenant, and an API key that is shown this once."""

import json
from argparse import ArgumentParser
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError
from django.db import transaction

from tenants.actions import create_api_key, create_tenant
from tenants.management.arguments import add_lists, add_quotas, complaints, given_lists, given_quotas
from tenants.management.command import PromptCommand
from tenants.vault.signing import open_signing_secrets


class Command(PromptCommand):
    help = "Create a tenant, and with --api-key a key whose text is printed once."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("slug", help="lower-case letters, digits and hyphens")
        parser.add_argument("--name", default="", help="name for people; the slug by default")
        parser.add_argument("--api-key", metavar="NAME", help="create an API key with this name")
        parser.add_argument(
            "--scopes", default="read,write", help="scopes of that key: some of read, write, worker, admin"
        )
        add_quotas(parser)
        add_lists(parser)
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, **options: Any) -> None:
        scopes = [scope.strip() for scope in options["scopes"].split(",") if scope.strip()]
        token = None
        try:
            with transaction.atomic():
                given = given_quotas(options) | given_lists(options)
                tenant = create_tenant(slug=options["slug"], name=options["name"], **given)
                if options["api_key"] is not None:
                    _, token = create_api_key(tenant=tenant, name=options["api_key"], scopes=scopes)
        except ValidationError as error:
            raise CommandError(complaints(error)) from error
        secret = open_signing_secrets(tenant.id, tenant.webhook_secret)
        if options["json"]:
            shown = {"tenant": tenant.slug, "api_key": token, "webhook_secret": secret}
            self.stdout.write(json.dumps(shown))
            return
        self.stdout.write(f"Tenant {tenant.slug} created. Its webhooks are signed with {secret}")
        if token:
            self.stdout.write(f"API key ({', '.join(scopes)}), shown this once: {token}")
