"""WSGI entry point, served by gunicorn (``gunicorn.conf.py``)."""

import os

from django.core.wsgi import get_wsgi_application

from scheduler_project.sessions import refuse_shared_sessions

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "scheduler_project.settings")

application = get_wsgi_application()
refuse_shared_sessions()
