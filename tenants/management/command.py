"""The base of Carillon's own commands: they begin at once."""

from django.core.management.base import BaseCommand


class PromptCommand(BaseCommand):
    """A command without Django's checks of the code: they import every page, and take longer than a command does.

    ``manage.py check`` and ``manage.py migrate`` run them.
    """

    requires_system_checks = ()
