"""Buttons that write: each asks first, needs the permission to change, calls one action, and tells the result.

An error of ``jobs.core.errors`` becomes a message, so a click can be refused but never fail. A GET only asks; the write
happens on the POST that confirms, which Django holds to its CSRF token.
"""

from collections.abc import Callable, Mapping
from typing import Any

from django.contrib import messages
from django.db.models import Model
from django.http import Http404, HttpRequest, HttpResponseBase, QueryDict
from unfold.dataclasses import ActionDialog
from unfold.decorators import action
from unfold.enums import ActionVariant
from unfold.forms import BaseDialogForm

from jobs.core.errors import CarillonError, InvalidInput
from jobs.core.json_rules import check_text
from jobs.shapes.job import MAX_REASON
from jobs.shapes.operations import MAX_NOTE
from tenants.console import ConsoleAdmin, back_to


class Dialog(ActionDialog):
    """Unfold's dialog, with the words of the button that dismisses it (``templates/unfold/helpers/dialog.html``)."""

    dismiss: str


def button(
    title: str,
    *,
    asks: str,
    icon: str,
    permission: str = "operate",
    variant: ActionVariant = ActionVariant.DEFAULT,
    form: type[BaseDialogForm] = BaseDialogForm,
    confirm: str = "",
    dismiss: str = "Go back",
) -> Callable[[Callable[..., Any]], Any]:
    """A button of a page or list; the decorated method is called as ``(self, request, form, …)`` once confirmed.

    ``form``: the inputs of its dialog beside the confirmation. ``confirm`` and ``dismiss``: the words of the dialog's
    two buttons, never the same; by default the first has the words of the page's button.
    """
    confirm = confirm or title
    dialog = Dialog(
        title=f"{confirm}?", description=asks, form_class=form, form_submit_text=confirm, dismiss=dismiss
    )
    return action(description=title, permissions=[permission], icon=icon, variant=variant, dialog=dialog)


def read_reason(typed: QueryDict) -> str:
    """Why jobs are paused, from the form that asks for it. Raises ``InvalidInput``."""
    reason = typed.get("reason", "").strip()
    check_text(reason, field="reason", max_length=MAX_REASON)
    return reason


def read_note(typed: Mapping[str, Any]) -> str:
    """Why dead letters are dismissed; the note is required. Raises ``InvalidInput``."""
    note = str(typed.get("note", "")).strip()
    if not note:
        raise InvalidInput({"note": "Is required: a sentence that says why."})
    check_text(note, field="note", max_length=MAX_NOTE)
    return note


class OperableAdmin(ConsoleAdmin):
    """A user who may change a model may operate its rows, even rows that no user can edit."""

    def has_operate_permission(self, request: HttpRequest, obj: object = None) -> bool:
        label, name = self.opts.app_label, self.opts.model_name
        return bool(request.user.has_perm(f"{label}.change_{name}"))  # type: ignore[union-attr]

    def row(self, request: HttpRequest, object_id: str) -> Any:
        """The row of that id. Raises ``Http404``."""
        found = self.get_object(request, object_id)
        if found is None:
            raise Http404
        return found

    def carry_out(
        self,
        request: HttpRequest,
        row: Model,
        write: Callable[[], object],
        *,
        done: str,
        url: str = "",
        leads_to: Callable[[Any], str] | None = None,
    ) -> HttpResponseBase:
        """Call ``write``, note it in the row's history, and go back to the page or to ``url``.

        ``leads_to``: the address of the page of the object that ``write`` returns.
        """
        try:
            written = write()
        except CarillonError as error:
            messages.error(request, str(error))
        else:
            self.log_change(request, row, done)
            messages.success(request, done)
            url = leads_to(written) if leads_to else url
        return back_to(request, url or request.path.rstrip("/").rpartition("/")[0] + "/change/")
