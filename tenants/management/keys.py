"""The common part of commands that create API keys."""

import json
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError

from tenants.actions import create_api_key
from tenants.clock import database_now
from tenants.management.arguments import complaints
from tenants.models import Tenant


def add_key_options(parser: ArgumentParser) -> None:
    """``--expires-in-days``, ``--rate-per-second`` and ``--json``."""
    parser.add_argument(
        "--expires-in-days",
        type=int,
        metavar="N",
        help="days until the key expires, 1 to 3650; by default it never expires",
    )
    parser.add_argument(
        "--rate-per-second",
        type=int,
        metavar="N",
        help="API calls per second; the limit in the settings by default",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def make_key(tenant: Tenant | None, *, scopes: Sequence[str], options: Mapping[str, Any]) -> str:
    """Create a key, without a tenant one of the installation; returns the text to print. Raises ``CommandError``."""
    days = options["expires_in_days"]
    if days is not None and not 1 <= days <= 3650:
        raise CommandError("expires_in_days: Must be a whole number from 1 to 3,650.")
    try:
        key, text = create_api_key(
            tenant=tenant,
            name=options["name"],
            scopes=scopes,
            expires_at=None if days is None else database_now() + timedelta(days=days),
            rate_per_second=options["rate_per_second"],
        )
    except ValidationError as error:
        raise CommandError(complaints(error)) from error
    if options["json"]:
        return json.dumps({"tenant": tenant and tenant.slug, "prefix": key.prefix, "api_key": text})
    whose = tenant.slug if tenant else "the installation"
    return f"API key ({', '.join(key.scopes)}) of {whose}, shown this once: {text}"
