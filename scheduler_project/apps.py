from django.apps import AppConfig


class SchedulerProjectConfig(AppConfig):
    """Registered so that ``manage.py up`` is found here."""

    name = "scheduler_project"
