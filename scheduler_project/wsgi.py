"""WSGI entry point, served by gunicorn (``gunicorn.conf.py``)."""

import os

from django.core.wsgi import get_wsgi_application

from jobs.telemetry import get_logger
from scheduler_project.schema import OlderSchema, refuse_older_schema
from scheduler_project.sessions import go_through_pooler

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "scheduler_project.settings")

application = get_wsgi_application()
go_through_pooler()
try:
    refuse_older_schema()
except OlderSchema as error:  # the process stays: /readyz must report it
    get_logger().error("schema older than the code", reason=str(error))
