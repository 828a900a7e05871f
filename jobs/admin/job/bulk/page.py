"""The page that asks before many jobs are touched, and begins one operation for each tenant.

It shows how many jobs of each tenant match; the operator confirms that number (``jobs.admin.shared.shares``). The audit
trail records the operations' changes in the operator's name.
"""

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.urls import reverse

from jobs.actions import definition
from jobs.actions.bulk import edits
from jobs.actions.bulk.operations import begin_operation
from jobs.admin.job.bulk.choice import CannotTell, Chosen, chosen, shares
from jobs.admin.job.bulk.verbs import VERBS, Verb
from jobs.admin.shared.pages import ConsolePage
from jobs.admin.shared.shares import Share, check_confirmation
from jobs.admin.shared.writes import read_reason
from jobs.core.errors import CarillonError, InvalidInput
from jobs.core.labels import read_selector
from jobs.core.policies import Priority
from jobs.models import Operation
from jobs.selection import walks
from tenants.models import Tenant


class BulkPage(ConsolePage):
    title = "Jobs"
    template_name = "admin/jobs/job/bulk.html"
    verb: Verb

    def setup(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        super().setup(request, *args, **kwargs)
        verb = VERBS.get(kwargs["verb"])
        if verb is None:
            raise Http404
        self.verb = verb

    def is_permitted(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm(self.verb.permission))  # type: ignore[union-attr]

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return self._asked()

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        try:
            choice = chosen(request.GET)
            found = shares(request.user, choice, verb=self.verb.name)
            if "preview" in request.POST:
                return self._asked(preview=self._preview(choice, found))
            if not found:
                raise CannotTell("No job matches any more: nothing was done.")
            check_confirmation(request.POST, found)
            how = [self._how(share) for share in found]
        except CarillonError as error:
            messages.error(request, _words(error))
            return self._asked()
        begun = [self._begin(choice, share, each) for share, each in zip(found, how, strict=True)]
        operations = [operation for operation in begun if operation is not None]
        if len(operations) == 1 == len(found):
            return HttpResponseRedirect(reverse("admin:jobs_operation_change", args=[operations[0].id]))
        return HttpResponseRedirect(reverse("admin:jobs_operation_changelist"))

    def _asked(self, **shown: Any) -> HttpResponse:
        return self.render_to_response(self.get_context_data(**shown))

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        asked: dict[str, Any] = {"verb": self.verb, "list_url": self._list_url(), "typed": self.request.POST}
        asked["priorities"] = [priority.label for priority in Priority]
        try:
            choice = chosen(self.request.GET)
            found = shares(self.request.user, choice, verb=self.verb.name)
        except CannotTell as error:
            asked |= {"problem": str(error), "title": f"{self.verb.title} jobs"}
        else:
            asked |= {"shares": found, "choice": choice, "title": self._question(found)}
            asked["confirm"] = self._answer(found)
        return super().get_context_data(**(asked | kwargs))

    def _question(self, found: list[Share]) -> str:
        of = ", ".join(share.in_words for share in found)
        return f"{self.verb.title} {of}?" if found else f"{self.verb.title}: no job matches"

    def _answer(self, found: list[Share]) -> str:
        if len(found) == 1:
            return f"{self.verb.title} {found[0].in_words}"
        return f"{self.verb.title} these jobs of {len(found)} tenants"

    def _list_url(self) -> str:
        query = self.request.GET.copy()
        query.pop("ids", None)
        return f"{reverse('admin:jobs_job_changelist')}?{query.urlencode()}"

    def _how(self, share: Share) -> dict[str, Any]:
        """The further arguments of the operation. Raises ``InvalidInput``."""
        if self.verb.name == "edit":
            return {"changes": self._changes(share.tenant)}
        if self.verb.name == "pause":
            return {"reason": read_reason(self.request.POST)}
        return {}

    def _changes(self, tenant: Tenant) -> dict[str, Any]:
        typed = self.request.POST
        changes: dict[str, Any] = {}
        if typed.get("priority"):
            changes["priority"] = typed["priority"]
        labels: dict[str, Any] = {}
        if text := typed.get("labels", "").strip():
            labels |= read_selector(text)
        labels |= {name.strip(): None for name in typed.get("without", "").split(",") if name.strip()}
        if labels:
            changes["labels"] = labels
        if not changes:
            raise InvalidInput({"": "Give a change: the priority, or labels."})
        return definition.read_patch(changes, tenant=tenant)

    def _preview(self, choice: Chosen, found: list[Share]) -> list[dict[str, Any]]:
        """For each tenant, the effect that the change would have on the first of its jobs."""
        seen = []
        for share in found:
            changes = self._changes(share.tenant)
            some = walks.first(choice.wanted, verb=self.verb.name, tenant=share.tenant, most=edits.PREVIEWED)
            seen.append({"tenant": share.tenant, **edits.preview(some, tenant=share.tenant, changes=changes)})
        return seen

    def _begin(self, choice: Chosen, share: Share, how: dict[str, Any]) -> Operation | None:
        what = f"{self.verb.title}, {share.in_words}"
        expected = share.matching if share.exact else None
        try:
            operation = begin_operation(
                tenant=share.tenant,
                verb=self.verb.name,
                wanted=choice.wanted,
                expected=expected,
                **how,
            )
        except CarillonError as error:
            messages.error(self.request, f"{what}: not begun. {error}")
            return None
        messages.success(self.request, f"{what}: begun.")
        return operation


def _words(error: CarillonError) -> str:
    if isinstance(error, InvalidInput):
        return "; ".join(
            f"{field}: {' '.join(told)}" if field else " ".join(told) for field, told in error.errors.items()
        )
    return str(error)
