"""The form's test send: first the request that would be sent; once confirmed, how it went."""

from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from django import forms
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse

from jobs.actions.definition import check_payload
from jobs.actions.jobs import is_test_send, send_test
from jobs.admin.editing.fragments import FormFragment
from jobs.admin.editing.inputs import JsonField
from jobs.core.errors import CarillonError, InvalidInput
from jobs.core.states import ENDED
from jobs.explain import explain_trigger
from jobs.explain.gate import span
from jobs.models import Attempt, Job, Trigger
from tenants.console.reach import is_within_reach
from tenants.forms import NumberField


class _Inputs(forms.Form):
    payload = JsonField(rows=1)
    timeout_seconds = NumberField(required=False)


class TestSend(FormFragment):
    """Asks first; with ``confirmed`` it sends."""

    template_name = "admin/jobs/job/form/test_send.html"

    def told(self) -> dict[str, Any]:
        form = _Inputs(self.request.POST)
        if self.tenant is None:
            return {
                "errors": ["Choose a tenant first: the test uses its limits and is signed with its secret."]
            }
        if not form.is_valid():
            return {"errors": [text for texts in form.errors.values() for text in texts]}
        payload = form.cleaned_data["payload"]
        try:
            check_payload(payload, job_type="webhook", tenant=self.tenant)
            if self.request.POST.get("confirmed") != "yes":
                return {"asks": _summary(payload), "tenant": self.tenant}
            job = send_test(
                tenant=self.tenant, payload=payload, timeout_seconds=form.cleaned_data["timeout_seconds"]
            )
        except InvalidInput as error:
            return {"errors": [f"{path}: {' '.join(texts)}" for path, texts in error.errors.items()]}
        except CarillonError as error:
            return {"errors": [str(error)]}
        return _progress(job)


class TestSendProgress(FormFragment):
    """How a test send goes, asked again until it has ended."""

    template_name = "admin/jobs/job/form/test_send.html"
    http_method_names = ("get",)

    def get(self, request: HttpRequest, job_id: UUID) -> HttpResponse:
        job = Job.objects.filter(pk=job_id).first()
        if job is None or not is_test_send(job):
            raise Http404
        if not is_within_reach(request.user, job.tenant_id):
            raise PermissionDenied
        return self.render_to_response(_progress(job))


def _summary(payload: dict[str, Any]) -> dict[str, Any]:
    """The request in words, without the query of its URL, which may be secret."""
    url = urlsplit(payload["url"])
    return {
        "method": payload.get("method", "POST"),
        "url": f"{url.scheme}://{url.netloc}{url.path}" + ("?…" if url.query else ""),
        "headers": len(payload.get("headers", {})),
        "body": "body" in payload,
    }


def _progress(job: Job) -> dict[str, Any]:
    trigger = Trigger.objects.filter(job_id=job.id).order_by("-scheduled_for").first()
    ended = trigger is not None and trigger.state in ENDED
    told: dict[str, Any] = {"job": job, "waits": not ended}
    if trigger is None:
        return told
    told["trigger_url"] = reverse("admin:jobs_trigger_change", args=[trigger.pk])
    told["summary"] = explain_trigger(tenant=job.tenant, trigger_id=trigger.id).summary
    attempt: Any = (
        Attempt.objects.filter(trigger_id=trigger.id).order_by("-number").first() if ended else None
    )
    if attempt is not None:
        told |= {
            "succeeded": trigger.state == "succeeded",
            "status": attempt.http_status,
            "error": attempt.error_message,
            "answer": attempt.response_excerpt,
            "took": span(attempt.duration) if attempt.duration else "",
        }
    return told
