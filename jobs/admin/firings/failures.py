"""Failures: the latest dead letters, grouped by their common traits. An operator may replay or quieten a group as one.

A group is identified by its fingerprint, which its links carry. Each act asks first and says how many it touches. One
dead letter is replayed as a canary. The replay of the rest and the pausing of jobs are operations, which can be
stopped. A dismissal is done at once. All of it is audited.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.urls import reverse

from jobs.actions.bulk.operations import begin_operation
from jobs.actions.triggers import dismiss_dead_letters, replay_trigger
from jobs.admin.shared.cells import instant_text, moment_cell, trigger_link, visible
from jobs.admin.shared.pages import ConsolePage
from jobs.admin.shared.shares import MAX_UNTYPED
from jobs.admin.shared.veil import may_see_payloads
from jobs.admin.shared.writes import read_note, read_reason
from jobs.core.errors import CarillonError, InvalidInput
from jobs.core.states import JobStatus
from jobs.models import Attempt, Job
from jobs.selection.walks import dead_letters
from jobs.store.console.lists import MAX_DEAD, Fingerprint, failures
from tenants.clock import database_now
from tenants.console.reach import is_within_reach, tenants_within_reach
from tenants.models import Tenant

SPANS = {"1h": timedelta(hours=1), "24h": timedelta(hours=24), "7d": timedelta(days=7)}
DEFAULT = "24h"
#: So much of an answer is shown beside its group.
MAX_ANSWER = 300
#: Jobs that are counted before they are paused.
MAX_JOBS = 10_000


class FailuresPage(ConsolePage):
    title = "Failures"
    permission = "jobs.view_trigger"
    template_name = "admin/failures/page.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        now, span = database_now(), _span(self.request.GET)
        groups = failures(since=now - SPANS[span], tenant_ids=tenants_within_reach(self.request.user))
        return super().get_context_data(
            content_title=self.title,
            spans=[{"name": name, "active": name == span} for name in SPANS],
            span=span,
            groups=_told(self.request, groups, now=now, span=span),
            searched=MAX_DEAD if sum(group.count for group in groups) >= MAX_DEAD else 0,
            **kwargs,
        )


class FailureAct(ConsolePage):
    """Asks whether to do ``act`` to a group, with the number it touches; a POST does it."""

    title = "Failures"
    permission = "jobs.change_trigger"
    template_name = "admin/failures/act.html"
    http_method_names = ["get", "post"]

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        act = self._act()
        return super().get_context_data(
            content_title=self.title,
            act=act,
            back=f"{reverse('failures')}?span={act['span']}",
            **kwargs,
        )

    def post(self, request: HttpRequest) -> HttpResponseBase:
        act = self._act()
        tenant, back = act["tenant"], HttpResponseRedirect(f"{reverse('failures')}?span={act['span']}")
        if act["typed"] and request.POST.get("typed", "").strip() != tenant.slug:
            messages.error(request, f"Type {tenant.slug} to confirm: nothing was done.")
            return HttpResponseRedirect(request.get_full_path())
        try:
            if act["verb"] == "one":
                replay_trigger(tenant=tenant, trigger_id=act["sample_id"])
                messages.success(request, "Replayed one. Wait for its end before you replay the rest.")
                return HttpResponseRedirect(reverse("admin:jobs_trigger_change", args=[act["sample_id"]]))
            if act["verb"] == "dismiss":
                note, chosen = read_note(request.POST), {"filter": act["wanted"]}
                count = dismiss_dead_letters(
                    tenant=tenant,
                    queryset=dead_letters(act["wanted"], tenant=tenant),
                    note=note,
                    chosen=chosen,
                )
                messages.success(request, f"Dismissed {count:,} of {tenant.slug}.")
                return back
            reason = read_reason(request.POST) if act["verb"] == "pause" else ""
            begun = begin_operation(tenant=tenant, verb=act["operation"], wanted=act["wanted"], reason=reason)
        except InvalidInput as error:
            messages.error(request, str(error))
            return HttpResponseRedirect(request.get_full_path())
        except CarillonError as error:
            messages.error(request, str(error))
            return back
        messages.success(request, f"Begun for {tenant.slug}: the operation shows its progress.")
        if request.user.has_perm("jobs.view_operation"):  # type: ignore[union-attr]
            return HttpResponseRedirect(reverse("admin:jobs_operation_change", args=[begun.id]))
        return back

    def _act(self) -> dict[str, Any]:
        """The requested act, as it would be done now. Raises ``Http404`` for a group that is gone, or out of reach."""
        given = self.request.GET
        alike, span, verb = _fingerprint(given), _span(given), given.get("act", "")
        if alike is None or verb not in ("one", "rest", "dismiss", "pause"):
            raise Http404
        if not is_within_reach(self.request.user, alike.tenant_id):
            raise Http404
        tenant = Tenant.objects.filter(id=alike.tenant_id).first()
        since = database_now() - SPANS[span]
        groups = failures(since=since, alike=alike) if tenant else []
        if tenant is None or not groups:
            raise Http404
        [group] = groups
        told = {"tenant": tenant, "span": span, "verb": verb, "alike": alike, "sample_id": group.sample_id}
        if verb == "one":
            return told | {"count": 1, "typed": False, "title": "Replay one as a canary"}
        if verb == "pause":
            if not self.request.user.has_perm("jobs.change_job"):  # type: ignore[union-attr]
                raise PermissionDenied
            return told | _pausing(alike)
        return told | {
            "count": group.count,
            "typed": group.count > MAX_UNTYPED,
            "title": "Dismiss them" if verb == "dismiss" else "Replay the rest",
            "operation": "replay",
            "wanted": _alike(alike) | {"finished_after": since.isoformat()},
        }


def _pausing(alike: Fingerprint) -> dict[str, Any]:
    wanted = {"status": JobStatus.ACTIVE.value, "job_type": alike.job_type}
    if alike.target:
        wanted["target"] = alike.target
    jobs = Job.objects.filter(
        tenant_id=alike.tenant_id, deleted_at__isnull=True, status=JobStatus.ACTIVE, job_type=alike.job_type
    )
    if alike.target:
        jobs = jobs.filter(target=alike.target)
    count = jobs.order_by()[:MAX_JOBS].count()
    return {
        "count": count,
        "typed": count > MAX_UNTYPED,
        "title": "Pause their jobs",
        "operation": "pause",
        "wanted": wanted,
    }


def _alike(alike: Fingerprint) -> dict[str, str]:
    """A filter of dead letters that means the group."""
    given = {
        "job_type": alike.job_type,
        "error_code": alike.error_code,
        "http_status": str(alike.http_status or ""),
        "target": alike.target,
    }
    return {name: value for name, value in given.items() if value}


def _span(given: Mapping[str, Any]) -> str:
    span = str(given.get("span", DEFAULT))
    return span if span in SPANS else DEFAULT


def _fingerprint(given: Mapping[str, Any]) -> Fingerprint | None:
    """The fingerprint in an address; None: it makes no sense. Without an error code a group is not distinct."""
    tenant, http = str(given.get("tenant", "")), str(given.get("http", ""))
    if not (tenant.isdecimal() and len(tenant) < 19) or not (
        http == "" or (http.isdecimal() and len(http) == 3)
    ):
        return None
    if not given.get("job_type") or not given.get("error_code"):
        return None
    return Fingerprint(
        int(tenant),
        given["job_type"],
        given["error_code"],
        int(http) if http else None,
        given.get("target", ""),
    )


def _told(request: HttpRequest, groups: list[Any], *, now: datetime, span: str) -> list[dict[str, Any]]:
    slugs = dict(Tenant.objects.filter(id__in={g.tenant_id for g in groups}).values_list("id", "slug"))
    may_act: bool = request.user.has_perm("jobs.change_trigger")  # type: ignore[union-attr]
    may_pause: bool = request.user.has_perm("jobs.change_job")  # type: ignore[union-attr]
    answers = _answers(request, [group.sample_id for group in groups])
    rows = []
    for group in groups:
        query = {
            "tenant": group.tenant_id,
            "job_type": group.job_type,
            "error_code": group.error_code,
            "http": group.http_status or "",
            "target": group.target,
            "span": span,
        }
        acts = []
        if may_act and group.error_code:
            acts = [("one", "Replay one"), ("rest", "Replay the rest"), ("dismiss", "Dismiss them")]
            acts += [("pause", "Pause their jobs")] if may_pause else []
        rows.append(
            {
                "group": group,
                "tenant": slugs.get(group.tenant_id, group.tenant_id),
                "first": moment_cell(group.first_at, now=now),
                "last": moment_cell(group.last_at, now=now),
                "answer": answers.get(group.sample_id, ""),
                "sample": trigger_link(group.sample_id, "sample"),
                "list_url": _list_url(group, now - SPANS[span]),
                "acts": [
                    {
                        "title": title,
                        "url": f"{reverse('failures_act')}?{urlencode(query | {'act': act})}",
                    }
                    for act, title in acts
                ],
            }
        )
    return rows


def _answers(request: HttpRequest, sample_ids: list[Any]) -> dict[Any, str]:
    """The answer to the last attempt of each sample, for users who may see it, or the error of that attempt."""
    if not request.user.has_perm("jobs.view_attempt"):  # type: ignore[union-attr]
        return {}
    last = Attempt.objects.filter(trigger_id__in=sample_ids).order_by("trigger_id", "-number")
    answers = may_see_payloads(request.user)
    return {
        attempt.trigger_id: visible((answers and attempt.response_excerpt) or attempt.error_message)[
            :MAX_ANSWER
        ]
        for attempt in last.distinct("trigger_id")
    }


def _list_url(group: Any, since: datetime) -> str:
    alike = Fingerprint(*(getattr(group, field) for field in Fingerprint._fields))
    query = {"tenant__id__exact": group.tenant_id, "since": instant_text(since)[:16]} | _alike(alike)
    return f"{reverse('admin:jobs_deadletter_changelist')}?{urlencode(query)}"
