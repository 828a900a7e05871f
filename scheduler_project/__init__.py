"""The Django project: settings, the Celery application, URLs, embedded servers and the process runner."""

from scheduler_project.celery import app as celery_app

__all__ = ("celery_app",)
