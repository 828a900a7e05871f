"""``manage.py update_tenant SLUG``: change a tenant's quotas, weight, name or status."""

import json
from argparse import ArgumentParser, BooleanOptionalAction
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError

from tenants.actions import CHANGEABLE, update_tenant
from tenants.management.arguments import (
    add_lists,
    add_quotas,
    complaints,
    given_lists,
    given_quotas,
    tenant_of,
)
from tenants.management.command import PromptCommand
from tenants.models import Tenant


class Command(PromptCommand):
    help = (
        "Change a tenant. A quota may be below the present use: nothing is removed, and nothing more is "
        "let in until the use has fallen below it."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("slug")
        parser.add_argument("--name", help="name for people")
        parser.add_argument("--status", help=", ".join(Tenant.Status.values))
        parser.add_argument(
            "--require-if-match",
            action=BooleanOptionalAction,
            help="PUT, PATCH and DELETE of jobs must name the job's version",
        )
        parser.add_argument(
            "--all-events",
            action=BooleanOptionalAction,
            help="the event feed also lists each success and each retry",
        )
        parser.add_argument(
            "--circuit-breaker",
            action=BooleanOptionalAction,
            help="stop calling a host once calls to it keep failing",
        )
        add_quotas(parser)
        add_lists(parser)
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, **options: Any) -> None:
        own = ("name", "status", "require_if_match", "all_events", "circuit_breaker")
        changes = {name: options[name] for name in own if options[name] is not None}
        changes |= given_quotas(options) | given_lists(options)
        tenant = tenant_of(options["slug"])
        if not changes:
            raise CommandError("Nothing to change: name a quota, --name or --status.")
        try:
            tenant = update_tenant(tenant=tenant, **changes)
        except ValidationError as error:
            raise CommandError(complaints(error)) from error
        shown = {name: getattr(tenant, name) for name in CHANGEABLE}
        if options["json"]:
            self.stdout.write(json.dumps({"tenant": tenant.slug, **shown}))
            return
        self.stdout.write(
            f"Tenant {tenant.slug}: " + ", ".join(f"{name} {shown[name]}" for name in changes) + "."
        )
