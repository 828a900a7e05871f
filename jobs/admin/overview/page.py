"""The console's first page: whether all is well, and if not, why; then tenants, job types and processes, worst first.

The figures are those of ``jobs.explain.wellbeing``, kept for some seconds. The page fetches them again and again as a
fragment; read without JavaScript it shows them once. Each part is shown only to users who may see the rows behind it,
and only for tenants within the operator's reach.
"""

from collections.abc import Hashable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from django.http import HttpRequest
from django.utils.html import conditional_escape, format_html
from django.utils.safestring import SafeString, mark_safe

from jobs.admin.overview import playbooks
from jobs.admin.overview.links import Links
from jobs.admin.overview.rows import beat_rows, clock_rows, tenant_rows, type_rows
from jobs.admin.shared.cells import flower_url, instant_text
from jobs.admin.shared.pages import ConsolePage
from jobs.core.judgement import Figures, LeaderFigures, Level, Reason, Verdict, WorkerFigures, judge
from jobs.explain.wellbeing import wellbeing
from tenants.console.reach import tenants_within_reach

#: The worst reason stands in the sentence, so many more below it.
MAX_REASONS = 12
#: The end of a trouble is told for so long, to so many askers.
TOLD_FOR = timedelta(minutes=10)
MAX_ASKERS = 100


def dashboard(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Unfold's ``DASHBOARD_CALLBACK``: adds the context of ``templates/admin/index.html``."""
    return context | {"title": "Overview", "flower_url": flower_url()} | figures_for(request.user)


class OverviewFigures(ConsolePage):
    """The part of the first page that is fetched again and again.

    It is for every user who is signed in, and shows them the figures that they may see.
    """

    title = "Overview"
    permission = ""
    template_name = "admin/overview/figures.html"

    def is_permitted(self, request: HttpRequest) -> bool:
        return True

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        # A fragment has no sidebar, whose links cost more than all figures together.
        return kwargs | figures_for(self.request.user)


class Aftermath:
    """Levels that were worse until lately, by asker, as far as this process was asked: so that their end is told."""

    def __init__(self) -> None:
        self._last: dict[Hashable, dict[Level, tuple[datetime, str]]] = {}

    def of(self, asker: Hashable, verdict: Verdict, at: datetime) -> str:
        """The trouble that ended last; empty where none did within some minutes."""
        if len(self._last) >= MAX_ASKERS:
            self._last.clear()
        known = self._last.setdefault(asker, {})
        if verdict.reasons:
            known[verdict.level] = (at, verdict.reasons[0].text)
        ended = [told for level, told in known.items() if level < verdict.level and at - told[0] <= TOLD_FOR]
        if not ended:
            return ""
        ended_at, text = max(ended)
        return f"Over since {ended_at:%H:%M:%S}: {text}."

    def forget(self) -> None:
        self._last.clear()


aftermath = Aftermath()


def figures_for(user: Any) -> dict[str, Any]:
    """The context of the first page for ``user``; empty without a permission to look."""
    work, engine = user.has_perm("jobs.view_trigger"), user.has_perm("jobs.view_lease")
    if not (work or engine):
        return {}
    within = tenants_within_reach(user)
    found, links = wellbeing.look(within), Links(user)
    verdict = judge(shown_to(found.figures, work=work, engine=engine, bound=within is not None))
    over = aftermath.of((within, work, engine), verdict, found.at)
    shown: dict[str, Any] = {
        "over": over and _with_code(over),
        "now": instant_text(found.at),
        "verdict": verdict,
        "level": verdict.level.name.lower(),
        "sentence": _with_code(verdict.sentence),
        "reasons": [_reason(reason, links) for reason in verdict.reasons[:MAX_REASONS]],
        "more_reasons": max(0, len(verdict.reasons) - MAX_REASONS),
    }
    if work:
        shown |= {"tenants": tenant_rows(found, links), "types": type_rows(found, links)}
    if engine and within is None:
        shown |= {"beats": beat_rows(found), "clocks": clock_rows(found)}
    return shown


def shown_to(figures: Figures, *, work: bool, engine: bool, bound: bool) -> Figures:
    """The figures without those that the user may not see; they then give no reason either.

    ``work``: the user may see triggers; ``engine``: leases and processes. ``bound``: the user is bound to some tenants,
    and may not see figures of the installation as a whole. ``figures`` count only within reach already.
    """
    if not work:
        figures = replace(figures, types={}, tenants=(), missed={}, lost={}, open_targets=())
    if not engine or bound:
        blank = Figures()
        figures = replace(
            figures,
            clocks=blank.clocks,
            bypassed=blank.bypassed,
            shared_names=blank.shared_names,
            partitions=blank.partitions,
            # Only breakers within reach are counted.
            open_breakers=len(figures.open_targets),
            paused_targets=blank.paused_targets,
            feed_lag_seconds=blank.feed_lag_seconds,
            past_retention=blank.past_retention,
            connections=blank.connections,
            leader=_nameless(figures.leader),
            workers=tuple(_unnamed(worker) for worker in figures.workers),
        )
    return figures


def _nameless(leader: LeaderFigures | None) -> LeaderFigures | None:
    return leader and replace(leader, holder="")


def _unnamed(worker: WorkerFigures) -> WorkerFigures:
    return replace(worker, name="")


def _reason(reason: Reason, links: Links) -> dict[str, Any]:
    text = reason.text[0].upper() + reason.text[1:]
    return {
        "level": reason.level.name.lower(),
        "text": _with_code(text),
        "url": links.of(reason),
        "playbook": f"{playbooks.FOLDER}/{reason.playbook}.md",
        "playbook_url": playbooks.url_of(reason.playbook),
    }


def _with_code(text: str) -> SafeString:
    """Names in backticks as code."""
    parts = text.split("`")
    shown = [
        format_html("<code>{}</code>", part) if nth % 2 and nth < len(parts) - 1 else conditional_escape(part)
        for nth, part in enumerate(parts)
    ]
    return mark_safe("".join(shown))  # noqa: S308
