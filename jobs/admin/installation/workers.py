"""Workers and queues: the workers that take work, how busy they are, and the work that waits for them.

A page asks, and then tells a worker to stop taking messages, to take messages again, or to stop. All are actions of
``jobs.actions.processes``. Job types are paused on their own pages.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import quote, urlencode

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from jobs.actions.processes import workers as actions
from jobs.admin.overview.links import Links
from jobs.admin.overview.rows import type_rows
from jobs.admin.shared.cells import NOTHING, flower_url
from jobs.admin.shared.pages import InstallationPage
from jobs.core.errors import CarillonError
from jobs.core.instants import span
from jobs.core.judgement.of_engine import SILENT_SECONDS
from jobs.core.pull import is_pull
from jobs.explain.wellbeing import Condition, wellbeing
from jobs.store.insight.workers import is_own_name

#: From this percentage on a bar warns.
NEARLY_FULL = 90
MAX_WORKERS = 200
MAX_QUEUES_NAMED = 8
TO_TELL = "jobs.change_installation"
#: The orders to a worker: the button, the question, the message when it is done, and the action.
VERBS: dict[str, tuple[str, str, str, Callable[..., object]]] = {
    "quiet": (
        "Stop taking messages",
        "It takes no more messages from any of its queues; the work that it has taken goes on. It stays "
        "quiet until it is told to take messages again, or restarted.",
        "Worker {name} takes no more messages.",
        actions.quiet_worker,
    ),
    "resume": (
        "Take messages again",
        "It takes messages again from the queues that it served before it was quiet.",
        "Worker {name} takes messages again.",
        actions.resume_worker,
    ),
    "stop": (
        "Stop the worker",
        "It ends as after a SIGTERM: triggers that it has not begun go back to its queue, running attempts "
        "may finish within CARILLON_DRAIN_SECONDS and are then handed back. Its supervisor, if it has one, "
        "starts it again.",
        "Worker {name} was told to stop.",
        actions.stop_worker,
    ),
}


class WorkerFiguresPage(InstallationPage):
    """The part of the page that is fetched again and again."""

    title = "Workers"
    permission = "jobs.view_queue"
    template_name = "admin/workers/figures.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return kwargs | worker_figures(self.request)


class Workers(InstallationPage):
    title = "Workers and queues"
    permission = "jobs.view_queue"
    template_name = "admin/workers/page.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(**kwargs, **worker_figures(self.request), flower_url=flower_url())


class TellWorker(InstallationPage):
    """Asks, and on the POST tells the worker. The worker's name stands in ``?worker=``."""

    title = "Workers"
    permission = TO_TELL
    template_name = "admin/workers/confirm.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        button, asks, _, _ = self._verb(kwargs)
        found = wellbeing.look()
        row = next((row for row in worker_rows(found) if row["name"] == self._worker()), None)
        return super().get_context_data(
            **kwargs, worker=self._worker(), row=row, button=button, asks=asks, back=reverse("workers")
        )

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        _, _, done, act = self._verb(kwargs)
        try:
            act(name=self._worker())
        except CarillonError as error:
            messages.error(request, str(error))
        else:
            messages.success(request, done.format(name=self._worker()))
        return HttpResponseRedirect(reverse("workers"))

    def _worker(self) -> str:
        return self.request.GET.get("worker", "")

    def _verb(self, kwargs: dict[str, Any]) -> tuple[str, str, str, Callable[..., object]]:
        if kwargs["verb"] not in VERBS:
            raise Http404
        return VERBS[kwargs["verb"]]


def worker_figures(request: HttpRequest) -> dict[str, Any]:
    found, user = wellbeing.look(), request.user
    rates = {row.job_type: row.rate for row in found.seen.queues}
    rows = worker_rows(found)
    return {
        "workers": rows[:MAX_WORKERS],
        "more_workers": max(0, len(rows) - MAX_WORKERS),
        "types": [
            row | {"rate": f"{rates.get(row['name']['text'], 0):.1f}"}
            for row in type_rows(found, Links(user))
        ],
        "may_tell": user.has_perm(TO_TELL),  # type: ignore[union-attr]
    }


def worker_rows(found: Condition) -> list[dict[str, Any]]:
    """The workers by name. ``busy`` is the worker's last report; ``running`` counts triggers: a slot may have many."""
    claimed = {row.worker: row for row in found.seen.in_flight if row.worker}
    return [_worker_row(row, claimed.get(row.name)) for row in found.seen.workers]


def _worker_row(row: Any, claimed: Any) -> dict[str, Any]:
    pull = any(is_pull(queue) for queue in row.queues)
    share = 0 if row.busy is None else min(100, round(100 * row.busy / max(1, row.concurrency)))
    name, _, host = row.name.partition("@")
    return {
        "name": row.name,
        "short": name,
        "host": NOTHING if pull else host or NOTHING,
        "kind": "pull worker" if pull else "",
        "queues": [queue.removeprefix("jobs.") for queue in row.queues[:MAX_QUEUES_NAMED]],
        "more_queues": max(0, len(row.queues) - MAX_QUEUES_NAMED),
        "is_quiet": not row.queues,
        "busy": NOTHING if row.busy is None else row.busy,
        "slots": row.concurrency,
        "share": share,
        "is_nearly_full": share >= NEARLY_FULL,
        "running": f"{claimed.count:,}" if claimed else "0",
        "oldest": span(timedelta(seconds=claimed.oldest_seconds)) if claimed else NOTHING,
        "seen": f"{span(timedelta(seconds=row.silent_seconds))} ago",
        "is_silent": not pull and row.silent_seconds > SILENT_SECONDS,
        "flower": None if pull else f"{flower_url()}/worker/{quote(row.name, safe='')}",
        "tell": None
        if pull or is_own_name(row.name)
        else {
            verb: f"{reverse('tell_worker', args=[verb])}?{urlencode({'worker': row.name})}" for verb in VERBS
        },
    }
