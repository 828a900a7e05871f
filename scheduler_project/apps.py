"""The project as an app, and the checks that ``manage.py check`` runs beside Django's own."""

from collections.abc import Collection, Sequence
from typing import Any

from django.apps import AppConfig, apps
from django.conf import settings
from django.contrib import admin
from django.contrib.admin.apps import SimpleAdminConfig
from django.contrib.admin.checks import check_admin_app, check_dependencies
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db.models.signals import post_migrate


class ConsoleConfig(SimpleAdminConfig):
    """Django's admin, without its pages: a process that serves pages imports them, with ``scheduler_project.urls``."""

    def ready(self) -> None:
        register(check_dependencies, Tags.admin)
        register(_check_pages, Tags.admin)


def _check_pages(app_configs: Sequence[AppConfig] | None, **asked: Any) -> list[CheckMessage]:
    """Django's check of the admin, once all pages are known."""
    admin.autodiscover()
    return check_admin_app(app_configs, **asked)


class SchedulerProjectConfig(AppConfig):
    """Registered so that ``manage.py up`` is found here."""

    name = "scheduler_project"
    default = True

    def ready(self) -> None:
        from scheduler_project.sessions import bound_waits
        from scheduler_project.web.logins import follow_logins
        from scheduler_project.web.requests import forget_ended_requests
        from scheduler_project.web.sessions import follow_sessions

        bound_waits()
        follow_logins()
        follow_sessions()
        # After the last app: by then all models have their permissions.
        post_migrate.connect(
            _keep_groups, sender=[*apps.get_app_configs()][-1], dispatch_uid="carillon-groups"
        )
        forget_ended_requests()


def _keep_groups(**of_migrate: Any) -> None:
    from tenants.console.groups import keep_groups

    admin.autodiscover()
    keep_groups(**of_migrate)


@register(Tags.security, deploy=True)
def sealing_keys_are_given(**_: Any) -> list[Warning]:
    """Secrets sealed under a key that is derived from ``SECRET_KEY`` are lost when ``SECRET_KEY`` changes."""
    if settings.PLATFORM.encryption_keys:
        return []
    return [
        Warning(
            "CARILLON_ENCRYPTION_KEYS is not set: secrets are sealed under a key derived from SECRET_KEY.",
            hint="Set it to the output of `openssl rand -base64 32`, then run manage.py rekey.",
            id="carillon.W001",
        )
    ]


@register(Tags.database)
def replica_is_one(databases: Collection[str] | None = None, **_: Any) -> list[CheckMessage]:
    """``manage.py check --database replica``: the replica follows the server at ``DATABASE_URL``, and answers."""
    from jobs.store import replica
    from jobs.store.db.routing import REPLICA

    if REPLICA not in (databases or ()) or not replica.is_configured():
        return []
    found = replica.examine()
    if found is None:
        return []
    if found.word is replica.Word.AWAY:
        return [Warning(f"The replica is away: {found}", id="carillon.W002")]
    return [Error(str(found), id="carillon.E001")]
