"""``manage.py create_operator_key NAME``: a key of the installation, whose text is shown this once."""

from argparse import ArgumentParser
from typing import Any

from tenants.management.command import PromptCommand
from tenants.management.keys import add_key_options, make_key
from tenants.models import ApiKey


class Command(PromptCommand):
    help = "Create an API key for the levers over all tenants; it cannot use jobs. Its text is printed once."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="name for people: who uses the key")
        add_key_options(parser)

    def handle(self, **options: Any) -> None:
        self.stdout.write(make_key(None, scopes=[ApiKey.Scope.OPERATOR], options=options))
