"""``carillon workflows``: bring one to its definition, run it, and follow and steer its runs."""

from carillon.commands.workflows import runs, versions
from carillon.commands.workflows.definitions import app

__all__ = ("app", "runs", "versions")
