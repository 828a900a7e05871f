"""``manage.py grant_roles ROLE``: make a database role the application's; such a role cannot undo the audit trail."""

import os
from datetime import timedelta
from typing import Any

from django.core.management.base import CommandError, CommandParser

from jobs.conf import engine_settings
from jobs.store.trail import roles
from tenants.management.command import PromptCommand


class Command(PromptCommand):
    help = (
        "Run as the tables' owner, after migrate: grant ROLE the rights that processes need; on the audit "
        "trail only to read it and to append to it. May be repeated."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("role", help="created if it does not exist; it may log in if a password is given")
        parser.add_argument(
            "--password-from", metavar="VARIABLE", help="the environment variable that holds its password"
        )

    def handle(self, **options: Any) -> None:
        role, variable = options["role"], options["password_from"]
        if variable and not os.environ.get(variable):
            raise CommandError(f"{variable} is empty: it should hold the password of {role}")
        try:
            roles.grant(
                role=role,
                password=os.environ[variable] if variable else None,
                retention=timedelta(days=engine_settings().audit_days),
            )
        except roles.NotSeparate as error:
            raise CommandError(str(error)) from None
        self.stdout.write(
            f"{role} has the rights that processes need, and can only read and append to the audit trail."
        )
