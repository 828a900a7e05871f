"""The console's first page: who leads, what is in flight, what is due, what died lately.

Every figure is a bounded read of an index; one that reaches its bound is shown as such ("1,000+"), never guessed. Each
is shown only to those who may see the rows behind it.
"""

from datetime import timedelta
from typing import Any

from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest

from jobs.admin.shared.cells import flower_url, instant_text
from jobs.admin.shared.lists import first_id_since
from jobs.core.states import TriggerState
from jobs.models import Lease, Trigger
from jobs.models.trigger import DISPATCHABLE
from jobs.store.history import database_now

MOST_COUNTED = 1000
LATELY = timedelta(hours=24)


def dashboard(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Unfold's ``DASHBOARD_CALLBACK``: adds what ``templates/admin/index.html`` shows."""
    now = database_now()
    user: Any = request.user
    context |= {"title": "Overview", "now": instant_text(now), "flower_url": flower_url()}
    if user.has_perm("jobs.view_lease"):
        context["reigns"] = reigns(now)
    if user.has_perm("jobs.view_trigger"):
        dead = Trigger.objects.filter(state=TriggerState.DEAD, id__gte=first_id_since(now - LATELY))
        context |= {
            "in_flight": in_flight(),
            "due": bounded_count(Trigger.objects.filter(DISPATCHABLE, due_at__lte=now)),
            "dead": bounded_count(dead),
        }
    return context


def reigns(now: Any) -> list[dict[str, Any]]:
    """Each lease with its holder; one that ran out is nobody's."""
    return [
        {
            "name": lease.name,
            "holder": lease.holder if lease.expires_at > now else "nobody",
            "leads": lease.expires_at > now,
            "term": lease.term,
            "expires": instant_text(lease.expires_at),
        }
        for lease in Lease.objects.order_by("name")[:20]
    ]


def in_flight() -> list[dict[str, Any]]:
    """Queued and running triggers by job type, from the partial index that dispatch itself counts with.

    Their number is bounded by what dispatch may publish, not by the table.
    """
    flying = Trigger.objects.filter(state__in=(TriggerState.QUEUED, TriggerState.RUNNING)).order_by()
    queued, running = Q(state=TriggerState.QUEUED), Q(state=TriggerState.RUNNING)
    counted = flying.values("job_type").annotate(
        queued=Count("pk", filter=queued), running=Count("pk", filter=running)
    )
    return [dict(row) for row in counted.order_by("job_type")]


def bounded_count(rows: QuerySet[Any]) -> str:
    """How many rows there are, as far as ``MOST_COUNTED``."""
    count = len(rows.order_by().values_list("pk", flat=True)[: MOST_COUNTED + 1])
    return f"{MOST_COUNTED:,}+" if count > MOST_COUNTED else str(count)
