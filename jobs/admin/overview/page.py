"""The console's first page: who leads, what is in flight, what is due, what died lately.

Every figure is a bounded read of an index; one that reaches its bound is shown as such ("1,000+"), never guessed. Each
is shown only to those who may see the rows behind it.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest

from jobs.admin.shared.cells import flower_url, instant_text
from jobs.core.states import PHASES, TriggerState
from jobs.models import Lease, Trigger
from jobs.models.fields import first_id_since
from jobs.models.trigger import DEAD_LETTERS, DISPATCHABLE
from jobs.store.insight import clocks, workers
from tenants.clock import database_now

MAX_COUNTED = 1000
MAX_CLOCKS = 20
LATELY = timedelta(hours=24)


def dashboard(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Unfold's ``DASHBOARD_CALLBACK``: adds what ``templates/admin/index.html`` shows."""
    now = database_now()
    user: Any = request.user
    context |= {"title": "Overview", "now": instant_text(now), "flower_url": flower_url()}
    if user.has_perm("jobs.view_lease"):
        context |= {"leader": leader(now), "clocks": clock_rows()}
    if user.has_perm("jobs.view_trigger"):
        present = workers.present()
        dead = Trigger.objects.filter(DEAD_LETTERS, id__gte=first_id_since(now - LATELY))
        context |= {
            "in_flight": in_flight(present),
            "shared_names": workers.shared_names(present),
            "due": bounded_count(Trigger.objects.filter(DISPATCHABLE, due_at__lte=now)),
            "dead": bounded_count(dead),
        }
    return context


def leader(now: datetime) -> dict[str, Any] | None:
    """Who leads, or that nobody does since a lease ran out; None: no beat has ever led."""
    lease = Lease.objects.first()
    if lease is None:
        return None
    leads = lease.expires_at > now
    return {
        "holder": lease.holder if leads else "nobody",
        "term": lease.term,
        "leads": leads,
        "expires": instant_text(lease.expires_at),
    }


def clock_rows() -> list[dict[str, Any]]:
    """The clocks of beats and workers against the database's, those furthest off first."""
    return [
        {
            "name": row.name,
            "offset": f"{row.offset_seconds:+.3f} s",
            "far": abs(row.offset_seconds) - row.within_seconds > clocks.TOLERATED_SECONDS,
        }
        for row in clocks.present(limit=MAX_CLOCKS)
    ]


def in_flight(present: Sequence[Any]) -> list[dict[str, Any]]:
    """Queued and running triggers by job type, and the workers that take from its queue.

    Read from the partial index that dispatch itself counts with: their number is bounded by what dispatch may publish,
    not by the table.
    """
    flying = Trigger.objects.filter(phase=PHASES[TriggerState.RUNNING]).order_by()
    queued, running = Q(state=TriggerState.QUEUED), Q(state=TriggerState.RUNNING)
    counted = flying.values("job_type").annotate(
        queued=Count("pk", filter=queued), running=Count("pk", filter=running)
    )
    rows = {row["job_type"]: row for row in counted}
    serving = Counter(queue.removeprefix("jobs.") for worker in present for queue in worker.queues)
    idle = {"queued": 0, "running": 0}
    return [
        {"job_type": name, "workers": serving[name]} | rows.get(name, idle)
        for name in sorted(rows.keys() | serving.keys())
    ]


def bounded_count(rows: QuerySet[Any]) -> str:
    """How many rows there are, as far as ``MAX_COUNTED``."""
    count = len(rows.order_by().values_list("pk", flat=True)[: MAX_COUNTED + 1])
    return f"{MAX_COUNTED:,}+" if count > MAX_COUNTED else str(count)
