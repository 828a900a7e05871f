"""``manage.py create_api_key SLUG NAME``: a key whose text is shown this once."""

from argparse import ArgumentParser
from typing import Any

from tenants.management.arguments import tenant_of
from tenants.management.command import PromptCommand
from tenants.management.keys import add_key_options, make_key


class Command(PromptCommand):
    help = "Create an API key; its text is printed once."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("slug")
        parser.add_argument("name", help="name for people: who uses the key")
        parser.add_argument(
            "--scopes", default="read,write", help="scopes of the key: some of read, write, worker, admin"
        )
        add_key_options(parser)

    def handle(self, **options: Any) -> None:
        scopes = [scope.strip() for scope in options["scopes"].split(",") if scope.strip()]
        self.stdout.write(make_key(tenant_of(options["slug"]), scopes=scopes, options=options))
