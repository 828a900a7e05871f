"""procrastinate no-ops in a database of their own on the stage's Postgres: ``python -m …procrastinate_noop COUNT``.

The no-ops are deferred in one batch, so that the clock measures the workers alone. The times are those that
procrastinate itself records of each job: from the batch's commit to the last success.
"""

import os
import sys

from procrastinate import App, PsycopgConnector

MODULE = "benchmarks.peers.queues.procrastinate_noop"
CLI = ("-m", "procrastinate", "--app", f"{MODULE}.app")

app = App(connector=PsycopgConnector(conninfo=os.environ.get("BENCH_DATABASE", "")))


@app.task(name="noop")
async def noop() -> None:
    """Do nothing."""


def defer(count: int) -> None:
    """Put ``count`` no-ops into the queue at once."""
    with app.open():
        noop.batch_defer(*[{} for _ in range(count)])


if __name__ == "__main__":
    # Import the module under the name that the workers know: run as a script it is called __main__, and so would its
    # task be.
    from benchmarks.peers.queues import procrastinate_noop

    procrastinate_noop.defer(int(sys.argv[1]))
