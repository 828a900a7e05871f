"""A process imports the console's pages only when it needs a URL, however it was started."""

import subprocess
import sys

import pytest

STARTED_BY_CELERY = """
import celery.bin.celery
from scheduler_project.celery import app
app.loader.import_default_modules()
"""
STARTED_BY_DJANGO = """
import os, django
os.environ["DJANGO_SETTINGS_MODULE"] = "scheduler_project.settings"
django.setup()
"""
LOOK = """
import sys
print(any(name.startswith(("jobs.admin", "unfold.admin", "jobs.api")) for name in sys.modules))
"""
A_BEATS = """
import sys
import jobs.actions.bulk.runner, jobs.engine.beat
print(any(name.startswith("jobs.shapes") for name in sys.modules))
"""
CHECKED = """
from django.contrib import admin
from django.core.checks import run_checks
from django.contrib.auth.models import User
assert not admin.site._registry
run_checks(tags=["admin"])
print(User in admin.site._registry)
"""
REVERSED = """
from django.urls import reverse
print(reverse("admin:jobs_trigger_changelist"))
"""


@pytest.mark.parametrize("start", [STARTED_BY_CELERY, STARTED_BY_DJANGO], ids=["celery", "django"])
def test_a_process_has_no_console_until_it_asks_for_a_url(start: str) -> None:
    assert _printed(start + LOOK + REVERSED) == ["False", "/admin/jobs/trigger/"]


def test_a_beat_imports_what_callers_may_ask_for_once_they_have_asked() -> None:
    assert _printed(STARTED_BY_CELERY + A_BEATS) == ["False"]


def test_checks_of_the_console_see_its_pages_though_nothing_else_has_imported_them() -> None:
    assert _printed(STARTED_BY_DJANGO + CHECKED) == ["True"]


def _printed(program: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()
