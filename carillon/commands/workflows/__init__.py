"""``carillon workflows``: bring one to its definition, run it, and follow and steer its runs."""

from carillon.commands.workflows import answers, runs, schedule, versions
from carillon.commands.workflows.definitions import app

__all__ = ("answers", "app", "runs", "schedule", "versions")
