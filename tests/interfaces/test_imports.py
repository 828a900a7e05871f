"""A process that Celery's command starts imports the console's pages only when it needs a URL."""

import subprocess
import sys

STARTED_BY_CELERY = """
import celery.bin.celery, sys
from scheduler_project.celery import app
app.loader.import_default_modules()
print(any(name.startswith("jobs.admin") for name in sys.modules))
from django.urls import reverse
print(reverse("admin:jobs_trigger_changelist"))
"""


def test_what_celery_starts_has_no_console_until_it_asks_for_a_url() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STARTED_BY_CELERY], capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["False", "/admin/jobs/trigger/"], done.stderr
