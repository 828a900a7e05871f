"""``manage.py ensure_admin``: the first superuser, with a random password that is printed once and kept nowhere."""

import json
import secrets
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import CommandParser
from django.db import IntegrityError, transaction

from tenants.management.command import PromptCommand


class Command(PromptCommand):
    help = "Create the superuser `admin` with a random password, unless a superuser exists."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help='{"created", "username", "password"}')

    def handle(self, *args: Any, **options: Any) -> None:
        password = _create_first_superuser("admin")
        if options["json"]:
            found = {"created": password is not None, "username": "admin", "password": password}
            self.stdout.write(json.dumps(found))
        elif password:
            self.stdout.write(f"Created user admin with password {password} (shown only now).")
        else:
            self.stdout.write("There is a superuser or a user named admin already; nothing was changed.")


def _create_first_superuser(username: str) -> str | None:
    """The new account's password, or None when there was no need or the name is taken."""
    users = get_user_model()._default_manager
    if users.filter(is_superuser=True).exists():
        return None
    password = secrets.token_urlsafe(12)
    try:
        with transaction.atomic():
            users.create_superuser(username=username, password=password)  # type: ignore[attr-defined]
    except IntegrityError:  # taken, perhaps by a start at the same moment
        return None
    return password
