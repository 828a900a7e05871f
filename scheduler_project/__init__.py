"""The Django project: settings, the Celery application, URLs, embedded servers and the process runner."""

from scheduler_project.processes import collector

collector.let_load()

from scheduler_project.celery import app as celery_app  # noqa: E402

__all__ = ("celery_app",)
