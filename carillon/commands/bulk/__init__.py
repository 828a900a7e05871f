"""``carillon bulk`` and ``operations``: many jobs or triggers by one command."""

from carillon.commands.bulk import acting, creating
from carillon.commands.bulk.acting import operations

app = acting.app
app.command("create")(creating.create)

__all__ = ("app", "operations")
