"""``manage.py reset_second_factor USERNAME``: for an operator whose telephone and recovery codes are lost."""

from argparse import ArgumentParser
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandError

from tenants.console.operators import reset_second_factor
from tenants.management.command import PromptCommand


class Command(PromptCommand):
    help = "Let an operator sign in with the password only, and end all their sessions. May be repeated."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username")

    def handle(self, **options: Any) -> None:
        operator = User.objects.filter(username=options["username"]).first()
        if operator is None:
            raise CommandError(f"There is no operator {options['username']!a}.")
        had = reset_second_factor(operator)
        self.stdout.write(f"{operator} {'has no second factor any more' if had else 'has no second factor'}.")
