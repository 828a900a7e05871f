"""``manage.py create_operator_key NAME``: a key of the installation, whose text is shown this once."""

from argparse import ArgumentParser
from typing import Any

from tenants.management.command import PromptCommand
from tenants.management.keys import add_key_options, make_key
from tenants.models import ApiKey


class Command(PromptCommand):
    help = "Create an API key for the levers over all tenants; its text is printed once. It reads and writes no jobs."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="for people: who uses it")
        add_key_options(parser)

    def handle(self, **options: Any) -> None:
        self.stdout.write(make_key(None, scopes=[ApiKey.Scope.OPERATOR], options=options))
