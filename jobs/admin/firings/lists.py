"""The lists of triggers: a tab for each phase, on that phase's index, and the columns that matter in it.

``Ended`` comes first, so that the look-ahead never hides past firings. An index leads to triggers that are running,
queued, retrying or held. Late and upcoming triggers are put together lane by lane. Ended triggers are sifted out of the
newest ones.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.contrib.filters.admin import ChoicesDropdownFilter, DropdownFilter

from jobs.admin.shared.cells import (
    NOTHING,
    duration_cell,
    instant_cell,
    instant_text,
    moment_cell,
    state_label,
    work_link,
)
from jobs.admin.shared.filters import (
    ErrorCodeFilter,
    JobTypeFilter,
    LabelFilter,
    MadeSince,
    MadeUntil,
    MadeWithin,
    ReasonFilter,
    TenantFilter,
)
from jobs.admin.shared.lists import ReadOnlyAdmin, words
from jobs.admin.shared.walks import Tab, Walk, WalkedAdmin
from jobs.core.instants import EARLIEST, LATEST
from jobs.core.policies import Priority
from jobs.core.states import ENDED, PHASES, UNFINISHED, TriggerState
from jobs.explain.gate import span
from jobs.models import Trigger
from jobs.store.console.lists import waiting
from tenants.clock import DatabaseNow, database_now
from tenants.console.reach import tenants_within_reach

#: So many of the newest triggers are searched for ended ones: a look-ahead at 1,600 firings a second.
MAX_AHEAD = 100_000
#: So many late or upcoming triggers are listed, the first due first.
MAX_WAITING = 100
WHOSE = ("job_cell", "tenant", "job_type")
_ENDED_PHASES = sorted({PHASES[state] for state in ENDED})
_WAITING_PHASES = ("pending", "retrying")
TABS = (
    Tab(
        "ended",
        "Ended",
        "No trigger has ended yet.",
        ("firing", "shown_state", *WHOSE, "attempt_count", "waited", "took", "ended"),
        tuple(state.value for state in TriggerState if state in ENDED),
    ),
    Tab(
        "running",
        "Running",
        "No trigger runs at the moment.",
        ("firing", "shown_state", *WHOSE, "worker", "running_for", "attempt_count", "started_ago"),
        ("running",),
    ),
    Tab(
        "queued",
        "Queued",
        "No trigger is queued: workers have taken all messages.",
        ("firing", "shown_state", *WHOSE, "attempt_count", "queued_ago"),
        ("queued",),
    ),
    Tab(
        "late",
        "Late",
        "No trigger is late: all due triggers were dispatched.",
        ("firing", "shown_state", *WHOSE, "shown_priority", "attempt_count", "fell_due"),
    ),
    Tab(
        "retrying",
        "Retrying",
        "No trigger waits for another attempt.",
        ("firing", "shown_state", *WHOSE, "attempt_count", "falls_due"),
        ("retrying",),
    ),
    Tab(
        "upcoming",
        "Upcoming",
        "No trigger becomes due within the look-ahead. The list of jobs shows when they fire next.",
        ("firing", "shown_state", *WHOSE, "shown_priority", "falls_due"),
        ("pending",),
    ),
    Tab(
        "held",
        "Held",
        "No trigger is held: none waits for a paused job, for another trigger or for its target.",
        ("firing", "shown_state", *WHOSE, "held_for", "falls_due"),
    ),
)
FOUND = ("firing", "shown_state", *WHOSE, "attempt_count", "waited", "ended")


class StateFilter(DropdownFilter):
    """Offers the states of the tab, where it has several."""

    title = "state"
    parameter_name = "state__exact"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:
        tab = model_admin.tab(request)
        states = tab.states if tab else tuple(state.value for state in TriggerState)
        return words(states) if len(states) > 1 else ()

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(state=self.value()) if self.value() else queryset


class TriggerLists(ReadOnlyAdmin, WalkedAdmin):
    """The lists' half of ``TriggerAdmin``; its page is in ``firings.trigger``."""

    of_history = True
    tabs = TABS
    list_display = TABS[0].columns
    list_filter = (
        ("tenant", TenantFilter),
        JobTypeFilter,
        LabelFilter,
        StateFilter,
        ReasonFilter,
        ErrorCodeFilter,
        ("origin", ChoicesDropdownFilter),
        ("priority", ChoicesDropdownFilter),
        MadeWithin,
        MadeSince,
        MadeUntil,
    )

    def tells_of_history(self, request: HttpRequest) -> bool:
        """The tab of ended triggers does; the other tabs tell how things stand."""
        tab = self.tab(request)
        return super().tells_of_history(request) and tab is not None and tab.name == "ended"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Trigger]:
        rows: QuerySet[Trigger] = super().get_queryset(request).annotate(now=DatabaseNow())
        return rows

    def get_list_display(self, request: HttpRequest) -> tuple[str, ...]:
        tab = self.tab(request)
        return tab.columns if tab else FOUND

    def walk(self, request: HttpRequest) -> Walk:
        tab, rows = self.tab(request), Trigger.objects.all()
        match tab.name if tab else "":
            case "ended":
                return Walk(rows, most=MAX_AHEAD if self.tenant_of(request) is None else None, sifts=True)
            case "running" | "queued":
                return Walk(rows.filter(phase="in_flight"), "queued_at", falling=False, by_tenant=False)
            case "retrying":
                return Walk(rows.filter(phase="retrying"), "due_at", falling=False, by_tenant=False)
            case "held":
                held = rows.filter(held=True, phase__in=_WAITING_PHASES)
                return Walk(held, "due_at", falling=False, by_tenant=False)
            case "late" | "upcoming":
                ids = self._waiting(request)
                among = f"The {MAX_WAITING} triggers that are due first, with the chosen tenant and type."
                first = rows.filter(id__in=ids)
                return Walk(
                    first,
                    "due_at",
                    falling=False,
                    by_tenant=False,
                    among=among if len(ids) == MAX_WAITING else "",
                )
        return Walk(rows)

    def of_tab(self, request: HttpRequest, rows: QuerySet[Trigger]) -> QuerySet[Trigger]:
        tab = self.tab(request)
        match tab.name if tab else "":
            case "ended":
                return rows.filter(phase__in=_ENDED_PHASES)
            case "running" | "queued" as state:
                return rows.filter(state=state, phase="in_flight")
            case "retrying":
                return rows.filter(phase="retrying")
            case "held":
                return rows.filter(held=True, phase__in=_WAITING_PHASES)
            case "late" | "upcoming":
                return rows.filter(id__in=self._waiting(request))
        return rows

    def _waiting(self, request: HttpRequest) -> list[Any]:
        """Ids of the first to fall due, of the requested tenant and type; other filters sift these."""
        if not hasattr(request, "_waiting"):
            tab, now, within = self.tab(request), database_now(), tenants_within_reach(request.user)
            one = self.tenant_of(request)
            late = tab is not None and tab.name == "late"
            request._waiting = waiting(  # type: ignore[attr-defined]
                since=EARLIEST if late else now,
                until=now if late else LATEST,
                limit=MAX_WAITING,
                tenant_ids=within if one is None else [one],
                job_type=request.GET.get("job_type") or None,
            )
        found: list[Any] = request._waiting  # type: ignore[attr-defined]
        return found

    @admin.display(description="scheduled for")
    def firing(self, trigger: Trigger) -> str:
        return instant_cell(trigger.scheduled_for)

    @admin.display(description="state")
    def shown_state(self, trigger: Trigger) -> str:
        asked = trigger.cancel_requested and trigger.state in UNFINISHED
        why = trigger.reason or ("cancel asked" if asked else "held" * trigger.held)
        return state_label(trigger.state, f"{why}, dismissed" if trigger.dismissed_at else why)

    @admin.display(description="job")
    def job_cell(self, trigger: Trigger) -> str:
        return work_link(trigger.job, run_id=trigger.workflow_run_id)

    @admin.display(description="start lag")
    def waited(self, trigger: Trigger) -> str:
        return duration_cell(trigger.started_at - trigger.scheduled_for if trigger.started_at else None)

    @admin.display(description="took")
    def took(self, trigger: Trigger) -> str:
        """From the latest start to the end."""
        started, finished = trigger.started_at, trigger.finished_at
        return duration_cell(finished - started if started and finished else None)

    @admin.display(description="priority")
    def shown_priority(self, trigger: Trigger) -> str:
        return Priority(trigger.priority).label

    @admin.display(description="ended")
    def ended(self, trigger: Trigger) -> str:
        return moment_cell(trigger.finished_at, now=_now(trigger))

    @admin.display(description="running for")
    def running_for(self, trigger: Trigger) -> str:
        return span(_now(trigger) - trigger.started_at) if trigger.started_at else NOTHING

    @admin.display(description="started")
    def started_ago(self, trigger: Trigger) -> str:
        return moment_cell(trigger.started_at, now=_now(trigger))

    @admin.display(description="queued")
    def queued_ago(self, trigger: Trigger) -> str:
        return moment_cell(trigger.queued_at, now=_now(trigger))

    @admin.display(description="due")
    def falls_due(self, trigger: Trigger) -> str:
        return moment_cell(trigger.due_at, now=_now(trigger))

    @admin.display(description="late by")
    def fell_due(self, trigger: Trigger) -> str:
        return span(_now(trigger) - trigger.due_at)

    @admin.display(description="waits for")
    def held_for(self, trigger: Trigger) -> str:
        if trigger.parked_for:
            return f"target {trigger.parked_for}"
        if trigger.parked_until is not None:
            return f"its target, until {instant_text(trigger.parked_until)}"
        return "another trigger" if trigger.parked else "its job to be resumed"


def _now(trigger: Trigger) -> datetime:
    """The database's clock, as the row was read."""
    now: datetime = trigger.now  # type: ignore[attr-defined]
    return now
