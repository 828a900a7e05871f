"""``carillon bulk`` and ``operations``: many jobs, triggers or runs of workflows by one command."""

from carillon.commands.bulk import acting, creating, runs
from carillon.commands.bulk.acting import operations

app = acting.app
app.command("create")(creating.create)

__all__ = ("app", "operations", "runs")
