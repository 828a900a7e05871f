"""``python -m benchmarks.carillon.turns COUNT``: lead for that many turns and print how long each took, in ms, as JSON.

The scheduler is made just as ``celery beat`` makes it; only its sleep between turns is left out.
"""

import json
import sys
import time

import django

from scheduler_project.celery import app

WARM_UP = 20


def turns(count: int) -> list[float]:
    """Milliseconds of each turn; the first few, which connect and take the lead, are not counted."""
    django.setup()
    from jobs.engine.beat import LeaderScheduler

    scheduler = LeaderScheduler(app)
    cycle = scheduler._cycle
    assert cycle is not None
    found = []
    for _ in range(WARM_UP + count):
        began = time.perf_counter()
        cycle.tick()
        found.append(1000 * (time.perf_counter() - began))
    scheduler.close()
    return found[WARM_UP:]


if __name__ == "__main__":
    print(json.dumps(turns(int(sys.argv[1]))))
