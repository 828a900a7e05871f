"""``manage.py revoke_api_key PREFIX``: refuse a key from now on."""

from argparse import ArgumentParser
from typing import Any

from tenants.actions import revoke_api_key
from tenants.management.arguments import key_of
from tenants.management.command import PromptCommand


class Command(PromptCommand):
    help = "Refuse every request with this key from now on. Cannot be undone; may be repeated."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("prefix", help="prefix of the key: the 12 characters after ck_")

    def handle(self, **options: Any) -> None:
        key = revoke_api_key(key=key_of(options["prefix"]))
        self.stdout.write(f"ck_{key.prefix}_… is refused since {key.revoked_at:%Y-%m-%d %H:%M:%S} UTC.")
